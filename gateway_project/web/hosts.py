"""Routing by host name: GATEWAY_API_HOST serves /v1, GATEWAY_BASE_HOST everything else; without both, one serves all.

Behind that, API requests leave the middleware, which continues for pages.
"""

from collections.abc import Callable
from typing import Any

import gevent
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.urls import URLResolver, get_resolver, reverse, set_urlconf

Layer = Callable[[HttpRequest], HttpResponse]

ALIVE, READY, METRICS = "healthz", "readyz", "metrics"
_PROBES = {ALIVE, READY, METRICS}
_HOSTS_MAX = 64  # that are known; a port makes another of each
_API_SEGMENTS = {"v1", "api", *_PROBES}

# Probes address the process by IP address, not by one of the two host names.
_ANY_HOST = {f"/{probe}" for probe in _PROBES}


def is_api(request: HttpRequest) -> bool:
    """Return whether a request is for an API, not a page. Decided by the first segment of the path, as routing is."""
    return request.path_info.lstrip("/").partition("/")[0] in _API_SEGMENTS


def api_url(request: HttpRequest) -> str:
    """Return the address of /v1, without a slash at its end. Raises DisallowedHost."""
    return f"{request.scheme}://{settings.GATEWAY_API_HOST or request.get_host()}"


def base_url(request: HttpRequest) -> str:
    """Return the address of everything else, without a slash at its end. Raises DisallowedHost."""
    return f"{request.scheme}://{settings.GATEWAY_BASE_HOST or request.get_host()}"


def configured_url(host: str) -> str:
    """Return the address of a configured host, for what is the same for everybody; "" if none is set."""
    return f"{'http' if settings.GATEWAY_DEVELOPMENT else 'https'}://{host}" if host else ""


class NoBaseHost(Exception):
    """No host name is known that links in mails may have: whoever asks for a mail chooses the Host header."""


def mailed_base_url(request: HttpRequest) -> str:
    """Return what links in mails begin with: the configured host, or a developer machine's own. Raises NoBaseHost."""
    if configured := configured_url(settings.GATEWAY_BASE_HOST):
        return configured
    host = request.get_host()
    if split_domain_port(host)[0] not in settings.LOCAL_HOSTS:
        raise NoBaseHost("GATEWAY_BASE_HOST is not set")
    return f"{request.scheme}://{host}"


def mailed_page(page: str, name: str, *args: Any) -> str:
    """Return the address of a page for mails that no request leads to; where no host is known the page's ``name``."""
    own = f"localhost:{settings.WEB_PORT}" if settings.GATEWAY_DEVELOPMENT and settings.WEB_PORT else ""
    base = configured_url(settings.GATEWAY_BASE_HOST or own)
    return f"{base}{reverse(page, args=args)}" if base else name


def without_conversion(get_response: Layer) -> Layer:
    """Return the next layer without Django's function around it, which makes a reply of an exception: it is not changed."""
    layer: Layer = getattr(get_response, "__wrapped__", get_response)
    return layer


class AddressMiddleware:
    """Chooses the routes by address and host. Other hosts than the two get 400 by ALLOWED_HOSTS, or find only the probes."""

    def __init__(self, get_response: Layer) -> None:
        self.get_response = without_conversion(get_response)
        self._urlconfs: dict[tuple[str, ...], str | None] = {}  # by the Host header and the settings

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.METRICS_ADDRESS and _is_at_port(request, settings.METRICS_ADDRESS[1]):
            request.urlconf = "gateway_project.urls.metrics"
        elif request.path_info not in _ANY_HOST:
            # Without the header Django takes the address at which the request came. A host is checked once.
            host = request.META.get("HTTP_HOST") or request.get_host()
            given = (host, settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST, *settings.ALLOWED_HOSTS)
            if given not in self._urlconfs:
                if len(self._urlconfs) >= _HOSTS_MAX:
                    self._urlconfs.clear()
                self._urlconfs[given] = _urlconf(request.get_host().lower().removesuffix(":443").removesuffix(":80"))
            if urlconf := self._urlconfs[given]:
                request.urlconf = urlconf
        return self.get_response(request)


def _is_at_port(request: HttpRequest, port: int) -> bool:
    """Return whether the request came to this port of ours. Gunicorn may take it from the Host header."""
    if request.META.get("SERVER_PORT") != str(port):
        return False
    here = request.META["gunicorn.socket"].getsockname()
    return isinstance(here, tuple) and here[1] == port  # a unix socket has a path


def _urlconf(host: str) -> str | None:
    api_host, base_host = settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST
    if not (api_host and base_host) or api_host == base_host:
        return None
    if host == api_host:
        return "gateway_project.urls.api"
    return "gateway_project.urls.base" if host == base_host else "gateway_project.urls.health"


class ApiMiddleware:
    """API requests go from here to their views: the layers of middleware behind it are for pages, and load with the first."""

    def __init__(self, get_response: Layer) -> None:
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
