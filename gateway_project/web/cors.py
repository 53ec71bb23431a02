"""Cross-origin requests (CORS) from pages in browsers, to the API only: pages of the gateway never have these headers.

The settings CORS_* say what GATEWAY_CORS_ORIGINS permits. No reply allows credentials: a page can send only a key of its own.
"""

from typing import cast

from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

# Public, and the same for every client: pages of any origin may read these, whatever the setting. Their replies do not vary by
# Origin, so that shared caches keep one copy.
_PUBLIC = {"/api/rankings", "/api/openapi.json"}
_PUBLIC_HEADERS = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "*"}
_PUBLIC_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "*, authorization",
    "Access-Control-Max-Age": str(settings.CORS_PREFLIGHT_MAX_AGE),
    "Content-Length": "0",
}


class ApiCorsMiddleware(CorsMiddleware):
    """django-cors-headers, without its cost for requests that come from no browser, and with the public paths."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_public = request.path_info in _PUBLIC
        if is_public and request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in request.META:
            return HttpResponse(headers={**_PUBLIC_HEADERS, **_PUBLIC_PREFLIGHT_HEADERS})
        if "HTTP_ORIGIN" in request.META and not is_public:
            return cast(HttpResponseBase, super().__call__(request))
        response = cast(HttpResponseBase, self.get_response(request))
        if is_public:
            for name, value in _PUBLIC_HEADERS.items():
                response[name] = value
        elif settings.GATEWAY_CORS_ORIGINS and self.is_enabled(request):
            patch_vary_headers(response, ("origin",))
        return response
