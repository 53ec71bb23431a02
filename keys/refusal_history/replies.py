"""DRF's exception handler: replies to the error, and records the refusal of a known key. The log counts all others."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpResponse

from gateway_project.web import error_replies
from gateway_project.web.request_notes import notes_of
from keys.refusal_history import collector


def handle_exception(exception: Exception, context: dict[str, Any]) -> HttpResponse:
    """Return the reply to an exception of a view."""
    error, request = error_replies.translate(exception), context["request"]._request
    response = error_replies.as_json(error, request)
    notes = notes_of(request)
    took_nothing = getattr(context["view"], "takes_when_admitted", False) and not notes.completion_id
    is_refused = not error_replies.hand_on(error, request, response, took_nothing=took_nothing)
    if is_refused and notes.key_id:
        refusal = collector.new_refusal(error, datetime.now(UTC), notes.id, notes.model_id)
        collector.process_collector.record(notes.key_id, refusal)
    return response
