"""Headers for browsers that every reply has. Pages have more of them: see ``page_middleware``."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

_Headers = tuple[tuple[str, str], ...]
_ALWAYS: _Headers = (("X-Content-Type-Options", "nosniff"),)
_HSTS: _Headers = (("Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}"),)
_HAS_HSTS = settings.SECURE_HSTS_SECONDS > 0  # not on a developer's machine
_OVER_TLS = _ALWAYS + _HSTS if _HAS_HSTS else _ALWAYS


class SecurityHeadersMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        for name, value in headers(is_secure=_HAS_HSTS and request.is_secure()):
            response.headers[name] = value
        return response


def headers(*, is_secure: bool) -> _Headers:
    """Return names and values. A reply over plain HTTP must not ask for TLS (RFC 6797, section 7.2)."""
    return _OVER_TLS if is_secure else _ALWAYS
