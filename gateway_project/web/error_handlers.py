"""Replies to errors outside views: JSON to API clients, a page to browsers."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from gateway_project import errors, logs
from gateway_project.web import error_replies, wrong_paths
from gateway_project.web.hosts import is_api

_NOTHING = "There is nothing at this path."


def _wants_page(request: HttpRequest) -> bool:
    return not is_api(request) and "text/html" in request.headers.get("Accept", "")


def respond(request: HttpRequest, error: errors.ApiError) -> HttpResponse:
    """Return the reply to an error: a page if the client wants one, else JSON. Both have the error's headers."""
    if not _wants_page(request):
        return error_replies.respond(error, request)
    logs.explain(error)
    response = render(request, "error.html", {"error": error}, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.InvalidRequest("The request is malformed."))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.Forbidden("You may not do this."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, errors.PathNotFound(_NOTHING if _wants_page(request) else wrong_paths.message(request)))


def server_error(request: HttpRequest) -> HttpResponse:
    if exception := sys.exception():  # Django calls this while it handles one, and does not pass it
        logs.explain(exception, is_unexpected=True)
    return respond(request, errors.InternalError(""))
