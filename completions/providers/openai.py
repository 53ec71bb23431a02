"""Any server that speaks OpenAI's chat completions: OpenAI itself, vLLM, Ollama, Groq, OpenRouter and many more."""

import json
import logging
import re
from collections.abc import Generator, Iterator
from typing import Any, NoReturn

from django.conf import settings

from completions import sse
from completions.chat import Answer, Call, ChatRequest, Chunk
from completions.providers.base import ProviderFailed, usage_from_openai
from gateway_project import errors, http

logger = logging.getLogger("gateway.providers")

_MESSAGE_CHARACTERS_MAX = 300

# The choices of an event that brings text and nothing else: all of them, so that what matches is valid JSON by itself.
_TEXT = rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*'
_PLAIN = re.compile(
    rb'\[\{"index":0,"delta":\{(?:"role":"assistant",)?"content":"(' + _TEXT + rb')"(?:,"\w+":null)*\}(?:,"\w+":null)*\}\]'
)


class OpenAI:
    """The wire format of openai.com, which is also ours; so a stream's choices are passed on as the bytes they came in."""

    def check(self, request: ChatRequest) -> None:
        """Nothing: what an upstream cannot do, it says itself."""

    def complete(self, call: Call) -> Answer:
        reply = _post(call, stream=False)
        try:
            return _answer(reply.read_all())
        except http.OutboundError as error:
            raise _broken_off(call, error, upstream_worked=not isinstance(error, _Unusable)) from error
        finally:
            reply.close()

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        reply = _post(call, stream=True)
        chunks = _ChunkReader()
        try:
            yield from _read(reply, chunks)
        except (http.OutboundError, sse.EventTooLarge) as error:
            if not chunks.finished:  # what breaks after the finish reason cost the caller nothing
                raise _broken_off(
                    call, error, upstream_worked=chunks.has_passed_on or not isinstance(error, _Unusable)
                ) from error
        finally:
            reply.close()


def _read(reply: http.Reply, chunks: "_ChunkReader") -> Iterator[list[Chunk]]:
    decoder = sse.Decoder(settings.UPSTREAM_EVENT_BYTES_MAX)
    idle_seconds = 0
    while not chunks.done:
        received = reply.read_some(settings.STREAM_HEARTBEAT_SECONDS)
        if received is None:
            idle_seconds += settings.STREAM_HEARTBEAT_SECONDS
            if idle_seconds >= settings.UPSTREAM_IDLE_SECONDS:
                raise http.TimedOut("idle")
            yield []
            continue
        if not received:
            break
        idle_seconds = 0
        arrived, failure = _chunks(decoder.feed(received), chunks)
        # An error right after the role is still an early one, which a true status can tell.
        if arrived and (not failure or any(chunk.text_bytes for chunk in arrived)):
            chunks.has_passed_on = True
            yield arrived
        if failure:
            raise failure
    if not chunks.has_passed_on:
        raise _Unusable("the stream ended before it began")
    if not chunks.finished:
        raise http.Broken("the stream ended without a finish reason")


def _chunks(events: list[bytes], chunks: "_ChunkReader") -> tuple[list[Chunk], "_Unusable | None"]:
    """What one read brought, up to the event that is none of ours."""
    arrived: list[Chunk] = []
    try:
        for data in events:
            arrived += chunks.read(data)
    except _Unusable as failure:
        return arrived, failure
    return arrived, None


# --- Asking -----------------------------------------------------------------------------------------------------


def _post(call: Call, *, stream: bool) -> http.Reply:
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream" if stream else "application/json"}
    if call.offer.api_key:
        headers["Authorization"] = f"Bearer {call.offer.api_key}"
    body = json.dumps(_body(call, stream), ensure_ascii=False, separators=(",", ":")).encode()
    try:
        reply = http.post(f"{call.offer.base_url}/chat/completions", headers=headers, body=body)
    except http.OutboundError as error:
        raise _broken_off(call, error, upstream_worked=False) from error
    if not 200 <= reply.status < 300:
        try:
            raise ProviderFailed(_refusal(call, reply), upstream_worked=False)
        finally:
            reply.close()
    return reply


