"""One request to one upstream over HTTP, shared by all adapters: send it, read the response, and report every failure alike.

An adapter adds only its wire format.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import gevent
import msgspec
from django.conf import settings
from msgspec import structs

from completions import sse
from completions.chat import Call, Chunk, Pace, WholeReply
from completions.providers import base, error_body, key_refusals, masking, whole_replies, wire
from completions.providers.base import FailureKind, ProviderFailed
from completions.providers.error_body import UpstreamError
from gateway_project import errors, large_work, logs, metrics
from gateway_project.net import http
from gateway_project.text import compact_json

logger = logging.getLogger("gateway.providers")

_MESSAGE_CHARACTERS_MAX = 300
_READ_CHARACTERS_MAX = 10_000  # of a message, to find its first printable ones
_PARAM = re.compile(r"[A-Za-z_][\w.\[\]-]{0,99}", re.ASCII)  # the path of a field
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")
_REQUEST_ID = re.compile(r"[!-~]{1,100}")
_UNREAD_BYTES_MAX = 10_000  # kept of a stream that has no events: it may be an error
_SKIPPED_EVENTS_MAX = 1_000  # of a stream: more than a signal of life for each second of it
_BEFORE_JSON = b" \t\r\n\xef\xbb\xbf"  # white space and a byte order mark
_BEGIN_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)  # of JSON in another shape
_TURN_SECONDS = 0.01  # a stream that arrives as fast as it is read yields to other greenlets this often

# Maps a refusal's status and body to the status it should have had, and to the seconds to wait as text ("" for none).
RefusalInterpreter = Callable[[int, bytes], tuple[int, str]]


Response = TypeVar("Response", http.UpstreamResponse, http.UpstreamResponse | None)


class BodyBuilder(Protocol):
    """Builds the body of a request in the wire format of a provider."""

    def __call__(self, call: Call, *, stream: bool) -> dict[str, Any]: ...


class UnusableResponse(Exception):
    """What arrived is not a reply in the upstream's format, or it is an error."""


class InBandError(UnusableResponse):
    """An error within a response whose HTTP status was 2xx. ``status`` is the status that would have been right."""

    def __init__(self, error: UpstreamError, status: int) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status


def in_band_error(parsed: Any) -> InBandError:
    """Return the exception for parsed JSON that is an error, and that came with a 2xx status."""
    error = error_body.from_json(parsed)
    if not error.message and isinstance(parsed, dict):  # not all of it: there may be text of a reply beside the error
        error = replace(error, message=f"it reports {json.dumps(parsed.get('error'))}")
    return InBandError(error, error.status or (400 if error.caller_code else 500))


def _as_received(status: int, body: bytes) -> tuple[int, str]:
    return status, ""


class Posted(msgspec.Struct, frozen=True, eq=False):
    """A request that was sent to an upstream, whose response is awaited."""

    call: Call
    awaited: http.AwaitedResponse
    interpret: RefusalInterpreter

    def response(self) -> http.UpstreamResponse:
        """Return the 2xx response, which the caller closes. Raises ProviderFailed, also for any other status.

        The head of a whole reply comes when it is generated, so silence says nothing before the total deadline.
        """
        return self._checked(self.awaited.wait)

    def begun(self) -> Generator[list[Chunk], None, http.UpstreamResponse]:
        """Return the same for a stream, after an empty list at the deadline to begin: the caller may give up there."""
        response = self._checked(self.awaited.begin)
        if response is None:
            try:
                yield []
            except BaseException:
                self.awaited.close()
                raise
            response = self.response()
        return response

    def _checked(self, wait: Callable[[], Response]) -> Response:
        call = self.call
        try:
            response = wait()
        except http.OutboundError as error:
            raise provider_failure(call, error, upstream_worked=isinstance(error, http.TimedOut)) from error
        if response is None:
            return response
        call.head.has_arrived, call.head.request_id = True, _request_id(response)
        if not 200 <= response.status < 300:
            try:
                raise _refusal(call, response, self.interpret)
            finally:
                response.close()
        return response


def post(
    call: Call,
    path: str,
    headers: dict[str, str],
    build_fields: BodyBuilder,
    *,
    stream: bool,
    interpret: RefusalInterpreter = _as_received,
) -> Posted:
    """Send the built fields as JSON to ``path`` below the base URL. Raises ProviderFailed."""
    call.head.has_arrived, call.head.request_id = False, None  # not that of an earlier attempt
    accept = "text/event-stream" if stream else "application/json"
    headers = {"Content-Type": "application/json", "Accept": accept, "Accept-Encoding": http.ACCEPTED_CODING, **headers}
    url = f"{call.route.base_url}{path}"
    try:
        with large_work.turn(call.request.body.size_bytes):
            body = compact_json.dumps(build_fields(call, stream=stream))
        call.request.body.release()  # nobody may hold on to its parts now: the wait for the upstream may take minutes
        call.opened_seals.clear()
        awaited = http.send(url, headers=headers, body=body, deadlines=call.route.deadlines, until=call.until)
    except http.OutboundError as error:
        raise provider_failure(call, error, upstream_worked=False) from error
    return Posted(call, awaited, interpret)


