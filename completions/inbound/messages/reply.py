"""The bytes of a reply in Anthropic's format: the message object, the events of a stream, and errors.

The model's reply comes as OpenAI's choices, unless its provider speaks Messages itself: then its own blocks and events are
passed on as they are. The id, the model and the counts of tokens are the gateway's own.
"""

from collections.abc import Mapping
from typing import Any

from completions.chat import Chunk, WholeReply
from completions.inbound.events import as_json, event, parse_choices
from completions.inbound.messages import blocks
from completions.inbound.messages.blocks import BlockStream
from completions.pricing.usage import Usage
from completions.providers.anthropic.response import STATUSES
from completions.relay.reply_format import EventWriter, ReplyFormat
from completions.relay.running import Running
from completions.request.fields import Fields
from gateway_project import errors
from gateway_project.text import dollars

_TYPES_BY_STATUS = {
    **{status: kind for kind, status in STATUSES.items()},
    503: "overloaded_error",  # which Claude Code repeats also where a stream has told no status
}
_OVERLOADED = 529


def error_status(error: errors.ApiError) -> int:
    """Return the status that Anthropic's clients expect: for an overloaded provider it is their own."""
    return _OVERLOADED if isinstance(error, errors.UpstreamOverloaded) else error.status


def error_object(error: errors.ApiError, request_id: str | None) -> Fields:
    """Return the body of the reply to an error."""
    status = error_status(error)
    kind = _TYPES_BY_STATUS.get(status, "invalid_request_error" if status < 500 else "api_error")
    details = {"details": error.details} if error.details else {}
    return {"type": "error", "error": {"type": kind, "message": error.message, **details}, "request_id": request_id}


class MessagesFormat(ReplyFormat):
    """Replies of Anthropic's Messages. ``names`` has the caller's names of tools, by those that most providers are sent."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names = names or {}

    def whole(self, running: Running, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        message = received.message or blocks.message(received.choices[0], self._names)
        return as_json({**message, **_head(running), "usage": _counted(message.get("usage") or {}, usage, charged_nanos)})

    def events(self, running: Running) -> EventWriter:
        return MessagesEventWriter(running, self._names)


class MessagesEventWriter(EventWriter):
    """Writes the events of one message. ``_reported`` is the usage in the words of a provider that speaks Messages."""

    def __init__(self, running: Running, names: Mapping[str, str]) -> None:
        super().__init__(running)
        self._running = running
        self._has_begun = False
        self._is_untranslated = False
        self._reported: Fields = {}
        self._blocks = BlockStream(names)

    def _format(self, chunks: list[Chunk]) -> bytes:
        events = [] if self._has_begun else [self._begin(chunks)]
        for chunk in chunks:
            if chunk.event:
                events += self._pass_on(chunk.event)
            elif chunk.usage is None and not self._is_untranslated:
                for choice in parse_choices(chunk.choices):
                    events += self._blocks.read(choice)
        return b"".join(events)

    def _begin(self, chunks: list[Chunk]) -> bytes:
        """Return the first event. Until the provider reports the prompt, its tokens are the gateway's own estimate."""
        self._has_begun = True
        for chunk in chunks:
            if chunk.event and chunk.event["type"] == "message_start":
                self._is_untranslated = True
                self._reported.update(chunk.event["message"].get("usage") or {})
        known = next((chunk.usage for chunk in chunks if chunk.usage), None)
        usage = known or Usage(self._running.admitted.completion.prompt_estimate, 0)
        stop = {"stop_reason": None, "stop_sequence": None}
        message = {**_head(self._running), "content": [], **stop, "usage": _counted(self._reported, usage, None)}
        return event({"type": "message_start", "message": message})

    def _pass_on(self, given: Any) -> list[bytes]:
        """Return the event of a block. The end's content is kept for our own."""
        if given["type"] == "message_delta":
            self._blocks.stop = given["delta"]
            self._reported.update(given.get("usage") or {})
        return [event(given)] if given["type"].startswith("content_block_") else []

    def end(self, usage: Usage, charged_nanos: int | None) -> bytes:
        delta = {"type": "message_delta", "delta": self._blocks.stop, "usage": _counted(self._reported, usage, charged_nanos)}
        return b"".join([*self._blocks.end(), event(delta), event({"type": "message_stop"})])

    def error(self, error: errors.ApiError) -> bytes:
        return event(error_object(error, self._running.admitted.completion.request_id))


def _head(running: Running) -> Fields:
    completion, model = running.admitted.completion, running.call.offer.model_id
    return {"id": completion.id, "type": "message", "role": "assistant", "model": model}


def _counted(reported: Fields, usage: Usage, charged_nanos: int | None) -> Fields:
    """Return the usage in the words of the provider, with the numbers that are charged."""
    counted = {**reported, **_usage_object(usage, charged_nanos)}
    if isinstance(lifetimes := reported.get("cache_creation"), dict):
        hour = usage.cache_write_1h_tokens
        kept = {"ephemeral_5m_input_tokens": usage.cache_write_tokens - hour, "ephemeral_1h_input_tokens": hour}
        counted["cache_creation"] = lifetimes | kept
    return counted


def _usage_object(usage: Usage, charged_nanos: int | None) -> Fields:
    """Return the tokens by price. Anthropic's ``input_tokens`` are those that no cache had to do with."""
    return {
        "input_tokens": max(usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens, 0),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "cost": dollars.json_number(charged_nanos),
    }
