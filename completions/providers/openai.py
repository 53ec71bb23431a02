"""Any server that speaks OpenAI's chat completions: OpenAI itself, vLLM, Ollama, Groq, OpenRouter and many more."""

import json
import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from completions import sse
from completions.chat import Answer, Call, ChatRequest, Chunk
from completions.providers import base
from completions.providers.base import ProviderFailed
from completions.providers.openai_wire import ChunkReader, Unusable, parse_answer, parse_error
from gateway_project import errors, http

logger = logging.getLogger("gateway.providers")

_MESSAGE_CHARACTERS_MAX = 300
# What some upstream understands as another cap, further choices, another model or a dearer service than the one that is
# priced. The hold pays for none of it, so it is not passed on.
_UNPAID = {
    "best_of", "max_new_tokens", "max_output_tokens", "models", "n_predict", "num_predict", "options", "plugins", "provider",
    "route", "service_tier", "web_search_options",
}  # fmt: skip
_NOT_AS_THEY_CAME = {"echo", "max_tokens", "max_completion_tokens", "stream_options"} | _UNPAID


@dataclass(frozen=True, slots=True)
class Quirk:
    """Where an upstream differs. Without ``cap_field`` it takes the cap by the name that the caller used."""

    cap_field: str | None = None
    asks_for_usage: bool = True


# By the host of ``base_url``; from their references and from what their users were refused with.
QUIRKS: dict[str, Quirk] = {
    # Newer models: 400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead"
    # (github.com/openai/openai-python/issues/2046). All take the new name; the reference calls the old one deprecated.
    "api.openai.com": Quirk(cap_field="max_completion_tokens"),
    # 422 extra_forbidden for max_completion_tokens (github.com/editor-code-assistant/eca/issues/231) and for stream_options
    # (github.com/TabbyML/tabby/pull/4082). Usage comes in its last chunk unasked.
    "api.mistral.ai": Quirk(cap_field="max_tokens", asks_for_usage=False),
}


class OpenAI:
    """The wire format of openai.com, which is also ours; so a stream's choices are passed on as the bytes they came in."""

    def check(self, request: ChatRequest) -> None:
        """Nothing: what an upstream cannot do, it says itself."""

    def complete(self, call: Call) -> Answer:
        reply = _post(call, stream=False)
        try:
            return parse_answer(reply.read_all())
        except (http.OutboundError, Unusable) as error:
            raise _broken_off(call, error, upstream_worked=not isinstance(error, Unusable)) from error
        finally:
            reply.close()

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        reply = _post(call, stream=True)
        reader = ChunkReader()
        try:
            yield from _read(reply, reader)
        except (http.OutboundError, sse.EventTooLarge, Unusable) as error:
            if not reader.finished:  # what breaks after the finish reason cost the caller nothing
                upstream_worked = reader.has_passed_on or not isinstance(error, Unusable)
                raise _broken_off(call, error, upstream_worked=upstream_worked) from error
        finally:
            reply.close()


def _read(reply: http.Reply, reader: ChunkReader) -> Iterator[list[Chunk]]:
    decoder = sse.Decoder(settings.UPSTREAM_EVENT_BYTES_MAX)
    for received in _arrivals(reply):
        if received is None:
            yield []
            continue
        chunks, failure = reader.read_all(decoder.feed(received))
        if chunks:
            yield chunks
        if failure:
            raise failure
        if reader.done:
            break
    if not reader.has_passed_on:
        raise Unusable("the stream ended before it began")
    if not reader.finished:
        raise http.Broken("the stream ended without a finish reason")


def _arrivals(reply: http.Reply) -> Iterator[bytes | None]:
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
    quirk = QUIRKS.get(urlsplit(call.offer.base_url).hostname or "", Quirk())
    fields = {name: value for name, value in call.request.fields.items() if name not in _NOT_AS_THEY_CAME}
    cap_field = quirk.cap_field or call.request.max_tokens_field
    fields.update({"model": call.offer.upstream_model, "stream": stream, cap_field: call.max_tokens})
    if stream and quirk.asks_for_usage:
        # Whether or not the caller asked for it: it is what we charge by.
        fields["stream_options"] = {**(call.request.fields.get("stream_options") or {}), "include_usage": True}
    return fields


# --- Failing ----------------------------------------------------------------------------------------------------


def _refusal(call: Call, reply: http.Reply) -> errors.ApiError:
    reason = _presentable(call, _reason(reply))
    logger.warning("provider %s answered %s: %s", call.offer.provider_slug, reply.status, reason)
    return base.refusal(reply.status, reason, _retry_after(reply))


def _reason(reply: http.Reply) -> str:
    try:
        return parse_error(reply.read_all())
    except http.OutboundError:
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
    return ProviderFailed(_told(error, upstream_worked=upstream_worked), upstream_worked=upstream_worked)


def _told(error: Exception, *, upstream_worked: bool) -> errors.ApiError:
    if isinstance(error, http.TimedOut):
        return base.timed_out()
    if isinstance(error, http.ConnectFailed):
        return base.unreachable()
    if isinstance(error, Unusable) and not upstream_worked:
        return base.unreadable()
    return base.broke_off()
