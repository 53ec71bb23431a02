"""LEAF. What pages need and API requests must not pay for: sessions, CSRF, messages, headers for browsers.

Each class is Django's own, except that requests for the API go straight through it. Being subclasses, they satisfy the
admin's system checks.
"""

from typing import Any

from csp.middleware import CSPMiddleware
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.shortcuts import render
from whitenoise.middleware import WhiteNoiseMiddleware

from gateway_project import api, errors

_API_SEGMENTS = {"v1", "api", "healthz", "readyz", "metrics"}


def is_api(request: HttpRequest) -> bool:
    """Whether a program is asking: decided by the first segment of the path, as the routing is."""
    return request.path_info.lstrip("/").partition("/")[0] in _API_SEGMENTS


class _PagesOnly:
    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_api(request):
            return self.get_response(request)  # type: ignore[attr-defined]
        return super().__call__(request)  # type: ignore[misc]


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


# --- What is shown when there is no view to ask: JSON to programs, a page to people ----------------------------


def _wants_page(request: HttpRequest) -> bool:
    return not is_api(request) and "text/html" in request.headers.get("Accept", "")


def _answer(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    if _wants_page(request):
        return render(request, "error.html", {"error": error}, status=error.status)
    return api.respond(error, request)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, errors.InvalidRequest("The request is malformed."))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, errors.Forbidden("You may not do this."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, errors.PathNotFound("There is nothing at this path."))


def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, errors.InternalError(""))
