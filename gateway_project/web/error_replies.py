"""LEAF. How DRF speaks our language: JSON whatever was asked for, and one exception handler for everything."""

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation

from gateway_project import errors
from gateway_project.db import pool
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut

logger = logging.getLogger("gateway.api")


class AlwaysJSON(DefaultContentNegotiation):
    """The API answers JSON; an Accept header that asks for something else is not an error worth failing for."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


def handle_exception(exception: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's EXCEPTION_HANDLER: every exception of a view becomes one of ours."""
    return respond(translate(exception), context["request"])


def respond(error: errors.ApiError, request: HttpRequest) -> HttpResponse:
    """The reply for ``error``; an unforeseen one names only the request."""
    if isinstance(error, errors.InternalError):
        error.message = f"Something went wrong on our side. Quote request {getattr(request, 'id', 'unknown')}."
    return JsonResponse(error.body(), status=error.status, headers=error.headers)


def translate(exception: Exception) -> errors.ApiError:
    """Which of our errors an exception of Django, DRF or the database is."""
    if isinstance(exception, errors.ApiError):
        return exception
    if isinstance(exception, exceptions.ValidationError):
        return _from_validation(exception)
    for foreign, ours, message in _TRANSLATIONS:
        if isinstance(exception, foreign):
            return ours(message or str(exception))
    if isinstance(exception, (*pool.UNAVAILABLE, OutcomeUnknown, WaitTimedOut)):
        logger.error("the database is away: %s", exception)
        return errors.ServiceUnavailable("The gateway cannot reach its own store at the moment.")
    logger.error("unexpected %s", type(exception).__name__, exc_info=exception)
    return errors.InternalError("")


_NO_KEY = "You did not provide an API key. Send it as Authorization: Bearer <API_KEY>."
_TRANSLATIONS: list[tuple[type[Exception], type[errors.ApiError], str]] = [
    (exceptions.NotAuthenticated, errors.InvalidApiKey, _NO_KEY),
    (exceptions.AuthenticationFailed, errors.InvalidApiKey, ""),
    (exceptions.MethodNotAllowed, errors.MethodNotAllowed, ""),
    (exceptions.UnsupportedMediaType, errors.UnsupportedMediaType, "Send the body as Content-Type: application/json."),
    (exceptions.ParseError, errors.InvalidRequest, ""),
    (exceptions.NotFound, errors.PathNotFound, "There is nothing at this path."),
    (Http404, errors.PathNotFound, "There is nothing at this path."),
    (exceptions.PermissionDenied, errors.Forbidden, ""),
    (PermissionDenied, errors.Forbidden, "You may not do this."),
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
    return errors.InvalidRequest(f"{param}: {detail}" if param else str(detail), param=param)
