"""Any server that speaks OpenAI's chat completions: OpenAI itself, vLLM, Ollama, Groq, OpenRouter and many more."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from completions import sse
from completions.chat import Answer, Call, ChatRequest, Chunk
from completions.providers import exchange
from completions.providers.exchange import Unusable
from completions.providers.openai_wire import ChunkReader, parse_answer
from gateway_project import http

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
            raise exchange.broken_off(call, error, upstream_worked=not isinstance(error, Unusable)) from error
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
                raise exchange.broken_off(call, error, upstream_worked=upstream_worked) from error
        finally:
            reply.close()


def _read(reply: http.Reply, reader: ChunkReader) -> Iterator[list[Chunk]]:
    decoder = sse.Decoder(settings.UPSTREAM_EVENT_BYTES_MAX)
    for received in exchange.arrivals(reply):
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


# --- Asking -----------------------------------------------------------------------------------------------------


def _post(call: Call, *, stream: bool) -> http.Reply:
    headers = {"Authorization": f"Bearer {call.offer.api_key}"} if call.offer.api_key else {}
    return exchange.post(call, "/chat/completions", headers, _body(call, stream), stream=stream)


def _body(call: Call, stream: bool) -> dict[str, Any]:
    quirk = QUIRKS.get(urlsplit(call.offer.base_url).hostname or "", Quirk())
    fields = {name: value for name, value in call.request.fields.items() if name not in _NOT_AS_THEY_CAME}
    cap_field = quirk.cap_field or call.request.max_tokens_field
    fields.update({"model": call.offer.upstream_model, "stream": stream, cap_field: call.max_tokens})
    if stream and quirk.asks_for_usage:
        # Whether or not the caller asked for it: it is what we charge by.
        fields["stream_options"] = {**(call.request.fields.get("stream_options") or {}), "include_usage": True}
    return fields
