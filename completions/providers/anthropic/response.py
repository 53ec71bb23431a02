"""Reads replies of Anthropic's Messages API: whole ones, the events of a stream and errors, in OpenAI's terms. Pure."""

import re
from typing import Any

from msgspec import structs

from completions import estimates
from completions.chat import Chunk, WholeReply
from completions.providers import error_body, finish_reasons, sealed_reasoning, wire
from completions.providers.error_body import ProviderError
from completions.providers.exchange import InBandError, UnusableResponse, in_band_error
from completions.providers.reported_usage import MESSAGES, Report
from completions.providers.sealed_reasoning import PlacedReasoning, Seal
from completions.providers.translated_streams import StreamedCall, TranslatedStream
from completions.request.fields import Fields
from gateway_project.text import compact_json

# Error type -> HTTP status, where the error arrives with a 2xx status.
STATUSES = {
    **{"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403},
    **{"not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429},
    **{"timeout_error": 504, "overloaded_error": 529},
}
# Type of a block or a delta with generated text -> the field that has it, and OpenAI's field for it.
_TEXT_FIELDS = {
    **dict.fromkeys(("text", "text_delta"), ("text", "content")),
    **dict.fromkeys(("thinking", "thinking_delta"), ("thinking", "reasoning_content")),
}
_FORMAT = "anthropic-claude-v1"  # of reasoning, in OpenRouter's words
_THINKING = ("thinking", "redacted_thinking")
_FOUND = "web_search_tool_result"
_TEXT_BLOCKS = ("text", *_THINKING)
_UNPAID = re.compile(r"credit balance is too low|specified (?:workspace )?API usage limits")


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader(TranslatedStream):
    """Converts the data of events to Chunks.

    No chunk is returned before the first block of content begins: a failure before that can still be reported by its own
    status. The counts of the prompt are returned with the first chunk, so that a client that disconnects in the middle is
    charged for the real prompt.

    With ``keeps_events`` the events of the message are passed on, too, as they are: for a caller who speaks Messages. For all
    others ``seal`` seals the blocks of thinking.
    """

    form = _FORMAT

    def __init__(self, *, keeps_events: bool = False, seal: Seal | None = None, report: Report | None = None) -> None:
        super().__init__(report or Report(MESSAGES))
        self._report.is_number_of_searches_final = False
        self._has_output = False  # true when the end has told how many tokens were generated
        self._keeps_events = keeps_events
        self._start: list[Chunk] = []  # the event of the start, where it is kept
        self._inputs: dict[int, Fields] = {}  # of calls, as their blocks began with them, by the index of the block
        self._thinking = _Thinking(seal) if seal else None

    def _read(self, event: Fields) -> list[Chunk]:
        chunks = self._read_event(event)
        if self._keeps_events and event.get("type", "").startswith(("content_block_", "message_delta")):
            chunks.append(Chunk(b"[]", event=event))
        return chunks

    def _read_event(self, event: Fields) -> list[Chunk]:
        match event.get("type"):
            case "message_start":
                self._start = [Chunk(b"[]", event=event)] if self._keeps_events else []
                self._report.note(event["message"].get("usage"))
            case "content_block_start":
                return self._begin() + self._begin_block(event["index"], event["content_block"])
            case "content_block_delta":
                return self._read_delta(event["index"], event["delta"])
            case "content_block_stop":
                return self._end_block(event["index"])
            case "message_delta":
                return self._end(event["delta"].get("stop_reason"), event.get("usage"))
            case "message_stop":
                self.has_ended = True
            case "error":
                raise read_error(event["error"])
            case None if error_body.is_error(event):
                raise in_band_error(event)
        return []  # also for "ping" and for types that Anthropic may add

    def _begin(self) -> list[Chunk]:
        """Return the role and the usage so far, once."""
        return [] if self._has_begun else [*self._start, *super()._begin(), *self._usage(self._report.usage())]

    def _begin_block(self, index: int, block: Fields) -> list[Chunk]:
        if block["type"] == "tool_use":
            self._inputs[index] = block.get("input") or {}
            return self._begin_call(index, StreamedCall(len(self._calls)), block["id"], block["name"])
        self._begins = self._begins or block["type"] not in _TEXT_BLOCKS
        if self._thinking and block["type"] in _THINKING:
            self._thinking.begin_block(block, (self._characters, len(self._calls)))
        if block["type"] != _FOUND:
            return self._told(block)
        _count_searches(self._report, [block])  # for a reply that breaks off: the usage at the end has the real number
        return self._usage(self._report.usage())

    def _read_delta(self, index: int, delta: Fields) -> list[Chunk]:
        if delta["type"] == "input_json_delta":
            return self._called(index, delta["partial_json"]) if index in self._calls else []
        if self._thinking and self._thinking.block:
            self._thinking.add(delta)
        return self._told(delta)

    def _told(self, part: Fields) -> list[Chunk]:
        theirs, ours = _TEXT_FIELDS.get(part["type"], ("", ""))
        text = part.get(theirs)
        if not text:
            return []
        if ours == "content":
            return self._said(ours, text)
        return self._reasoned(text, self._thinking.index) if self._thinking else self._generated({ours: text}, text)

    def _end_block(self, index: int) -> list[Chunk]:
        call = self._calls.get(index)
        if call is None:
            return self._detailed(self._thinking.end() if self._thinking and self._thinking.block else None)
        # No arguments arrived: the tool has no parameters, or the server sent them with the block. Clients parse them as JSON.
        return [] if call.has_input else self._called(index, compact_json.dumps_text(self._inputs[index]))

    def _end(self, stop_reason: str | None, usage: Any) -> list[Chunk]:
        given = usage if isinstance(usage, dict) else {}
        self._report.note(given)
        self._report.is_number_of_searches_final |= bool(given.get("server_tool_use"))
        self._has_output = self._has_output or bool(wire.token_count(given.get("output_tokens")))
        if not self._has_output:  # the counts so far are from before the text, so the text is estimated
            self._report.counts["output_tokens"] = estimates.estimate_tokens(self._text_bytes)
        chunks = self._begin()
        if stop_reason is not None and not self.has_finish_reason:
            self.has_finish_reason = True
            reason, self.unknown_reason = finish_reasons.read(stop_reason, finish_reasons.ANTHROPIC)
            chunks.append(wire.chunk({}, finish_reason=reason))
        return chunks + self._usage(self._report.usage())


class _Thinking(PlacedReasoning):
    """The blocks of thinking of one reply."""

    def __init__(self, seal: Seal) -> None:
        super().__init__(seal)
        self.block: Fields | None = None  # that has begun
        self._text: list[str] = []

    def begin_block(self, block: Fields, at: tuple[int, int]) -> None:
        self.begin(at)
        self.block, self._text = block, [block.get("thinking") or ""]

    def add(self, delta: Fields) -> None:
        if delta["type"] == "signature_delta":
            self.block = {**(self.block or {}), "signature": delta["signature"]}
        elif delta["type"] == "thinking_delta":
            self._text.append(delta.get("thinking") or "")

    def end(self) -> Fields | None:
        """Return what ends a block of thinking in chat; None without a signature, or if no such block has begun.

        Only the first is the signature of a text: of texts that follow one another, OpenRouter's clients make one, with the
        first signature.
        """
        block, self.block = self.block or {}, None
        if block.get("data"):
            kept = {"type": block["type"], "data": block["data"]}
        elif signature := block.get("signature"):
            kept = {"type": block["type"], "thinking": "".join(self._text), "signature": signature}
        else:
            return None
        is_hidden = "data" in block or self.index > 0
        detail = sealed_reasoning.hidden_detail if is_hidden else sealed_reasoning.signature_detail
        self.index += 1
        return detail(self._sealed({"block": kept}), _FORMAT, self.index - 1)

    def whole(self, block: Fields, at: tuple[int, int]) -> list[Fields]:
        """Return the details of a whole block: its text, and its seal if that is not the text's signature."""
        self.begin_block(block, at)
        index, sealed = self.index, self.end() or {}
        details = [sealed] if "data" in sealed else []
        if block["type"] != "thinking":
            return details
        return [sealed_reasoning.text_detail(block["thinking"], _FORMAT, index, sealed.get("signature", "")), *details]


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes, seal: Seal | None = None, report: Report | None = None) -> WholeReply:
    """Return the reply in a message object, with its thinking sealed if there is a ``seal``. Raises UnusableResponse."""
    report = report or Report(MESSAGES)
    report.is_number_of_searches_final = True  # also where a stream was asked for
    try:
        reply = wire.parse_json(body)
        if reply["type"] == "error":
            raise read_error(reply["error"])
        message = _message(reply["content"], seal)
        _count_searches(report, reply["content"])
        text_bytes, stop_reason = wire.generated_bytes(message), reply.get("stop_reason")
    except wire.MALFORMED as error:
        raise UnusableResponse(f"{len(body)} bytes are not a message: {type(error).__name__}") from error
    reason, unknown = finish_reasons.read(stop_reason, finish_reasons.ANTHROPIC)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    choices = wire.replace_lone_surrogates(body, [choice])
    usage = report.add(reply.get("usage"))
    return WholeReply(choices, usage=usage, text_bytes=text_bytes, unknown_finish_reason=unknown)


def parse_message(body: bytes, report: Report | None = None) -> WholeReply:
    """Return the reply in a message object, and the object itself. Raises UnusableResponse."""
    reply = parse_reply(body, report=report)
    return structs.replace(reply, message=wire.replace_lone_surrogates(body, wire.parse_json(body)))


def _message(blocks: list[Fields], seal: Seal | None) -> Fields:
    """Return OpenAI's message. Thinking is not content, and OpenAI's message has no place for blocks of other types."""
    text = thinking = ""
    ids, calls, details = set[str](), list[Fields](), list[Fields]()
    sealing = _Thinking(seal) if seal else None
    for block in blocks:
        match block["type"]:
            case "text":
                text += block["text"]
            case "tool_use":
                if not isinstance(block["name"], str):
                    raise TypeError("a tool without a name")
                function = {"name": block["name"], "arguments": compact_json.dumps_text(block["input"])}
                calls.append({"id": wire.own_id(block["id"], ids), "type": "function", "function": function})
            case "thinking" | "redacted_thinking" as kind:
                thinking += block["thinking"] if kind == "thinking" else ""
                details += sealing.whole(block, (len(text), len(calls))) if sealing else []
    return {
        "role": "assistant",
        "content": None if calls and not text else text,
        "refusal": None,
        **({"reasoning_content": thinking} if thinking else {}),
        **({"reasoning": thinking} if thinking and seal else {}),
        **({"reasoning_details": details} if details else {}),
        **({"tool_calls": calls} if calls else {}),
    }


# --- Usage and errors -------------------------------------------------------------------------------------------


def _count_searches(report: Report, blocks: list[Fields]) -> None:
    """Count those that found something, a list, and those that failed, which are not billed."""
    found = [isinstance(block.get("content"), list) for block in blocks if block["type"] == _FOUND]
    report.results += sum(found)
    report.failures += len(found) - sum(found)


def read_error(error: Fields) -> InBandError:
    """Return the exception for an error object that arrived with a 2xx status."""
    reason = str(error.get("message") or "")
    names = frozenset({str(error["type"])})
    return InBandError(ProviderError(reason, names=names), _status(STATUSES.get(error["type"], 500), reason))


def read_refusal(status: int, body: bytes) -> tuple[int, str]:
    """Return the status that a refusal should have had, and "": no wait is named in its body."""
    return _status(status, error_body.parse(body).message if status == 400 else ""), ""


def _status(status: int, reason: str) -> int:
    """Return 402 or 403 for a 400 that is about our account there: disabled, or without credit."""
    if status != 400:
        return status
    if reason.startswith("This organization has been disabled"):
        return 403
    return 402 if _UNPAID.search(reason) else status
