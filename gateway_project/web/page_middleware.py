"""Django's middleware for pages, skipped for API requests: sessions, CSRF, messages, headers for browsers.

The classes are subclasses of Django's, so that they satisfy the admin's system checks.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import csp.constants
import gevent
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware

from gateway_project import errors, logs
from gateway_project.db import pool
from gateway_project.net import disconnects
from gateway_project.web import error_handlers, error_replies
from gateway_project.web.hosts import is_api

logger = logging.getLogger("gateway.request")


class PagesOnly:
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


class PageErrorMiddleware(PagesOnly, MiddlewareMixin):
    """Answers with an error of the API that a page raised, such as too many attempts to sign in, in words.

    That the database is unavailable is such an error, too. All others are Django's to report.
    """

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if is_api(request) or not (isinstance(exception, errors.ApiError) or pool.is_unavailable(exception)):
            return None
        return error_handlers.respond(request, error_replies.translate(exception))


class PageTextMiddleware(PagesOnly, MiddlewareMixin):
    """Rejects addresses that contain a NUL: PostgreSQL accepts none in texts, so a query would fail later with a 500."""

    def process_request(self, request: HttpRequest) -> None:
        if "\x00" in request.path_info:
            raise Http404
        if "\x00" in unquote(request.META.get("QUERY_STRING", "")):
            raise BadRequest("The address contains a NUL character.")


class PageBodyMiddleware(PagesOnly, MiddlewareMixin):
    """Reads the form, within REQUEST_BODY_TIMEOUT_SECONDS and before anything of the request needs a database connection.

    Django would read it when something first asks for a field, and wait for the rest of it for ever. A request whose client has
    hung up meanwhile goes no further.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if not request.META.get("CONTENT_LENGTH"):
            return None
        client = request.META.get("gunicorn.socket")
        try:
            with gevent.Timeout(settings.REQUEST_BODY_TIMEOUT_SECONDS):
                request.body  # noqa: B018  Django keeps it, and parses the form from it
        except gevent.Timeout:
            disconnects.stop_reading(client)
            return error_handlers.respond(request, errors.RequestTimeout("The form did not arrive in time."))
        except UnreadablePostError:
            raise BadRequest("The form ended before its Content-Length.") from None
        if disconnects.has_disconnected(client):
            return HttpResponse(status=errors.RequestTimeout.status)  # which nobody reads: the client has hung up
        return None


class PageSecurityMiddleware(PagesOnly, SecurityMiddleware): ...


class PageStaticMiddleware(PagesOnly, WhiteNoiseMiddleware): ...


class PageCommonMiddleware(PagesOnly, CommonMiddleware): ...


class PageSessionMiddleware(PagesOnly, SessionMiddleware): ...


class PageCsrfMiddleware(PagesOnly, CsrfViewMiddleware):
    def process_view(self, request: HttpRequest, *args: Any) -> Any:
        return None if is_api(request) else super().process_view(request, *args)

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        logs.report_failure(logger, "the form was refused: %s", reason)  # Django's own line about it is off
        response: HttpResponse = super()._reject(request, reason)  # type: ignore[misc]
        return response


class PageAuthenticationMiddleware(PagesOnly, AuthenticationMiddleware): ...


class PageMessageMiddleware(PagesOnly, MessageMiddleware): ...


class PageFrameMiddleware(PagesOnly, XFrameOptionsMiddleware): ...


class PagePolicyMiddleware(PagesOnly, CSPMiddleware):
    """Computes the policy once for all pages but those that change it: the library copies the settings for each reply."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if settings.DEBUG or any(name.startswith("_csp") for name in vars(response)):
            return super().process_response(request, response)
        response.setdefault(csp.constants.HEADER, _policy())
        return response


@functools.cache
def _policy() -> str:
    return build_policy()
