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
from completions.chat import Call, Chunk, WholeReply
from completions.providers import base
from completions.providers.base import FailureKind, ProviderFailed
from gateway_project import compact_json, errors
from gateway_project.net import http

logger = logging.getLogger("gateway.providers")

_MESSAGE_CHARACTERS_MAX = 300
_TURN_SECONDS = 0.01  # after which a stream that comes as fast as it can be read lets others have theirs

# What a refusal's status and body mean: the status that it should have had, and the seconds to wait, "" when it says none.
RefusalInterpreter = Callable[[int, bytes], tuple[int, str]]


class UnusableReply(Exception):
    """What came is not a reply in the upstream's format, or says that there will be none."""


class InBandError(UnusableReply):
    """It says so itself, where its status said otherwise. ``status`` is the one that would have been right."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def _as_received(status: int, body: bytes) -> tuple[int, str]:
    return status, ""


def post(
    call: Call,
    path: str,
    headers: dict[str, str],
    fields: dict[str, Any],
    *,
    stream: bool,
    interpret: RefusalInterpreter = _as_received,
) -> http.UpstreamResponse:
    """Send ``fields`` as JSON to ``path`` below the provider's base URL; a 2xx reply, to be closed. Raises ProviderFailed."""
    accept = "text/event-stream" if stream else "application/json"
    headers = {"Content-Type": "application/json", "Accept": accept, **headers}
    body = compact_json.dumps(fields)
    try:
        reply = http.post(
            f"{call.route.base_url}{path}", headers=headers, body=body, deadlines=call.route.deadlines, until=call.until
        )
    except http.OutboundError as error:
        raise provider_failure(call, error, upstream_worked=False) from error
    if not 200 <= reply.status < 300:
        try:
            raise _refused(call, reply, interpret)
        finally:
            reply.close()
    return reply


def reads(reply: http.UpstreamResponse) -> Iterator[bytes | None]:
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


class StreamReader(Protocol):
    """Makes chunks of the events of one stream, in one wire format."""

    @property
    def has_passed_on(self) -> bool:
        """Any chunk."""

    @property
    def has_finish_reason(self) -> bool:
        """It has said why the reply ends: what breaks from now on costs the caller nothing."""

    @property
    def has_ended(self) -> bool:
        """What comes now is nothing."""

    def read_events(self, events: list[bytes]) -> tuple[list[Chunk], UnusableReply | None]:
        """The chunks of what one read brought; and why it ends here, to be raised when they are passed on."""


def read_each_event(read: Callable[[bytes], list[Chunk]], events: list[bytes]) -> tuple[list[Chunk], UnusableReply | None]:
    """The chunks of the events of one read, up to the first that is unusable; and that UnusableReply, or None."""
    found: list[Chunk] = []
    try:
        for data in events:
            found += read(data)
    except UnusableReply as unusable:
        return found, unusable
    return found, None


def read_whole(call: Call, reply: http.UpstreamResponse, parse: Callable[[bytes], WholeReply]) -> WholeReply:
    """What ``parse`` makes of the whole reply, which is closed. Raises ProviderFailed."""
    try:
        return parse(reply.read_all())
    except (http.OutboundError, UnusableReply) as error:
        raise provider_failure(call, error, upstream_worked=not isinstance(error, UnusableReply)) from error
    finally:
        reply.close()


def read_stream(call: Call, reply: http.UpstreamResponse, reader: StreamReader) -> Generator[list[Chunk], None, None]:
    """What ``reader`` makes of the stream, as ``base.Adapter.stream`` promises it; the reply is closed at the end."""
    try:
        yield from _read(reply, reader)
    except (http.OutboundError, sse.EventTooLarge, UnusableReply) as error:
        if not reader.has_finish_reason:
            upstream_worked = reader.has_passed_on or not isinstance(error, UnusableReply)
            raise provider_failure(call, error, upstream_worked=upstream_worked) from error
    finally:
        reply.close()


def _read(reply: http.UpstreamResponse, reader: StreamReader) -> Iterator[list[Chunk]]:
    decoder = sse.Decoder(settings.UPSTREAM_EVENT_BYTES_MAX)
    for received in reads(reply):
        if received is None:
            yield []
            continue
        found, failure = reader.read_events(decoder.feed(received))
        if found:
            yield found
        if failure:
            raise failure
        if reader.has_ended:
            break
    if not reader.has_finish_reason:
        if not reader.has_passed_on:
            raise UnusableReply("the stream ended before it began")
        raise http.ConnectionBroken("the stream ended without a finish reason")


# --- Failing ----------------------------------------------------------------------------------------------------


def _refused(call: Call, reply: http.UpstreamResponse, interpret: RefusalInterpreter) -> ProviderFailed:
    body = _body(reply)
    reason = _presentable(call, parse_error(body))
    logger.warning("provider %s answered %s: %s", call.route.provider_slug, reply.status, reason)
    status, wait_seconds = interpret(reply.status, body)
    wait = _seconds(reply.header("retry-after") or wait_seconds)
    headers = {} if wait is None or wait > errors.CLIENT_PATIENCE_SECONDS else {"Retry-After": str(wait)}
    return ProviderFailed(
        base.status_error(status, reason, headers), upstream_worked=False, kind=base.failure_kind(status), wait_seconds=wait
    )


def _body(reply: http.UpstreamResponse) -> bytes:
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


def provider_failure(call: Call, error: Exception, *, upstream_worked: bool) -> ProviderFailed:
    """What to raise when the reply ended in ``error``: a fault of the connection, or UnusableReply."""
    if isinstance(error, http.ClientDisconnected):
        return base.client_disconnected(upstream_worked=upstream_worked)
    reason = _presentable(call, str(error))
    logger.warning("provider %s broke off (%s): %s", call.route.provider_slug, type(error).__name__, reason)
    if isinstance(error, InBandError):
        told, kind = base.status_error(error.status, reason), base.failure_kind(error.status)
    else:
        told, kind = _told(error, upstream_worked=upstream_worked), _failure_kind(error)
    return ProviderFailed(told, upstream_worked=upstream_worked, kind=kind)


def _failure_kind(error: Exception) -> FailureKind:
    # Who was silent for minutes, or talks nonsense, is not asked a second time.
    return (
        FailureKind.RETRYABLE if isinstance(error, (http.ConnectFailed, http.ConnectionBroken)) else FailureKind.ROUTE_UNUSABLE
    )


def _told(error: Exception, *, upstream_worked: bool) -> errors.ApiError:
    if isinstance(error, http.TimedOut):
        return base.timed_out()
    if isinstance(error, http.ConnectFailed):
        return base.unreachable()
    if isinstance(error, UnusableReply) and not upstream_worked:
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
