"""One question over HTTP to one upstream: asked, waited for, read, and, however it failed, explained in one way.

What the adapters of providers share. Each knows only its own wire format.
"""

import json
import logging
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

import gevent
from django.conf import settings

from completions import sse
from completions.chat import Answer, Call, Chunk
from completions.providers import base
from completions.providers.base import Blame, ProviderFailed
from gateway_project import compact_json, errors
from gateway_project.net import http

logger = logging.getLogger("gateway.providers")

_MESSAGE_CHARACTERS_MAX = 300
_TURN_SECONDS = 0.01  # after which a stream that comes as fast as it can be read lets others have theirs

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


def post(
    call: Call, path: str, headers: dict[str, str], fields: dict[str, Any], *, stream: bool, meaning: Meaning = _plain_meaning
) -> http.Reply:
    """Send ``fields`` as JSON to ``path`` below the provider's base URL; a 2xx reply, to be closed. Raises ProviderFailed."""
    accept = "text/event-stream" if stream else "application/json"
    headers = {"Content-Type": "application/json", "Accept": accept, **headers}
    body = compact_json.dumps(fields)
    try:
        reply = http.post(
            f"{call.route.base_url}{path}", headers=headers, body=body, deadlines=call.route.deadlines, until=call.until
        )
    except http.OutboundError as error:
        raise broken_off(call, error, upstream_worked=False) from error
    if not 200 <= reply.status < 300:
        try:
            raise _refused(call, reply, meaning)
        finally:
            reply.close()
    return reply


def arrivals(reply: http.Reply) -> Iterator[bytes | None]:
    """What each read brings, to the end of the reply; None when a heartbeat is due, until silence has lasted too long.

    One is due whether or not something comes: it may be the upstream's own comments, of which nothing is passed on.
    """
    heard_at = beat_at = turn_at = time.monotonic()
    while True:
        silent_at, due_at = heard_at + reply.idle_seconds, beat_at + settings.STREAM_HEARTBEAT_SECONDS
        received = reply.read_some(max(min(silent_at, due_at) - time.monotonic(), 0))
        if received == b"":
            return
        if received is not None:
            yield received
            heard_at = time.monotonic()  # only now: while our own reader was slow nobody listened
            if heard_at - turn_at > _TURN_SECONDS:  # where more has come by then, reading it waits for nothing
                gevent.sleep(0)
                turn_at = time.monotonic()
        elif time.monotonic() >= silent_at:
            raise http.TimedOut("idle")
        if time.monotonic() >= due_at:
            yield None
            beat_at = time.monotonic()


# --- Reading ----------------------------------------------------------------------------------------------------


class Reader(Protocol):
    """Makes chunks of the events of one stream, in one wire format."""

    @property
    def has_passed_on(self) -> bool:
        """Any chunk."""

    @property
    def finished(self) -> bool:
        """It has said why the reply ends: what breaks from now on costs the caller nothing."""

    @property
    def done(self) -> bool:
        """What comes now is nothing."""

    def read_all(self, events: list[bytes]) -> tuple[list[Chunk], Unusable | None]:
        """The chunks of what one read brought; and why it ends here, to be raised when they are passed on."""


def read_each(read: Callable[[bytes], list[Chunk]], events: list[bytes]) -> tuple[list[Chunk], Unusable | None]:
    """The chunks of the events that one read brought, up to the one that is Unusable; and that failure, if there was one."""
    found: list[Chunk] = []
    try:
        for data in events:
            found += read(data)
    except Unusable as unusable:
        return found, unusable
    return found, None


def answer(call: Call, reply: http.Reply, parse: Callable[[bytes], Answer]) -> Answer:
    """What ``parse`` makes of the whole reply, which is closed. Raises ProviderFailed."""
    try:
        return parse(reply.read_all())
    except (http.OutboundError, Unusable) as error:
        raise broken_off(call, error, upstream_worked=not isinstance(error, Unusable)) from error
    finally:
        reply.close()


def chunks(call: Call, reply: http.Reply, reader: Reader) -> Generator[list[Chunk], None, None]:
    """What ``reader`` makes of the stream, as ``base.Adapter.stream`` promises it; the reply is closed at the end."""
    try:
        yield from _read(reply, reader)
    except (http.OutboundError, sse.EventTooLarge, Unusable) as error:
        if not reader.finished:
            upstream_worked = reader.has_passed_on or not isinstance(error, Unusable)
            raise broken_off(call, error, upstream_worked=upstream_worked) from error
    finally:
        reply.close()


def _read(reply: http.Reply, reader: Reader) -> Iterator[list[Chunk]]:
    decoder = sse.Decoder(settings.UPSTREAM_EVENT_BYTES_MAX)
    for received in arrivals(reply):
        if received is None:
            yield []
            continue
        found, failure = reader.read_all(decoder.feed(received))
        if found:
            yield found
        if failure:
            raise failure
        if reader.done:
            break
    if not reader.finished:
        if not reader.has_passed_on:
            raise Unusable("the stream ended before it began")
        raise http.Broken("the stream ended without a finish reason")


# --- Failing ----------------------------------------------------------------------------------------------------


def _refused(call: Call, reply: http.Reply, meaning: Meaning) -> ProviderFailed:
    body = _body(reply)
    reason = _presentable(call, parse_error(body))
    logger.warning("provider %s answered %s: %s", call.route.provider_slug, reply.status, reason)
    status, wait_seconds = meaning(reply.status, body)
    wait = _seconds(reply.header("retry-after") or wait_seconds)
    headers = {} if wait is None or wait > errors.CLIENT_PATIENCE_SECONDS else {"Retry-After": str(wait)}
    return ProviderFailed(
        base.refusal(status, reason, headers), upstream_worked=False, blame=base.blame(status), wait_seconds=wait
    )


def _body(reply: http.Reply) -> bytes:
    try:
        return reply.read_all()
    except http.OutboundError:
        return b""


def _presentable(call: Call, text: str) -> str:
    """An upstream's words without our key in them, on one line of bounded length."""
    printable = "".join(character for character in text if character.isprintable())
    return printable.replace(call.route.api_key or "\x00", "***")[:_MESSAGE_CHARACTERS_MAX]


def _seconds(text: str) -> int | None:
    """Seconds as a header says them. Dates are not read: clocks differ."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def broken_off(call: Call, error: Exception, *, upstream_worked: bool) -> ProviderFailed:
    """What to raise when the reply ended in ``error``: a fault of the connection, or Unusable."""
    if isinstance(error, http.Abandoned):
        return base.abandoned(upstream_worked=upstream_worked)
    reason = _presentable(call, str(error))
    logger.warning("provider %s broke off (%s): %s", call.route.provider_slug, type(error).__name__, reason)
    if isinstance(error, Refused):
        told, blame = base.refusal(error.status, reason), base.blame(error.status)
    else:
        told, blame = _told(error, upstream_worked=upstream_worked), _blame(error)
    return ProviderFailed(told, upstream_worked=upstream_worked, blame=blame)


def _blame(error: Exception) -> Blame:
    # Who was silent for minutes, or talks nonsense, is not asked a second time.
    return Blame.MOMENT if isinstance(error, (http.ConnectFailed, http.Broken)) else Blame.ROUTE


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
