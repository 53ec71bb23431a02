"""Replies to errors outside views: JSON to API clients, a page to browsers."""

import sys
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from gateway_project import errors, logs
from gateway_project.web import error_replies, wrong_paths
from gateway_project.web.hosts import is_api

_NOTHING = "Page not found."


def _wants_page(request: HttpRequest) -> bool:
    return not is_api(request) and "text/html" in request.headers.get("Accept", "")


def respond(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    """Return the reply to an error: a page if the client wants one, else JSON. Both have the error's headers."""
    response = _page(request, error) if _wants_page(request) else error_replies.respond(error, request)
    error_replies.hand_on(error, request, response)
    return response


def _page(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    logs.explain(error)
    response = render(request, "error.html", {"error": error}, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def refuse(request: HttpRequest, refusal: errors.ApiError) -> HttpResponse:
    """Return the reply to a request that gets no further, at the least cost: a page is rendered once for each message."""
    response = _refused(refusal) if _wants_page(request) else error_replies.respond(refusal, request)
    logs.explain(refusal)
    error_replies.hand_on(refusal, request, response)
    return response


def _refused(refusal: errors.ApiError) -> HttpResponse:
    """Return the page that says why, without a look at who asks."""
    return HttpResponse(_refusal_page(refusal.status, refusal.message), status=refusal.status, headers=refusal.headers)


@lru_cache(maxsize=128)
def _refusal_page(status: int, message: str) -> bytes:
    error = {"status": status, "message": message}
    return render_to_string("error.html", {"error": error, "support_address": settings.SUPPORT_ADDRESS}).encode()


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.InvalidRequest("The request is malformed."))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.Forbidden("You do not have permission to do this."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.PathNotFound(_NOTHING if _wants_page(request) else wrong_paths.message(request)))


def server_error(request: HttpRequest) -> HttpResponse:
    if exception := sys.exception():  # Django calls this while it handles one, and does not pass it
        logs.explain(exception, is_unexpected=True)
    return respond(request, errors.InternalError(""))
