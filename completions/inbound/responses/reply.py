"""The bytes of a reply in OpenAI's Responses: the response object, and the events of a stream.

The id, the model and the counts of tokens are the gateway's own.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from completions.chat import Chunk, Usage, WholeReply
from completions.inbound.events import as_json, event, parse_choices
from completions.inbound.responses import output
from completions.inbound.responses.output import Output, SealText
from completions.inbound.responses.tools import Called
from completions.providers import sealed_reasoning
from completions.relay.attempts import Dispatch
from completions.relay.reply_format import EventWriter, ReplyFormat
from completions.request.fields import Fields
from gateway_project import compact_json, dollars, errors


class ResponsesFormat(ReplyFormat):
    """Replies of one request, which repeat fields of it. ``called``: what calls of its tools are, by their names in chat.

    ``encrypts_reasoning``: items of reasoning have what is to be sent back of it.
    """

    def __init__(self, repeated: Fields, called: Mapping[str, Called], *, encrypts_reasoning: bool = False) -> None:
        self._repeated = repeated
        self._called = called
        self._encrypts_reasoning = encrypts_reasoning

    def whole(self, dispatch: Dispatch, received: WholeReply, usage: Usage, charged_nanos: int | None) -> bytes:
        said = output.of_whole(_name(dispatch), received.choices[0], self._called, self._seal_text(dispatch))
        return as_json(_completed(dispatch, self._repeated, said, usage, charged_nanos))

    def events(self, dispatch: Dispatch) -> EventWriter:
        return ResponsesEventWriter(dispatch, self._repeated, self._called, self._seal_text(dispatch))

    def _seal_text(self, dispatch: Dispatch) -> SealText | None:
        return partial(sealed_reasoning.seal_text, dispatch.call) if self._encrypts_reasoning else None


class ResponsesEventWriter(EventWriter):
    """Writes the events of one response, numbered from 0."""

    def __init__(self, dispatch: Dispatch, repeated: Fields, called: Mapping[str, Called], seal_text: SealText | None) -> None:
        super().__init__(dispatch)
        self._dispatch = dispatch
        self._repeated = repeated
        self._output = Output(_name(dispatch), called, seal_text)
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
        response = _completed(self._dispatch, self._repeated, self._output, usage, charged_nanos)
        last = {"type": f"response.{response['status']}", "response": response}
        return self._numbered([*self._beginning(), *self._output.end(), last])

    def error(self, error: errors.ApiError) -> bytes:
        """Return the two events that OpenAI ends such a stream with.

        The first has the error twice: as its reference has it, and as its servers send it, at which its own clients raise.
        """
        told = error.body()["error"]
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        failed = _response(
            self._dispatch,
            self._repeated,
            status="failed",
            output=self._output.items(is_cut=True),
            error={"code": code, "message": error.message},
        )
        flat = {name: told[name] for name in ("code", "message", "param")}
        events = [{"type": "error", **flat, "error": told}, {"type": "response.failed", "response": failed}]
        return self._numbered([*self._beginning(), *events])

    def _beginning(self) -> list[Fields]:
        """Return the first events, unless they are written already."""
        if self._written:
            return []
        response = _response(self._dispatch, self._repeated, status="in_progress", output=[])
        return [{"type": f"response.{what}", "response": response} for what in ("created", "in_progress")]

    def _numbered(self, events: list[Fields]) -> bytes:
        return b"".join(event({**each, "sequence_number": number}) for number, each in enumerate(events, self._written))


def _name(dispatch: Dispatch) -> str:
    """Return what the ids of items begin with, so that they are unique in a conversation."""
    return f"{dispatch.admitted.completion.id.removeprefix('chatcmpl-')}_"


def _completed(dispatch: Dispatch, repeated: Fields, said: Output, usage: Usage, charged_nanos: int | None) -> Fields:
    """Return the response object of a reply that came to its end."""
    reason = said.incomplete_reason
    return _response(
        dispatch,
        repeated,
        status="incomplete" if reason else "completed",
        output=said.items(),
        incomplete_details={"reason": reason} if reason else None,
        usage=_usage_object(usage, charged_nanos),
    )


# OpenRouter's SDKs refuse a response without these.
_UNUSED = dict.fromkeys(("completed_at", "frequency_penalty", "presence_penalty"))


def _response(dispatch: Dispatch, repeated: Fields, **fields: Any) -> Fields:
    completion = dispatch.admitted.completion
    return {
        "id": completion.id,
        "object": "response",
        "created_at": int(completion.created_at.timestamp()),
        "error": None,
        "incomplete_details": None,
        "model": dispatch.call.offer.model_id,
        "usage": None,
        **_UNUSED,
        **repeated,
        **fields,
    }


def _usage_object(usage: Usage, charged_nanos: int | None) -> Fields:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "cost": None if charged_nanos is None else compact_json.number(dollars.format_plain(charged_nanos)),
    }
