"""Responses in the background: their request is answered at once, and they run in the same process once the answer is sent.

Such a response has a row from the beginning. Until the row has a final reply or a cancellation, the completion tells the state
of the response: it runs, or its process died and the sweeper resolved the completion.
"""

import logging
from typing import Any

from completions.charging import idempotency, stored_responses
from completions.inbound.responses import keeping
from completions.inbound.responses.keeping import Keeping
from completions.inbound.responses.reply import ResponsesFormat
from completions.models import StoredResponse
from completions.relay import whole
from completions.relay.running import Running
from completions.relay.slots import Slot
from completions.request.fields import Fields
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.text import compact_json
from gateway_project.web import error_replies
from gateway_project.web.bodies_in_flight import process_bodies

logger = logging.getLogger("gateway.stored_responses")

_REPLY_BYTES_MAX = 16_384
_LOST = "The process that ran it ended, or its reply could not be stored."
_UNREPLIED = errors.ServiceUnavailable("The reply was too large to be stored, or the database was unavailable.")


def begin(running: Running, reply_format: ResponsesFormat, kept: Keeping) -> bytes:
    """Note that an admitted request will run. Return the reply, which a retry gets, too."""
    response = reply_format.response(running, status="queued", output=[])
    completion = running.admitted.completion
    stored_responses.begin(completion.id, completion.account_id, kept.previous_id, _short_reply(response))
    reply = compact_json.dumps(response)
    if running.admitted.idempotency_key:
        idempotency.store_reply(completion, reply)
    pool.release_connection()  # its provider takes its time
    return reply


def run(running: Running, reply_format: ResponsesFormat, slot: Slot, kept_bytes: int) -> None:
    """Relay a request to its end, settle it, and store its reply or why it failed. Raises nothing."""
    completion = running.admitted.completion
    in_memory = running.admitted.request.body.size_bytes + kept_bytes
    with slot, process_bodies.counted_reply(completion.account_id, in_memory):
        error: errors.ApiError = _UNREPLIED
        try:
            whole.relay(running, reply_format)
            if running.response is not None:
                return
        except Exception as exception:  # it is settled or released, and no client waits for an answer
            error = error_replies.translate(exception)
        response = reply_format.failed(running, error, output=[])
        try:
            stored_responses.end(completion.id, completion.account_id, _short_reply(response))
        except pool.DATABASE_ERRORS as failure:  # its completion tells that it ended
            logger.error("cannot note that %s failed: %s", completion.id, errors.reason(failure))
        finally:
            pool.release_connection()


def _short_reply(response: Fields) -> bytes:
    """Return the reply to store while there is no other: without what the request repeated, if that is large."""
    reply = keeping.as_reply(response)
    if len(reply) <= _REPLY_BYTES_MAX:
        return reply
    plain: Fields = {"instructions": None, "metadata": {}, "tool_choice": "auto", "tools": []}
    return keeping.as_reply({**response, **plain, "text": {"format": {"type": "text"}}})


def is_ended(found: StoredResponse) -> bool:
    """Return whether the response no longer changes."""
    return found.stored_bytes > 0 or found.cancelled_at is not None or found.completion.settlement is not None


def state(found: StoredResponse, response: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that tell what became of a response that has no reply. ``response`` is what was stored of it."""
    if found.cancelled_at is not None:
        return {"status": "cancelled", "error": None}
    if found.completion.settlement is None:
        return {"status": "in_progress"}
    if bytes(response["status"]) == b'"failed"':
        return {}
    return {"status": "failed", "error": {"code": "server_error", "message": _LOST}, "store": False}
