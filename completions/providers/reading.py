"""Reads what a provider sends, whole or event by event: heartbeats, bounds, what comes before the text. Used by all adapters.

An adapter adds its wire format: a function that parses a whole reply, and an ``EventReader`` of a stream.
"""

import math
import time
from collections.abc import Callable, Generator
from typing import Any

import gevent
from django.conf import settings
from msgspec import structs

from completions.chat import Call, Chunk, Pace, WholeReply
from completions.providers import error_body, exchange, sse, whole_replies, wire
from completions.providers.exchange import InBandError, UnusableResponse
from gateway_project import metrics
from gateway_project.net import http
from gateway_project.text import compact_json

_UNREAD_BYTES_MAX = 10_000  # kept of a stream that has no events: it may be an error
_TURN_SECONDS = 0.01  # a stream that arrives as fast as it is read yields to other greenlets this often
_SKIPPED_EVENTS_MAX = 1_000  # of a stream: more than a signal of life for each second of it
_BEFORE_JSON = b" \t\r\n\xef\xbb\xbf"  # white space and a byte order mark
_BEGIN_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")


class PacedReader:
    """Reads a response piece by piece. ``pace`` is told how long each occupied the process, and may wait before the next."""

    __slots__ = ("_arrived_at", "_beat_at", "_heard_at", "_pace", "_response", "_turn_at")

    def __init__(self, response: http.BegunResponse, pace: Pace) -> None:
        self._response, self._pace = response, pace
        self._heard_at = self._beat_at = self._turn_at = time.monotonic()
        self._arrived_at: float | None = None  # when the bytes returned last arrived; None once ``pace`` was told

    def read(self) -> bytes | None:
        """Return what arrives next, b"" at the end, and None whenever a heartbeat is due.

        A heartbeat is due whether or not bytes arrive: they may be the provider's own comments, which are not passed on. Raises
        TimedOut when nothing arrives for ``idle_seconds``.
        """
        if self._arrived_at is not None:
            self._pace(time.monotonic() - self._arrived_at)
            self._heard_at = time.monotonic()  # not earlier: while our own client was slow, nothing was read
            self._arrived_at = None
            if self._heard_at - self._turn_at > _TURN_SECONDS:  # if more has arrived meanwhile, the next read does not wait
                gevent.sleep(0)
                self._turn_at = time.monotonic()
        silent_at, due_at = self._heard_at + self._response.idle_seconds, self._beat_at + settings.STREAM_HEARTBEAT_SECONDS
        while (now := time.monotonic()) < due_at:
            received = self._response.read_some(max(min(silent_at, due_at) - now, 0))
            if received is not None:
                self._arrived_at = time.monotonic()
                return received
            if time.monotonic() >= silent_at:
                raise http.TimedOut("idle")
        self._beat_at = time.monotonic()
        return None


class EventReader:
    """Converts the events of one stream, in one wire format, to chunks. Chunks before generated text are held back.

    So a failure before that can still be reported by its own status, or be given to another provider.
    ``has_passed_on`` is true after the first chunks. ``has_finish_reason``: a later failure costs the caller nothing and is
    ignored. ``has_ended``: the end marker has come; later events are ignored.
    """

    def __init__(self) -> None:
        self.has_passed_on = self.has_finish_reason = self.has_ended = False
        self.skipped_events = 0
        self.unknown_reason = ""  # a finish reason that is in no table
        self._begins = False  # true when something other than text begins the reply
        self._held: list[Chunk] = []

    def read_events(self, events: list[bytes]) -> tuple[list[Chunk], UnusableResponse | None]:
        """Return the chunks of the events of one read, and the failure, if any, to raise after they are passed on."""
        chunks, failure = self._read_each(events)
        if failure and failure.usage:
            chunks.append(Chunk(b"[]", usage=failure.usage))
        if not self.has_passed_on:
            self._held += chunks
            if not (self._begins or self.has_finish_reason or [chunk for chunk in chunks if chunk.text_bytes]):
                return [], failure
            chunks, self._held = self._held, []
            self.has_passed_on = bool(chunks)
        return chunks, failure

    def take_held(self) -> list[Chunk]:
        held, self._held = self._held, []
        self.has_passed_on = self.has_passed_on or bool(held)
        return held

    def last(self) -> list[Chunk]:
        """Return what ends the reply, after a finish reason and the end of the stream."""
        return []

    def parse(self, data: bytes) -> dict[str, Any] | None:
        """Return the object of an event. Raises UnusableResponse for one that is broken: it may have had a part of the reply.

        None stands for what is no object, such as ``ping`` or ``null``: it is skipped as a comment is, up to a bound. An error
        may come in a list, and some relays write ``data:`` twice.
        """
        begin = data.lstrip(_BEFORE_JSON)[:1]
        if begin == b"d":
            data = data.lstrip(_BEFORE_JSON).removeprefix(b"data:")
            begin = data.lstrip(_BEFORE_JSON)[:1]
        try:
            if begin == b"{":
                event: dict[str, Any] = wire.parse_json(data)
                return event
            if begin == b"[" and b'"error"' in data and error_body.is_error(found := wire.parse_json(data)):
                return {"error": found[0].get("error") or found[0]}
        except (ValueError, RecursionError) as error:
            raise UnusableResponse("an event is not JSON") from error
        self.skipped_events += 1
        if self.skipped_events > _SKIPPED_EVENTS_MAX:
            raise UnusableResponse(f"more than {_SKIPPED_EVENTS_MAX} events are no JSON objects")
        return None

    def _read_each(self, events: list[bytes]) -> tuple[list[Chunk], UnusableResponse | None]:
        """Return the chunks of the events up to the first that is unusable, and that UnusableResponse, or None."""
        found: list[Chunk] = []
        try:
            for data in events:
                if not self.has_ended and (event := self.parse(data)) is not None:
                    found += self._read(event)
        except UnusableResponse as unusable:
            return found, unusable
        except wire.MALFORMED as error:
            return found, UnusableResponse(f"an event is malformed: {type(error).__name__}")
        return found, None

    def _read(self, event: dict[str, Any]) -> list[Chunk]:
        """Return the chunks of an event. Raises UnusableResponse, or what reading JSON of another shape raises."""
        raise NotImplementedError


