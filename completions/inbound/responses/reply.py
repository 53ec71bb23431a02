"""The bytes of a reply in OpenAI's Responses: the response object, and the events of a stream.

The id, the model and the counts of tokens are the gateway's own.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import msgspec

from completions.chat import Chunk, WholeReply
from completions.inbound.events import as_json, event, parse_choices
from completions.inbound.responses import compaction
from completions.inbound.responses.keeping import Keeping
from completions.inbound.responses.output import Output
from completions.inbound.responses.tools import Called
from completions.pricing.usage import Usage
from completions.providers import sealed_reasoning
from completions.relay.reply_format import EventWriter, ReplyFormat
from completions.relay.running import Running
from completions.request.fields import Fields
from gateway_project import errors
from gateway_project.text import dollars


@dataclass(frozen=True, eq=False)
class ResponsesFormat(ReplyFormat):
    """Replies to one request, which repeat fields of it. ``called`` has its tools by their names in the chat request.

    With ``searches``, OpenAI may search the web: searches and citations of the reply are read, which they are not of other
    providers. With ``encrypts_reasoning``, items of reasoning have ``encrypted_content`` for the caller to send back. With
    ``kept``, the response is to be stored, unless the account forbids that. With ``compacts``, its text is a summary.
    """

    repeated: Fields
    called: Mapping[str, Called]
    _: KW_ONLY
    searches: bool = False
    encrypts_reasoning: bool = False
    kept: Keeping | None = None
    compacts: bool = False

    def whole(self, running: Running, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        output = self.output(running)
        output.read_whole(received.choices[0])
        return as_json(self.completed(running, output, usage, charged_nanos))

    def events(self, running: Running) -> EventWriter:
        return ResponsesEventWriter(running, self)

    def keeping(self, running: Running) -> Keeping | None:
        return self.kept if running.admitted.keeps_responses and not running.admitted.keeps_nothing else None

    def output(self, running: Running) -> Output:
        """Return the output of a reply that has no content yet."""
        if self.compacts:
            seal = partial(compaction.seal_summary, running.admitted.completion.account_id)
            return compaction.CompactionOutput(_name(running), seal)
        seals = self.encrypts_reasoning or self.keeping(running) is not None
        seal_text = partial(sealed_reasoning.seal_text, running.call) if seals else None
        shown = {"shows_sealed": self.encrypts_reasoning, "searches": self.searches}
        return Output(_name(running), self.called, seal_text, **shown)

    def completed(self, running: Running, output: Output, usage: Usage, charged_nanos: int | None) -> Fields:
        """Return the response object of a finished reply, and note what to store."""
        reason = output.incomplete_reason
        response = self.response(
            running,
            status="incomplete" if reason else "completed",
            output=output.items(),
            incomplete_details={"reason": reason} if reason else None,
            service_tier=usage.tier or "default",
            usage=_usage_object(usage, charged_nanos),
        )
        if keeping := self.keeping(running):
            account_id, kept = running.admitted.completion.account_id, output.kept_items()
            running.response = keeping.record(account_id, kept, response, shows_sealed=self.encrypts_reasoning)
            response["store"] = running.response is not None
        return response

    def failed(self, running: Running, error: errors.ApiError, output: list[Fields]) -> Fields:
        """Return the response object of a reply that broke off, or never began."""
        code = error.code if error.code in _TOLD_CODES else "server_error"
        failure = {"code": code, "message": error.message}
        return self.response(running, status="failed", output=output, error=failure, store=False)

    def response(self, running: Running, **fields: Any) -> Fields:
        completion = running.admitted.completion
        return {
            "id": completion.id,
            "object": "response",
            "created_at": int(completion.created_at.timestamp()),
            "error": None,
            "incomplete_details": None,
            "model": running.call.offer.model_id,
            "usage": None,
            **_UNUSED,
            **self.repeated,
            "store": self.keeping(running) is not None,
            **fields,
        }


@dataclass(frozen=True, eq=False)
class CompactedFormat(ResponsesFormat):
    """Replies of POST /v1/responses/compact: what the user wrote, as JSON, and the summary."""

    of_user: msgspec.Raw = field(kw_only=True)

    def completed(self, running: Running, output: Output, usage: Usage, charged_nanos: int | None) -> Fields:
        reason, completion = output.incomplete_reason, running.admitted.completion
        return {
            "id": completion.id,
            "object": "response.compaction",
            "created_at": int(completion.created_at.timestamp()),
            "model": running.call.offer.model_id,
            "output": [*msgspec.json.decode(self.of_user, type=list[msgspec.Raw]), *output.items()],
            "incomplete_details": {"reason": reason} if reason else None,
            "usage": _usage_object(usage, charged_nanos),
        }


class ResponsesEventWriter(EventWriter):
    """Writes the events of one response, numbered from 0."""

    def __init__(self, running: Running, reply_format: ResponsesFormat) -> None:
        super().__init__(running)
        self.is_kept = self.is_kept or reply_format.keeping(running) is not None
        self._running = running
        self._reply_format = reply_format
        self._output = reply_format.output(running)
        self._written = 0

    def _format(self, chunks: list[Chunk]) -> bytes:
        events = self._beginning()
        for chunk in chunks:
            if chunk.usage is None:
                for choice in parse_choices(chunk.choices):
                    events += self._output.read(choice)
        numbered = self._numbered(events)
        self._written += len(events)
        return numbered

    def end(self, usage: Usage, charged_nanos: int | None) -> bytes:
        response = self._reply_format.completed(self._running, self._output, usage, charged_nanos)
        last = {"type": f"response.{response['status']}", "response": response}
        return self._numbered([*self._beginning(), *self._output.end(), last])

    def error(self, error: errors.ApiError) -> bytes:
        """Return the two events that OpenAI ends such a stream with.

        The first has the error twice: as OpenAI's reference shows it, and as OpenAI's servers send it, for its clients.
        """
        body = error.body()["error"]
        failed = self._reply_format.failed(self._running, error, self._output.items(is_cut=True))
        flat = {name: body[name] for name in ("code", "message", "param")}
        events = [{"type": "error", **flat, "error": body}, {"type": "response.failed", "response": failed}]
        return self._numbered([*self._beginning(), *events])

    def _beginning(self) -> list[Fields]:
        """Return the first events, unless they are written already."""
        if self._written:
            return []
        response = self._reply_format.response(self._running, status="in_progress", output=[])
        return [{"type": f"response.{what}", "response": response} for what in ("created", "in_progress")]

    def _numbered(self, events: list[Fields]) -> bytes:
        return b"".join(event({**each, "sequence_number": number}) for number, each in enumerate(events, self._written))


def _name(running: Running) -> str:
    """Return what the ids of items begin with, so that they are unique in a conversation."""
    return f"{running.admitted.completion.id.removeprefix('chatcmpl-')}_"


# Of a failed response: those that Codex and others act on.
_TOLD_CODES = ("rate_limit_exceeded", "insufficient_quota", "context_length_exceeded", "content_filter")
# OpenRouter's SDKs refuse a response without these.
_UNUSED = dict.fromkeys(("completed_at", "frequency_penalty", "presence_penalty"))


def _usage_object(usage: Usage, charged_nanos: int | None) -> Fields:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "cost": dollars.json_number(charged_nanos),
    }