def _body(call: Call, stream: bool) -> dict[str, Any]:
    fields = {name: value for name, value in call.request.fields.items() if name != "echo"}
    fields.update({"model": call.offer.upstream_model, "stream": stream, call.request.max_tokens_field: call.max_tokens})
    if stream:
        # Asked for whether or not the caller did: it is what we charge by.
        fields["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
    return fields


# --- Reading ----------------------------------------------------------------------------------------------------


class _Unusable(http.OutboundError):
    """What came is not a chat completion, or says that there will be none."""


def _answer(body: bytes) -> Answer:
    try:
        reply = json.loads(body.decode(), parse_constant=_no_constant)
        choices = reply["choices"]
        text_bytes = sum(_generated_bytes(choice["message"]) for choice in choices)
        if not choices:
            raise ValueError("no choices")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _Unusable(f"{len(body)} bytes are not a chat completion: {type(error).__name__}") from error
    return Answer(choices=_encodable(body, choices), usage=usage_from_openai(reply.get("usage")), text_bytes=text_bytes)


def _encodable(body: bytes, choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The choices, with a question mark for half a surrogate pair, which our reply could not be sent with."""
    if b"\\u" not in body:  # so all of it was UTF-8
        return choices
    whole: list[dict[str, Any]] = json.loads(json.dumps(choices, ensure_ascii=False).encode(errors="replace"))
    return whole


class _ChunkReader:
    """Event data in, Chunks out.

    Most events of a stream differ in their choices alone. So the bytes before and after the choices of one event are
    remembered, and an event between the same bytes needs no parsing: a JSON round trip a token is what a relay cannot afford.
    """

    def __init__(self) -> None:
        self.has_passed_on = False
        self.finished = False
        self.done = False
        self._before, self._after = b"\x00", b"\x00"  # which no event begins or ends with

    def read(self, data: bytes) -> list[Chunk]:
        """The chunks in one event. Raises _Unusable."""
        if self.done:
            return []
        if data == b"[DONE]":
            self.done = True
            return []
        if data.startswith(self._before) and data.endswith(self._after):
            plain = _PLAIN.fullmatch(data, len(self._before), len(data) - len(self._after))
            if plain and _is_utf8(plain[1]):
                return [Chunk(plain[0], text_bytes=_unescaped_bytes(plain[1]))]
        return self._parse(data)

    def _parse(self, data: bytes) -> list[Chunk]:
        try:
            text = data.decode()
            event = json.loads(text, parse_constant=_no_constant)
            if not isinstance(event, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            raise _Unusable("an event is not JSON") from error
        if event.get("error"):
            raise _Unusable(f"it reports {json.dumps(event['error'])}")
        self._remember(text)
        chunks = []
        if choices := event.get("choices"):
            chunks.append(self._chunk(choices))
        if usage := usage_from_openai(event.get("usage")):
            chunks.append(Chunk(b"[]", usage=usage))
        return chunks

    def _chunk(self, choices: Any) -> Chunk:
        try:
            finishes = any(choice.get("finish_reason") for choice in choices)
            text_bytes = sum(_generated_bytes(choice.get("delta") or {}) for choice in choices)
        except (AttributeError, TypeError) as error:
            raise _Unusable("an event's choices are not choices") from error
        self.finished = self.finished or finishes
        return Chunk(json.dumps(choices, separators=(",", ":")).encode(), text_bytes=text_bytes, finishes=finishes)

    def _remember(self, text: str) -> None:
        before, name, after = text.partition('"choices":')
        if not name or name in after:  # none, or who knows which
            return
        start = len(before) + len(name)
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
        except ValueError:  # white space before the value: this upstream is parsed event by event
            return
        self._before, self._after = text[:start].encode(), text[end:].encode()


def _is_utf8(text: bytes) -> bool:
    try:
        text.isascii() or text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unescaped_bytes(text: bytes) -> int:
    """UTF-8 bytes of a JSON string's text."""
    return _text_bytes(json.loads(b'"%s"' % text)) if b"\\" in text else len(text)


def _generated_bytes(message: Any) -> int:
    """UTF-8 bytes of what the model generated in a message or a delta: what it says, thinks and calls tools with.

    Raises AttributeError or TypeError for what is neither.
    """
    texts = [message.get("content"), message.get("refusal"), message.get("reasoning") or message.get("reasoning_content")]
    for tool_call in message.get("tool_calls") or []:
        function = tool_call.get("function") or {}
        texts += [function.get("name"), function.get("arguments")]
    return sum(_text_bytes(text) for text in texts if isinstance(text, str))


def _text_bytes(text: str) -> int:
    # Some upstreams cut their text in the middle of an emoji, and JSON can carry either half.
    return len(text.encode("utf-8", "surrogatepass"))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# --- Failing ----------------------------------------------------------------------------------------------------


def _refusal(call: Call, reply: http.Reply) -> errors.ApiError:
    """What the caller is told about a status that is not 2xx. Never the upstream's own 401, 402 or 403: they are about us."""
    message = _presentable(call, _message(reply))
    logger.warning("provider %s answered %s: %s", call.offer.provider_slug, reply.status, message)
    if reply.status in (400, 413, 422):
        return errors.InvalidRequest(f"The model's provider refused the request: {message or 'no reason given'}")
    if reply.status in (429, 503, 529):
        return errors.UpstreamOverloaded("The model's provider is overloaded.", headers=_retry_after(reply))
    if reply.status in (408, 504):
        return errors.UpstreamTimeout("The model's provider did not answer in time.")
    return errors.UpstreamFailed("The model's provider failed.")


def _message(reply: http.Reply) -> str:
    try:
        body = json.loads(reply.read_all())
        body = body[0] if isinstance(body, list) else body
        return str(body["error"] if isinstance(body["error"], str) else body["error"]["message"])
    except (http.OutboundError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return ""


def _presentable(call: Call, text: str) -> str:
    """An upstream's words without our key in them, on one line of bounded length."""
    printable = "".join(character for character in text if character.isprintable())
    return printable.replace(call.offer.api_key or "\x00", "***")[:_MESSAGE_CHARACTERS_MAX]


def _retry_after(reply: http.Reply) -> dict[str, str]:
    seconds = reply.header("retry-after")
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 10 and int(seconds) <= errors.CLIENT_PATIENCE_SECONDS:
        return {"Retry-After": seconds}
    return {}


def _broken_off(call: Call, error: Exception, *, upstream_worked: bool) -> ProviderFailed:
    logger.warning(
        "provider %s broke off (%s): %s", call.offer.provider_slug, type(error).__name__, _presentable(call, str(error))
    )
    if isinstance(error, http.TimedOut):
        return ProviderFailed(
            errors.UpstreamTimeout("The model's provider did not answer in time."), upstream_worked=upstream_worked
        )
    if isinstance(error, http.ConnectFailed):
        return ProviderFailed(errors.UpstreamFailed("The model's provider cannot be reached."), upstream_worked=upstream_worked)
    if isinstance(error, _Unusable) and not upstream_worked:
        return ProviderFailed(
            errors.UpstreamFailed("The model's provider sent no readable reply."), upstream_worked=upstream_worked
        )
    return ProviderFailed(errors.UpstreamFailed("The model's provider broke off its reply."), upstream_worked=upstream_worked)
