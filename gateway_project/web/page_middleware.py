"""Django's middleware for pages, skipped for API requests: sessions, CSRF, messages, headers for browsers.

The classes are subclasses of Django's, so that they satisfy the admin's system checks.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from csp.middleware import CSPMiddleware
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware

from gateway_project.web.hosts import is_api


class _PagesOnly:
    """Passes API requests to the first layer behind all page middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        super().__init__(get_response)  # type: ignore[call-arg]
        # Django wraps each layer in a function that copies the layer's attributes, so the innermost value is passed outwards.
        self._behind_pages: Callable[[HttpRequest], HttpResponse] = getattr(get_response, "_behind_pages", get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_api(request):
            return self._behind_pages(request)
        response: HttpResponse = super().__call__(request)  # type: ignore[misc]
        return response


class PageTextMiddleware(_PagesOnly, MiddlewareMixin):
    """Rejects addresses that contain a NUL: PostgreSQL accepts none in texts, so a query would fail later with a 500."""

    def process_request(self, request: HttpRequest) -> None:
        if "\x00" in request.path_info:
            raise Http404
        if "\x00" in unquote(request.META.get("QUERY_STRING", "")):
            raise BadRequest("The address contains a NUL character.")


class PageSecurityMiddleware(_PagesOnly, SecurityMiddleware): ...


class PageStaticMiddleware(_PagesOnly, WhiteNoiseMiddleware): ...


class PageCommonMiddleware(_PagesOnly, CommonMiddleware): ...


class PageSessionMiddleware(_PagesOnly, SessionMiddleware): ...


class PageCsrfMiddleware(_PagesOnly, CsrfViewMiddleware):
    def process_view(self, request: HttpRequest, *args: Any) -> Any:
        return None if is_api(request) else super().process_view(request, *args)


class PageAuthenticationMiddleware(_PagesOnly, AuthenticationMiddleware): ...


class PageMessageMiddleware(_PagesOnly, MessageMiddleware): ...


class PageFrameMiddleware(_PagesOnly, XFrameOptionsMiddleware): ...


class PagePolicyMiddleware(_PagesOnly, CSPMiddleware): ...
