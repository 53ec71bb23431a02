"""One question over HTTP to one upstream: asked, waited for, and, however it failed, explained in one way.

What the adapters of providers share. Each knows only its own wire format.
"""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings

from completions.chat import Call
from completions.providers import base
from completions.providers.base import ProviderFailed
from gateway_project import errors, http

logger = logging.getLogger("gateway.providers")

_MESSAGE_CHARACTERS_MAX = 300

# What a refusal's status and body mean: the status that it should have had, and the seconds to wait, "" when it says none.
Meaning = Callable[[int, bytes], tuple[int, str]]


class Unusable(Exception):
    """What came is not a reply in the upstream's format, or says that there will be none."""


class Refused(Unusable):
    """It says so itself, where its status said otherwise. ``status`` is the one that would have been right."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def _plain_meaning(status: int, body: bytes) -> tuple[int, str]:
    return status, ""


def post(call: Call, path: str, headers: dict[str, str], fields: dict[str, Any], *, stream: bool,
         meaning: Meaning = _plain_meaning) -> http.Reply:  # fmt: skip
    """Send ``fields`` as JSON to ``path`` below the provider's base URL; a 2xx reply, to be closed. Raises ProviderFailed."""
    accept = "text/event-stream" if stream else "application/json"
    headers = {"Content-Type": "application/json", "Accept": accept, **headers}
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    try:
        reply = http.post(f"{call.offer.base_url}{path}", headers=headers, body=body)
    except http.OutboundError as error:
        raise broken_off(call, error, upstream_worked=False) from error
    if not 200 <= reply.status < 300:
        try:
            raise ProviderFailed(_refusal(call, reply, meaning), upstream_worked=False)
        finally:
            reply.close()
    return reply


def arrivals(reply: http.Reply) -> Iterator[bytes | None]:
    """What each read brings, to the end of the reply; None when a heartbeat is due, until silence has lasted too long."""
    idle_seconds = 0
    while (received := reply.read_some(settings.STREAM_HEARTBEAT_SECONDS)) != b"":
        if received is not None:
            idle_seconds = 0
        else:
            idle_seconds += settings.STREAM_HEARTBEAT_SECONDS
            if idle_seconds >= settings.UPSTREAM_IDLE_SECONDS:
                raise http.TimedOut("idle")
        yield received


# --- Failing ----------------------------------------------------------------------------------------------------


def _refusal(call: Call, reply: http.Reply, meaning: Meaning) -> errors.ApiError:
    body = _body(reply)
    reason = _presentable(call, parse_error(body))
    logger.warning("provider %s answered %s: %s", call.offer.provider_slug, reply.status, reason)
    status, wait_seconds = meaning(reply.status, body)
    return base.refusal(status, reason, _retry_after(reply.header("retry-after") or wait_seconds))


def _body(reply: http.Reply) -> bytes:
    try:
        return reply.read_all()
    except http.OutboundError:
        return b""


def _presentable(call: Call, text: str) -> str:
    """An upstream's words without our key in them, on one line of bounded length."""
    printable = "".join(character for character in text if character.isprintable())
    return printable.replace(call.offer.api_key or "\x00", "***")[:_MESSAGE_CHARACTERS_MAX]


def _retry_after(seconds: str) -> dict[str, str]:
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 10 and int(seconds) <= errors.CLIENT_PATIENCE_SECONDS:
        return {"Retry-After": seconds}
    return {}


def broken_off(call: Call, error: Exception, *, upstream_worked: bool) -> ProviderFailed:
    """What to raise when the reply ended in ``error``: a fault of the connection, or Unusable."""
    reason = _presentable(call, str(error))
    logger.warning("provider %s broke off (%s): %s", call.offer.provider_slug, type(error).__name__, reason)
    if isinstance(error, Refused):
        return ProviderFailed(base.refusal(error.status, reason), upstream_worked=upstream_worked)
    return ProviderFailed(_told(error, upstream_worked=upstream_worked), upstream_worked=upstream_worked)


def _told(error: Exception, *, upstream_worked: bool) -> errors.ApiError:
    if isinstance(error, http.TimedOut):
        return base.timed_out()
    if isinstance(error, http.ConnectFailed):
        return base.unreachable()
    if isinstance(error, Unusable) and not upstream_worked:
        return base.unreadable()
    return base.broke_off()


def parse_error(body: bytes) -> str:
    """The words of an error object, in any of the shapes there are: Gemini's is in a list. "" when it has none."""
    try:
        reply = json.loads(body)
        error = (reply[0] if isinstance(reply, list) else reply)["error"]
        return str(error if isinstance(error, str) else error["message"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return ""
