"""API requests go from here to their views: all layers of middleware behind this one are for pages."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import get_resolver, set_urlconf

from gateway_project.web.hosts import is_api


class ApiMiddleware:
    """Answers API requests, and passes pages on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_page = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return _call_view(request) if is_api(request) else self._get_page(request)


def _call_view(request: HttpRequest) -> HttpResponse:
    """Find the view and call it as Django does behind all middleware, but for what only pages and asynchronous views need."""
    urlconf = getattr(request, "urlconf", None)  # without one, Django has set ROOT_URLCONF
    if urlconf:
        set_urlconf(urlconf)
    request.resolver_match = match = get_resolver(urlconf).resolve(request.path_info)
    response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    return response.render() if hasattr(response, "render") else response
