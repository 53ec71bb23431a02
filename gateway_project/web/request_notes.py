"""Notes on a request on its way: for its log line, the history of refusals and the activity log."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
from django.http import HttpRequest
from rest_framework.request import Request


class RequestNotes(msgspec.Struct):
    """The ids of a request, of who sends it and of what it is about. None of them is secret."""

    id: str = ""  # in the reply, in error messages and in all log lines
    key_id: str | None = None  # of the API key that a view authenticated
    management_key_id: str | None = None
    program: str = ""  # which acts where no person does
    model_id: Any = ""  # the body's ``model``, before it is checked
    completion_id: str | None = None


# Written in C, since each completion asks several times. RequestLogMiddleware gives every request its notes.
notes_of: Callable[[HttpRequest], RequestNotes] = attrgetter("notes")
notes_of_api: Callable[[Request], RequestNotes] = attrgetter("_request.notes")


def notes_or_empty(request: HttpRequest | None) -> RequestNotes:
    """Return the notes of a request, or empty ones where there is no request, or one that did not pass the middleware."""
    return getattr(request, "notes", None) or RequestNotes()