def _request_id(response: http.UpstreamResponse) -> str | None:
    """Return the id by which the provider knows the request, for questions to it; None for one that is too long to keep."""
    if response.header_names.isdisjoint(_REQUEST_ID_HEADERS):
        return None
    for name in _REQUEST_ID_HEADERS:
        if _REQUEST_ID.fullmatch(sent := response.header(name).strip()):
            return sent
    return None


class PacedReader:
    """Reads a response piece by piece, bounds its silence, and says when a heartbeat is due.

    ``pace`` is told how long each piece occupied the process, and may wait before the next one.
    """

    __slots__ = ("_arrived_at", "_beat_at", "_heard_at", "_pace", "_response", "_turn_at")

    def __init__(self, response: http.UpstreamResponse, pace: Pace) -> None:
        self._response, self._pace = response, pace
        self._heard_at = self._beat_at = self._turn_at = time.monotonic()
        self._arrived_at: float | None = None  # when the bytes returned last arrived; None once ``pace`` was told

    def read(self) -> bytes | None:
        """Return what arrives next, b"" at the end, and None whenever a heartbeat is due.

        A heartbeat is due whether or not bytes arrive: they may be the upstream's own comments, which are not passed on. Raises
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


# --- Reading ----------------------------------------------------------------------------------------------------


class EventReader:
    """Converts the events of one stream, in one wire format, to chunks. What comes before generated text is held back.

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
        if not self.has_passed_on:
            chunks = self._held = [*self._held, *chunks]
            if not (self._begins or self.has_finish_reason or [chunk for chunk in chunks if chunk.text_bytes]):
                return [], failure
            self.has_passed_on, self._held = bool(chunks), []
        return chunks, failure

    def take_held(self) -> list[Chunk]:
        """Return what is held back, to be passed on now."""
        held, self._held = self._held, []
        self.has_passed_on = self.has_passed_on or bool(held)
        return held

    def last(self) -> list[Chunk]:
        """Return what ends the reply, after a finish reason and the end of the stream."""
        return []

    def parse(self, data: bytes) -> dict[str, Any] | None:
        """Return the object of an event. Raises UnusableResponse for one that is broken: it may have had a part of the reply.

        None stands for what is no object, such as ``ping`` or ``null``: it is skipped as a comment is, up to a bound. An error
        may come in a list.
        """
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
        except _MALFORMED as error:
            return found, UnusableResponse(f"an event is malformed: {type(error).__name__}")
        return found, None

    def _read(self, event: dict[str, Any]) -> list[Chunk]:
        """Return the chunks of an event. Raises UnusableResponse, or what reading JSON of another shape raises."""
        raise NotImplementedError


MakeReader = Callable[[], EventReader]
Parse = Callable[[bytes], WholeReply]


def read_whole(posted: Posted, parse: Parse, make_reader: MakeReader | None = None) -> WholeReply:
    """Return the reply that ``parse`` makes of the whole body. Closes the response. Raises ProviderFailed.

    Some servers stream unasked: then ``make_reader`` makes what reads the body.
    """
    call, response, body = posted.call, posted.response(), b""
    try:
        body = response.read_all()
        try:
            reply = parse(body)
        except UnusableResponse as unusable:
            reply = _reply_of_events(call, body, make_reader, unusable)
        if reply.unknown_finish_reason:
            metrics.count_oddity(call.route.provider_slug, "finish_reason")
        return reply
    except (http.OutboundError, UnusableResponse) as error:
        upstream_worked = not isinstance(error, UnusableResponse)
        raise provider_failure(call, _explained(error, response, body), upstream_worked=upstream_worked) from error
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


def read_stream(post: Callable[[], Posted], make_reader: MakeReader, parse: Parse) -> Generator[list[Chunk], None, None]:
    """Post the request, and yield the chunks that a reader makes, as ``base.Adapter.stream`` documents.

    Some servers answer with a whole reply although a stream was asked for: ``parse`` reads it.
    """
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
                    is_first = not start
                    start += received[: _UNREAD_BYTES_MAX - len(start)]
                    if is_first and received.lstrip(_BEFORE_JSON)[:1] in (b"{", b"["):
                        yield _chunks_of_body(call, received + response.read_all(), parse, make_reader)
                        return
                found, failure = reader.read_events(decoder.feed(received) if received else decoder.end())
                if found:
                    yield found
                if failure and (received or isinstance(failure, InBandError)):
                    raise failure
                if not received:
                    break
            if not reader.has_finish_reason:
                raise _cut_off_error(reader)
        except (http.OutboundError, sse.EventTooLarge, UnusableResponse) as error:
            if not reader.has_finish_reason:
                upstream_worked = reader.has_passed_on or not isinstance(error, UnusableResponse | http.ConnectionBroken)
                explained = error if reader.has_passed_on else _explained(error, response, bytes(start))
                raise provider_failure(call, explained, upstream_worked=upstream_worked) from error
        if last := reader.last():
            yield last
    finally:
        response.close()
        if reader.skipped_events:
            _count_skipped(call, reader)
        if reader.unknown_reason:
            metrics.count_oddity(call.route.provider_slug, "finish_reason")


