"""LEAF. The two addresses of the service: {api_url} serves /v1, {base_url} everything else.

With GATEWAY_API_HOST and GATEWAY_BASE_HOST unset, one address serves both.
"""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

ALIVE, READY, METRICS = "healthz", "readyz", "metrics"
_PROBES = {ALIVE, READY, METRICS}
_API_SEGMENTS = {"v1", "api", *_PROBES}

# Probes come by IP address, from machines that know no host name of ours.
_ANY_HOST = {f"/{probe}" for probe in _PROBES}


def is_api(request: HttpRequest) -> bool:
    """Whether a program is asking: decided by the first segment of the path, as the routing is."""
    return request.path_info.lstrip("/").partition("/")[0] in _API_SEGMENTS


class AddressMiddleware:
    """Chooses the routes by host. A host that is neither of the two is refused by ALLOWED_HOSTS or finds nothing."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info not in _ANY_HOST:
            urlconf = _urlconf(_without_default_port(request.get_host().lower()))
            if urlconf:
                request.urlconf = urlconf
        return self.get_response(request)


def _without_default_port(host: str) -> str:
    # A client may name the port it need not name.
    return host.removesuffix(":443").removesuffix(":80")


def _urlconf(host: str) -> str | None:
    api_host, base_host = settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST
    if not (api_host and base_host) or api_host == base_host:
        return None
    if host == api_host:
        return "gateway_project.urls_api"
    if host == base_host:
        return "gateway_project.urls_base"
    return "gateway_project.urls_health"
