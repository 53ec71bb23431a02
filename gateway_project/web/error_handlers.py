"""Replies to errors outside views: JSON to API clients, a page to browsers."""

import sys
from collections.abc import Callable
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from gateway_project import errors, logs
from gateway_project.web import error_replies, wrong_paths
from gateway_project.web.hosts import is_api


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
        response = error_replies.respond(error, request)
    error_replies.hand_on(error, request, response)
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
