"""API requests go from here to their views: the layers of middleware behind this one are for pages, and load with the first."""

from collections.abc import Callable

import gevent
from django.http import HttpRequest, HttpResponse
from django.urls import URLResolver, get_resolver, set_urlconf

from gateway_project.web.hosts import is_api


class ApiMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_page = get_response
        self._has_loaded_pages = False

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_api(request):
            return self._page(request)
        # As Django does behind all middleware, but for what only pages and asynchronous views need.
        urlconf = getattr(request, "urlconf", None)  # without one, Django has set ROOT_URLCONF
        if urlconf:
            set_urlconf(urlconf)
        request.resolver_match = match = get_resolver(urlconf).resolve(request.path_info)
        response: HttpResponse = match.func(request, *match.args, **match.kwargs)
        return response.render() if hasattr(response, "render") else response

    def _page(self, request: HttpRequest) -> HttpResponse:
        if not self._has_loaded_pages:  # the first link to a page would load them, without turns for other requests in between
            for pattern in get_resolver().url_patterns:
                if isinstance(pattern, URLResolver):
                    pattern.url_patterns  # noqa: B018  imports the app's URLs
                    gevent.sleep(0)
            self._has_loaded_pages = True
        return self._get_page(request)
