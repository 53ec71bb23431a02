"""Error replies in the API's format, which ``keys.refusal_history`` makes of every exception of a view, or as a page.

``urls`` names the handlers of errors outside views, which reply with JSON to API clients and with a page to browsers.
"""

import logging
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.template.loader import render_to_string
from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation

from gateway_project import errors, logs
from gateway_project.db import pool
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut
from gateway_project.web import wrong_paths
from gateway_project.web.hosts import is_api
from gateway_project.web.request_notes import notes_or_empty

logger = logging.getLogger("gateway.api")

_MAY_REDIRECT = "HTTP_X_GATEWAY_ANOTHER_HOST"  # the shipped nginx sends it with a request that it can give to another host


class AlwaysJSON(DefaultContentNegotiation):
    """Content negotiation that always chooses JSON, whatever the Accept header asks for."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


def as_json(error: errors.ApiError, request: HttpRequest) -> HttpResponse:
    """Return the reply to ``error`` in the API's format. The message of an InternalError names only the request id."""
    logs.explain(error)
    if isinstance(error, errors.InternalError):
        request_id = notes_or_empty(request).id or "unknown"
        error.message = f"Something went wrong on our side. If you contact support, quote request {request_id}."
    return JsonResponse(error.body(), status=error.status, headers=error.headers)


def hand_on(error: errors.ApiError, request: HttpRequest, response: HttpResponse, *, took_nothing: bool = False) -> bool:
    """Let nginx give the request to a host that is ready, if this one is not, and took nothing. Return whether it will."""
    took_nothing = took_nothing or request.method in ("GET", "HEAD")
    will = took_nothing and isinstance(error, errors.HostUnavailable) and _MAY_REDIRECT in request.META
    if will:
        response["X-Accel-Redirect"] = "@another_host"
    return will


def translate(exception: Exception) -> errors.ApiError:
    """Return the ApiError for an exception of Django, DRF or the database. The part that the caller cannot see is logged."""
    if isinstance(exception, errors.ApiError):
        return exception
    if isinstance(exception, exceptions.ValidationError):
        return _from_validation(exception)
    for kind, api_error, message in _TRANSLATIONS:
        if isinstance(exception, kind):
            return api_error(message or str(exception))
    if pool.is_too_slow(exception):
        logs.explain(exception)
        return errors.ServiceUnavailable("This takes too long. Select less, such as fewer days.")
    if pool.is_unavailable(exception) or isinstance(exception, (OutcomeUnknown, WaitTimedOut)):
        if not logs.explain(exception):
            logger.error("the database is unavailable: %s: %s", type(exception).__name__, errors.reason(exception))
        is_elsewhere_too = isinstance(exception, OutcomeUnknown) or pool.is_lock_timeout(exception)  # locked for all hosts
        may_be_better_off = pool.is_unavailable(exception) and not is_elsewhere_too
        kind = errors.HostUnavailable if may_be_better_off else errors.ServiceUnavailable
        return kind("The gateway's database is not available right now.")
    if not logs.explain(exception, is_unexpected=True):
        logger.error("unexpected %s", type(exception).__name__, exc_info=exception)
    return errors.InternalError("")


_NO_KEY = "Incorrect API key provided: you sent none. Send your key as Authorization: Bearer <API_KEY>."
_TRANSLATIONS: list[tuple[type[Exception], type[errors.ApiError], str]] = [
    (exceptions.NotAuthenticated, errors.InvalidApiKey, _NO_KEY),
    (exceptions.AuthenticationFailed, errors.InvalidApiKey, ""),
    (exceptions.MethodNotAllowed, errors.MethodNotAllowed, ""),
    (exceptions.UnsupportedMediaType, errors.UnsupportedMediaType, "Send the body as Content-Type: application/json."),
    (exceptions.ParseError, errors.InvalidRequest, ""),
    (exceptions.NotFound, errors.PathNotFound, "Path not found."),
    (Http404, errors.PathNotFound, "Path not found."),
    (exceptions.PermissionDenied, errors.Forbidden, ""),
    (PermissionDenied, errors.Forbidden, "You do not have permission to do this."),
    (RequestDataTooBig, errors.RequestTooLarge, "The request body is too large."),
    (UnreadablePostError, errors.InvalidRequest, "The request body ended before its Content-Length."),
    (SuspiciousOperation, errors.InvalidRequest, "The request is malformed."),
]


def _from_validation(exception: exceptions.ValidationError) -> errors.InvalidRequest:
    detail: Any = exception.detail
    path = ""
    while not isinstance(detail, str):
        if isinstance(detail, dict):
            name, detail = next(iter(detail.items()))
            path = f"{path}.{name}" if path else str(name)
        else:
            detail = next((item for item in detail if item), "invalid")
    param = path.removesuffix(".non_field_errors") or None
    return errors.InvalidRequest(f"{param}: {detail}" if param else str(detail), param=param, quotes_request=True)


def _wants_page(request: HttpRequest) -> bool:
    return not is_api(request) and "text/html" in request.headers.get("Accept", "")


def respond(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    """Return the reply to an error: a page if the client wants one, else JSON. Both have the error's headers."""
    return _reply(request, error, lambda: render_to_string("error.html", {"error": error}, request))


def refuse(request: HttpRequest, refusal: errors.ApiError) -> HttpResponse:
    """Return the reply to a request that gets no further, at the least cost: a page is rendered once for each message."""
    return _reply(request, refusal, lambda: _refusal_page(refusal.status, refusal.message))


def _reply(request: HttpRequest, error: errors.ApiError, page: Callable[[], str]) -> HttpResponse:
    if _wants_page(request):
        logs.explain(error)
        response = HttpResponse(page(), status=error.status, headers=error.headers)
    else:
        response = as_json(error, request)
    hand_on(error, request, response)
    return response


@lru_cache(maxsize=128)
def _refusal_page(status: int, message: str) -> str:
    """Return the page that says why, without a look at who asks."""
    error = {"status": status, "message": message}
    return render_to_string("error.html", {"error": error, "support_address": settings.SUPPORT_ADDRESS})


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.InvalidRequest("The request is malformed."))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.Forbidden("You do not have permission to do this."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.PathNotFound("Page not found." if _wants_page(request) else wrong_paths.message(request)))


def server_error(request: HttpRequest) -> HttpResponse:
    if exception := sys.exception():  # Django calls this while it handles one, and does not pass it
        logs.explain(exception, is_unexpected=True)
    return respond(request, errors.InternalError(""))