def _chunks_of_body(call: Call, body: bytes, parse: Parse, make_reader: MakeReader) -> list[Chunk]:
    """Return the chunks of a whole reply that came for a stream."""
    try:
        return whole_replies.chunks(parse(body))
    except UnusableResponse as unusable:
        return whole_replies.chunks(_reply_of_events(call, body, make_reader, unusable))


def _count_skipped(call: Call, reader: EventReader) -> None:
    metrics.count_oddity(call.route.provider_slug, "skipped_event", reader.skipped_events)


def _cut_off_error(reader: EventReader) -> http.ConnectionBroken | UnusableResponse:
    if reader.has_passed_on:
        return http.ConnectionBroken("the stream ended without a finish reason")
    return UnusableResponse("the stream ended before it began")


def _explained(error: Exception, response: http.UpstreamResponse, body: bytes) -> Exception:
    """Return what to report for a response of which nothing could be used: the error in its body, or what kind of body it is.

    Some servers refuse a request for a stream with status 200 and one JSON object.
    """
    if not isinstance(error, UnusableResponse) or isinstance(error, InBandError):
        return error
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    return in_band_error(parsed) if error_body.is_error(parsed) else UnusableResponse(f"{error} ({_kind(response, body)})")


# --- Failing ----------------------------------------------------------------------------------------------------


def _refusal(call: Call, response: http.UpstreamResponse, interpret: RefusalInterpreter) -> ProviderFailed:
    """Return the failure for a status that is not 2xx."""
    body = _body(response)
    upstream_error = error_body.parse(body)
    status, wait_seconds = interpret(response.status, body)
    status = upstream_error.meant_status(status)
    location = response.header("location") if 300 <= response.status < 400 else ""
    reason = f"it redirects to {location}" if location else upstream_error.reason
    reason = _presentable(call, reason or f"no reason given ({_kind(response, body)})")
    kept_reason = _without_quotations(call, reason)
    logged = _logged(kept_reason, response.status)
    logs.report_failure(logger, "provider %s answered %s: %s", call.route.provider_slug, response.status, logged)
    wait = _seconds(response.header("retry-after") or wait_seconds)
    headers = {} if wait is None or wait > errors.RETRY_AFTER_SECONDS_MAX else {"Retry-After": str(wait)}
    error, kind = _status_error(call, status, upstream_error, headers), base.failure_kind(status)
    if response.header("x-should-retry").strip().lower() == "false":
        error.headers["x-should-retry"] = "false"
        kind = FailureKind.ROUTE_UNUSABLE if kind is FailureKind.RETRYABLE else kind
    return ProviderFailed(
        error,
        upstream_worked=False,
        kind=kind,
        wait_seconds=wait,
        key_refusal=_key_refusal(status, body[: key_refusals.TEXT_BYTES_MAX].decode(errors="replace"), reason),
        status=response.status,
        reason=kept_reason,
    )


def _key_refusal(status: int, text: str, reason: str) -> tuple[int, str] | None:
    return (status, reason) if key_refusals.is_about_key(status, text) else None


def _status_error(call: Call, status: int, error: UpstreamError, headers: dict[str, str] | None = None) -> errors.ApiError:
    origin = {"base_url": call.route.base_url, "upstream_model": call.route.upstream_model, "model_id": call.offer.model_id}
    reason = masking.mask_origin(_printable(call, error.reason), **origin)[:_MESSAGE_CHARACTERS_MAX]
    return base.status_error(status, reason, headers, code=error.caller_code, param=_caller_param(call, error.param))


def _caller_param(call: Call, param: str) -> str | None:
    """Return the param of an upstream's error when it names a field of the caller's request."""
    if not _PARAM.fullmatch(param):
        return None
    name, rest = re.split(r"(?=[.\[])", param, maxsplit=1) if re.search(r"[.\[]", param) else (param, "")
    if name in ("max_tokens", "max_completion_tokens"):  # it may have been sent by its other name
        name = call.request.max_tokens_field
    return name + rest if name in call.request.fields else None