MakeReader = Callable[[], EventReader]
Parse = Callable[[bytes], WholeReply]


def read_whole(
    posted: exchange.Posted,
    parse: Parse,
    make_reader: MakeReader | None = None,
    response: http.BegunResponse | None = None,
    begun: bytes = b"",
) -> WholeReply:
    """Return the reply that ``parse`` makes of the body; ``make_reader``: for an unasked stream. Raises ProviderFailed."""
    call, response, body = posted.call, response or posted.response(), b""
    try:
        if call.head.patience:
            response.wait_for_text()
            call.head.patience.at = math.inf
        body = begun + response.read_all()
        try:
            reply = parse(body)
        except UnusableResponse as unusable:
            reply = _reply_of_events(call, body, make_reader, unusable)
        if reply.unknown_finish_reason:
            metrics.count_oddity(call.route.metrics_label or call.route.provider_slug, "finish_reason")
        return reply
    except (http.OutboundError, UnusableResponse) as error:
        provider_worked = not isinstance(error, UnusableResponse)
        raise exchange.provider_failure(
            call, exchange.explain(error, response, body), provider_worked=provider_worked
        ) from error
    finally:
        response.close()


def _reply_of_events(call: Call, body: bytes, make_reader: MakeReader | None, unusable: UnusableResponse) -> WholeReply:
    """Return the reply of a body that is a stream. Raises ``unusable``, for which it was read, if it is none."""
    events = _events(body)
    if make_reader is None or not events:
        raise unusable
    reader = make_reader()
    chunks, failure = reader.read_events(events)
    if not reader.has_finish_reason:
        raise failure or UnusableResponse("its events end without a finish reason")
    if reader.skipped_events:
        _count_skipped(call, reader)
    return structs.replace(whole_replies.of_chunks([*chunks, *reader.last()]), unknown_finish_reason=reader.unknown_reason)


def _events(body: bytes) -> list[bytes]:
    """Return the events of a body that is a stream, or a list of objects, as the streams of Gemini are without alt=sse."""
    if body.lstrip(_BEFORE_JSON).startswith(_BEGIN_EVENTS):
        decoder = sse.Decoder(len(body))
        return [*decoder.feed(body), *decoder.end()]
    if not body.lstrip(_BEFORE_JSON).startswith(b"["):
        return []
    try:
        return [compact_json.dumps(each) for each in wire.parse_json(body) if isinstance(each, dict)]
    except (ValueError, RecursionError):
        return []


def read_stream(
    post: Callable[[], exchange.Posted], parse: Parse, make_reader: MakeReader
) -> Generator[list[Chunk], None, None]:
    """Post the request, and yield the reader's chunks, as ``Adapter.stream`` does. ``parse`` is for an unasked whole reply."""
    posted, reader = post(), make_reader()
    response = yield from posted.begun()
    call, start = posted.call, bytearray()  # the bytes before the first chunk, up to a bound
    paced, decoder = PacedReader(response, call.pace), sse.Decoder(settings.UPSTREAM_EVENT_BYTES_MAX)
    try:
        try:
            while not reader.has_ended:
                received = paced.read()
                if received is None:
                    yield reader.take_held()
                    continue
                if not reader.has_passed_on:
                    # Blank lines keep a connection alive: https://api-docs.deepseek.com/quick_start/rate_limit
                    if received.lstrip(_BEFORE_JSON)[:1] in (b"{", b"[") and not start.strip(_BEFORE_JSON):
                        yield whole_replies.chunks(read_whole(posted, parse, make_reader, response, received))
                        return
                    start += received[: _UNREAD_BYTES_MAX - len(start)]
                found, failure = reader.read_events(decoder.feed(received) if received else decoder.end())
                if found:
                    yield found
                if failure and (received or isinstance(failure, InBandError)):
                    raise failure
                if not received:
                    break
            if not reader.has_finish_reason:
                if reader.has_passed_on:
                    raise http.ConnectionBroken("the stream ended without a finish reason")
                raise UnusableResponse("the stream ended before it began")
        except (http.OutboundError, sse.EventTooLarge, UnusableResponse) as error:
            if not reader.has_finish_reason:
                provider_worked = reader.has_passed_on or not isinstance(error, UnusableResponse | http.ConnectionBroken)
                explained = error if reader.has_passed_on else exchange.explain(error, response, bytes(start))
                raise exchange.provider_failure(call, explained, provider_worked=provider_worked) from error
        if last := reader.last():
            yield last
    finally:
        response.close()
        if reader.skipped_events:
            _count_skipped(call, reader)
        if reader.unknown_reason:
            metrics.count_oddity(call.route.metrics_label or call.route.provider_slug, "finish_reason")


def _count_skipped(call: Call, reader: EventReader) -> None:
    metrics.count_oddity(call.route.metrics_label or call.route.provider_slug, "skipped_event", reader.skipped_events)
