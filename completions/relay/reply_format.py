"""The bytes of a reply: what every format of replies does, and the format of chat completions.

The id, the creation time and the model of every object are the gateway's own, not the provider's.
"""

import json
from abc import ABC, abstractmethod
from typing import Any

import msgspec
from django.conf import settings

from completions.chat import Chunk, WholeReply
from completions.pricing.usage import Usage
from completions.providers import sse
from completions.relay.running import Running
from gateway_project import errors
from gateway_project.text import compact_json, dollars


class EventWriter(ABC):
    """Formats the chunks of one stream as server-sent events, and stores them for a replay under the same Idempotency-Key.

    ``is_kept``: the reply is written to its end even without a client, which may ask for it again.
    """

    def __init__(self, running: Running) -> None:
        self.is_kept = running.admitted.idempotency_key is not None
        self._stored: list[bytes] = []
        self._stored_bytes = 0 if running.admitted.idempotency_key else settings.IDEMPOTENT_REPLY_BYTES_MAX + 1

    def write(self, chunks: list[Chunk]) -> bytes:
        written = self._format(chunks)
        if self._stored_bytes <= settings.IDEMPOTENT_REPLY_BYTES_MAX:  # a longer reply is not replayed: stop storing it
            self._stored.append(written)
            self._stored_bytes += len(written)
        return written

    def stored(self) -> bytes:
        """Return all events, for a replay. Too long a reply is cut off, but stays above the limit, so it is not replayed."""
        return b"".join(self._stored)

    @abstractmethod
    def _format(self, chunks: list[Chunk]) -> bytes:
        """Return the events of one read. A chunk that only reports usage need not have one."""

    @abstractmethod
    def end(self, usage: Usage, charged_nanos: int | None) -> bytes:
        """Return the last events of a complete stream. ``charged_nanos`` is None where it is not known yet.

        Changes nothing: it may be called twice, with the expected charge and with the charge.
        """

    @abstractmethod
    def error(self, error: errors.ApiError) -> bytes:
        """Return the last event of a stream that failed."""


class WholeFormat(ABC):
    @abstractmethod
    def whole(self, running: Running, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        """Return a whole reply as JSON. ``charged_nanos`` is None where it is not known yet."""


class ReplyFormat(WholeFormat):
    @abstractmethod
    def events(self, running: Running) -> EventWriter:
        """Return the writer of one stream, whose first chunk has arrived."""


class ChatFormat(ReplyFormat):
    def whole(self, running: Running, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        choices = received.choices
        if running.admitted.request.reasoning.is_excluded:
            choices = [{**choice, "message": _without_reasoning(choice["message"])} for choice in choices]
        # OpenRouter's SDKs refuse a reply without a fingerprint, and take null.
        reply = {**_head(running, "chat.completion"), "system_fingerprint": None, "choices": choices}
        return compact_json.dumps({**reply, "usage": _usage_object(usage, charged_nanos)})

    def events(self, running: Running) -> EventWriter:
        return (AnswerEventWriter if running.admitted.request.reasoning.is_excluded else ChatEventWriter)(running)


class ChatEventWriter(EventWriter):
    """Writes chat.completion.chunk objects. The choices of a chunk are sent as the bytes that they are."""

    def __init__(self, running: Running) -> None:
        super().__init__(running)
        self._include_usage = running.admitted.request.include_usage
        head = compact_json.dumps_ascii(_head(running, "chat.completion.chunk"))
        self._before = b"data: " + head[:-1] + b',"choices":'
        self._after = b',"usage":null}\n\n' if running.admitted.request.has_null_usage else b"}\n\n"
        self._between = self._after + self._before

    def _format(self, chunks: list[Chunk]) -> bytes:
        choices = [chunk.choices for chunk in chunks if chunk.usage is None]
        return self._before + self._between.join(choices) + self._after if choices else b""

    def end(self, usage: Usage, charged_nanos: int | None) -> bytes:
        if not self._include_usage:
            return sse.DONE
        usage_object = compact_json.dumps(_usage_object(usage, charged_nanos))
        return self._before + b'[],"usage":' + usage_object + b"}\n\n" + sse.DONE

    def error(self, error: errors.ApiError) -> bytes:
        """Return an event that has only ``error``. In a valid chunk, some clients would take the text for whole."""
        return b"data: " + compact_json.dumps_ascii(error.body()) + b"\n\n"


class AnswerEventWriter(ChatEventWriter):
    """Writes chat.completion.chunk objects without the model's reasoning. While it reasons, the client gets heartbeats."""

    def _format(self, chunks: list[Chunk]) -> bytes:
        shown = [msgspec.structs.replace(chunk, choices=left) for chunk in chunks if (left := _answer_choices(chunk.choices))]
        return super()._format(shown) or sse.HEARTBEAT


_REASONING = frozenset({"reasoning_content", "reasoning", "reasoning_details"})


def _without_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name not in _REASONING}


def _answer_choices(choices: bytes) -> bytes:
    """Return the choices of a chunk without reasoning; nothing where there was nothing else."""
    left = []
    for choice in json.loads(choices or b"[]"):  # msgspec refuses halves of surrogate pairs
        delta = _without_reasoning(choice["delta"])
        if delta == choice["delta"] or delta or choice.get("finish_reason"):
            left.append({**choice, "delta": delta})
    return compact_json.dumps_ascii(left) if left else b""


def _head(running: Running, kind: str) -> dict[str, Any]:
    completion = running.admitted.completion
    return {
        "id": completion.id,
        "object": kind,
        "created": int(completion.created_at.timestamp()),
        "model": running.call.offer.model_id,
        "provider": running.call.route.provider_slug,  # OpenRouter's: pydantic-ai's OpenRouterModel refuses a reply without it
    }


def _usage_object(usage: Usage, charged_nanos: int | None) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "cost": dollars.json_number(charged_nanos),
    }