def _kind(response: http.UpstreamResponse, body: bytes) -> str:
    """Describe a body that cannot be read: its size, its type, its compression, and the title of a page.

    No other text of it: that may be a reply, which is the caller's.
    """
    described = f"{len(body)} bytes of {response.header('content-type') or 'no type'}"
    if encoding := response.header("content-encoding"):
        return f"{described}, compressed with {encoding}"
    page_title = error_body.title(body)
    return f"{described}: {page_title}" if page_title else described


def _body(response: http.UpstreamResponse) -> bytes:
    try:
        return response.read_all()
    except http.OutboundError:
        return b""


def _presentable(call: Call, text: str) -> str:
    """Return the upstream's message as staff see it: on one line of bounded length, and without keys."""
    return _printable(call, text)[:_MESSAGE_CHARACTERS_MAX]


def _printable(call: Call, text: str) -> str:
    one_line = " ".join(text[:_READ_CHARACTERS_MAX].split())
    printable = "".join(character for character in one_line if character.isprintable())
    return masking.mask_keys(printable, call.route.api_key)


_QUOTATION = re.compile(r"(?<!\w)(['\"`])(.+?)\1(?!\w)")


def _logged(reason: str, status: int | None) -> str:
    """Return what the log has of a reason: nothing of a 401, which is about our key. Some providers repeat a part of it."""
    return "its words are shown with the completion" if status == HTTPStatus.UNAUTHORIZED else reason


def _without_quotations(call: Call, reason: str) -> str:
    """Return a reason without what it quotes, which may be the prompt. Names of fields and of the model stay."""
    known = {*call.request.fields, call.route.upstream_model}
    return _QUOTATION.sub(lambda quoted: quoted[0] if quoted[2] in known else f"{quoted[1]}...{quoted[1]}", reason)


def _seconds(text: str) -> int | None:
    """Parse the seconds of a header. A date gives None: clocks differ."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def provider_failure(call: Call, error: Exception, *, upstream_worked: bool) -> ProviderFailed:
    """Return the failure for ``error``, which ended the exchange: an OutboundError, EventTooLarge or UnusableResponse."""
    if isinstance(error, http.Interrupted):
        return interruption(error, upstream_worked=upstream_worked or error.is_sent)
    reason = _presentable(call, str(error))
    kind_of_error, kept_reason = type(error).__name__, _without_quotations(call, reason)
    logged = _logged(kept_reason, getattr(error, "status", None))
    logs.report_failure(logger, "provider %s broke off (%s): %s", call.route.provider_slug, kind_of_error, logged)
    key_refusal = None
    if isinstance(error, InBandError):
        status = error.error.meant_status(error.status)
        api_error, kind = _status_error(call, status, error.error), base.failure_kind(status)
        key_refusal = _key_refusal(status, reason, reason)
    else:
        api_error, kind = _api_error(error, upstream_worked=upstream_worked), _failure_kind(error)
    return ProviderFailed(
        api_error,
        upstream_worked=upstream_worked,
        kind=kind,
        is_cut_off=upstream_worked and isinstance(error, http.TimedOut | http.ResponseTooLarge | sse.EventTooLarge),
        unread_bytes=_unread_bytes(call, error),
        key_refusal=key_refusal,
        status=error.status if isinstance(error, InBandError) else None,
        reason=f"{kind_of_error}: {kept_reason}",
    )


def _unread_bytes(call: Call, error: Exception) -> int:
    """Return the size of a whole reply that was too large, if the request may be the reason; otherwise the provider failed."""
    is_too_large = isinstance(error, http.ResponseTooLarge) and call.request.fields.get("logprobs")
    return settings.UPSTREAM_REPLY_BYTES_MAX if is_too_large else 0


def interruption(error: http.Interrupted, *, upstream_worked: bool) -> ProviderFailed:
    """Return the failure for a wait that ended because the client disconnected, or because the worker must end."""
    failure = base.client_disconnected if isinstance(error, http.ClientDisconnected) else base.shutting_down
    return failure(upstream_worked=upstream_worked)


def _failure_kind(error: Exception) -> FailureKind:
    if isinstance(error, http.LocalFault):
        return FailureKind.LOCAL_FAULT
    # A provider that was silent for minutes, or sent nonsense, is not asked a second time.
    is_retryable = isinstance(error, (http.ConnectFailed, http.ConnectionBroken))
    return FailureKind.RETRYABLE if is_retryable else FailureKind.ROUTE_UNUSABLE


def _api_error(error: Exception, *, upstream_worked: bool) -> errors.ApiError:
    if isinstance(error, http.TimedOut):
        return base.timed_out()
    if isinstance(error, http.LocalFault):
        return base.not_connectable()
    if isinstance(error, http.ConnectFailed):
        return base.unreachable()
    if isinstance(error, UnusableResponse) and not upstream_worked:
        return base.unreadable()
    return base.broke_off()
