"""LEAF. What pages need and API requests must not pay for: sessions, CSRF, messages, headers for browsers.

Each class is Django's own, except that requests for the API go straight past all of them. Being subclasses, they satisfy the
admin's system checks.
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
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        super().__init__(get_response)  # type: ignore[call-arg]
        # Django wraps each layer in a function that has the layer's attributes: so each knows what lies behind all of us.
        self._behind_pages: Callable[[HttpRequest], HttpResponse] = getattr(get_response, "_behind_pages", get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_api(request):
            return self._behind_pages(request)
        response: HttpResponse = super().__call__(request)  # type: ignore[misc]
        return response


class PageTextMiddleware(_PagesOnly, MiddlewareMixin):
    """A NUL in an address is no text: PostgreSQL would refuse it later, as an error of ours."""

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
