"""Reads replies of Anthropic's Messages API: whole ones, the events of a stream and errors, in OpenAI's terms. Pure."""

import re
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from completions.chat import Chunk, WholeReply
from completions.estimates import cost
from completions.providers import error_body, finish_reasons, sealed_reasoning, wire
from completions.providers.error_body import UpstreamError
from completions.providers.exchange import InBandError, UnusableResponse, in_band_error
from completions.providers.reading import EventReader
from completions.providers.reported_usage import MESSAGES, Report
from completions.providers.sealed_reasoning import Seal
from gateway_project.text import compact_json

# Error type -> HTTP status, where the error arrives with a 2xx status.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# Type of a block or a delta with generated text -> the field that has it, and OpenAI's field for it.
_TEXT_FIELDS = {
    "text": ("text", "content"),
    "text_delta": ("text", "content"),
    "thinking": ("thinking", "reasoning_content"),
    "thinking_delta": ("thinking", "reasoning_content"),
}
_FORMAT = "anthropic-claude-v1"  # of reasoning, in OpenRouter's words
_THINKING = ("thinking", "redacted_thinking")
_FOUND = "web_search_tool_result"
_TEXT_BLOCKS = ("text", *_THINKING)
_UNPAID = re.compile(r"credit balance is too low|specified (?:workspace )?API usage limits")


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader(EventReader):
    """Converts the data of events to Chunks.

    No chunk is returned before the first block of content begins: a failure before that can still be reported by its own
    status. The counts of the prompt are returned with the first chunk, so that a client that disconnects in the middle is
    charged for the real prompt.

    With ``keeps_events`` the events of the message are passed on, too, as they are: for a caller who speaks Messages. For all
    others ``seal`` seals the blocks of thinking.
    """

    def __init__(self, *, keeps_events: bool = False, seal: Seal | None = None, report: Report | None = None) -> None:
        super().__init__()
        self._report = report or Report(MESSAGES)
        self._report.is_number_of_searches_final = False
        self._has_output = False  # true when the end has told how many tokens were generated
        self._has_begun = False
        self._text_bytes = 0
        self._keeps_events = keeps_events
        self._start: list[Chunk] = []  # the event of the start, where it is kept
        self._tool_calls: dict[int, _ToolCall] = {}  # by the index of their block
        self._ids: set[str] = set()  # of them
        self._thinking = _Thinking(seal) if seal else None
        self._characters = 0  # of the text so far

    def _read(self, event: dict[str, Any]) -> list[Chunk]:
        return self._read_event(event) + self._kept(event)

    def _read_event(self, event: dict[str, Any]) -> list[Chunk]:
        match event.get("type"):
            case "message_start":
                self._start = self._kept_start(event)
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

    def _kept(self, event: Any) -> list[Chunk]:
        """Return the event of a block, or of the end, where they are kept."""
        is_kept = self._keeps_events and event.get("type", "").startswith(("content_block_", "message_delta"))
        return [Chunk(b"[]", event=event)] if is_kept else []

    def _kept_start(self, event: Any) -> list[Chunk]:
        return [Chunk(b"[]", event=event)] if self._keeps_events else []

    def _begin(self) -> list[Chunk]:
        """Return the role and the usage so far, once."""
        if self._has_begun:
            return []
        self._has_begun = True
        return [*self._start, wire.chunk({"role": "assistant", "content": ""}), *self._usage_chunks()]

    def _begin_block(self, index: int, block: dict[str, Any]) -> list[Chunk]:
        if block["type"] != "tool_use":
            self._begins = self._begins or block["type"] not in _TEXT_BLOCKS
            if self._thinking and block["type"] in _THINKING:
                self._thinking.begin(block, (self._characters, len(self._tool_calls)))
            return self._searched(block) if block["type"] == _FOUND else self._text_chunks(block)
        tool_call = self._tool_calls[index] = _ToolCall(len(self._tool_calls), block.get("input") or {})
        return self._generated_chunks(tool_call.first_delta(wire.own_id(block["id"], self._ids), block["name"]), block["name"])

    def _searched(self, block: dict[str, Any]) -> list[Chunk]:
        """Count a search, for a reply that breaks off: the usage at the end has the real number."""
        _count_searches(self._report, [block])
        return self._usage_chunks()

    def _read_delta(self, index: int, delta: dict[str, Any]) -> list[Chunk]:
        if delta["type"] != "input_json_delta":
            if self._thinking and self._thinking.block:
                self._thinking.add(delta)
            return self._text_chunks(delta)
        tool_call = self._tool_calls.get(index)
        return self._arguments_chunks(tool_call, delta["partial_json"]) if tool_call else []

    def _end_block(self, index: int) -> list[Chunk]:
        tool_call = self._tool_calls.get(index)
        if tool_call is None:
            detail = self._thinking.end() if self._thinking and self._thinking.block else None
            return [*self._begin(), wire.chunk({"reasoning_details": [detail]})] if detail else []
        if tool_call.has_arguments:
            return []
        # No arguments arrived: the tool has no parameters, or the server sent them with the block. Clients parse them as JSON.
        return self._arguments_chunks(tool_call, compact_json.dumps_text(tool_call.input))

    def _end(self, stop_reason: str | None, usage: Any) -> list[Chunk]:
        given = usage if isinstance(usage, dict) else {}
        self._report.note(given)
        self._report.is_number_of_searches_final |= bool(given.get("server_tool_use"))
        self._has_output = self._has_output or bool(wire.token_count(given.get("output_tokens")))
        if not self._has_output:  # the counts so far are from before the text, so the text is estimated
            self._report.counts["output_tokens"] = cost.estimate_tokens(self._text_bytes)
        chunks = self._begin()
        if stop_reason is not None and not self.has_finish_reason:
            self.has_finish_reason = True
            reason, self.unknown_reason = finish_reasons.read(stop_reason, finish_reasons.ANTHROPIC)
            chunks.append(wire.chunk({}, finish_reason=reason))
        return chunks + self._usage_chunks()

    def _text_chunks(self, part: dict[str, Any]) -> list[Chunk]:
        theirs, ours = _TEXT_FIELDS.get(part["type"], ("", ""))
        text = part.get(theirs)
        if not text:
            return []
        if self._thinking and ours == "reasoning_content":
            return self._generated_chunks(sealed_reasoning.text_members(text, _FORMAT, self._thinking.index), text)
        self._characters += len(text)
        return self._generated_chunks({ours: text}, text)

    def _arguments_chunks(self, tool_call: "_ToolCall", text: str) -> list[Chunk]:
        if not text:
            return []
        tool_call.has_arguments = True
        return self._generated_chunks(tool_call.arguments_delta(text), text)

    def _generated_chunks(self, delta: dict[str, Any], text: str) -> list[Chunk]:
        text_bytes = wire.text_bytes(text)
        self._text_bytes += text_bytes
        return [*self._begin(), wire.chunk(delta, text_bytes=text_bytes)]

    def _usage_chunks(self) -> list[Chunk]:
        usage = self._report.usage()
        return [Chunk(b"[]", usage=usage)] if usage else []


@dataclass(slots=True)
class _ToolCall:
    """A tool call that is being streamed. ``number`` is its index among the tool calls; ``input`` is the block's own input."""

    number: int
    input: dict[str, Any]
    has_arguments: bool = False

    def first_delta(self, tool_id: str, name: str) -> dict[str, Any]:
        return self._delta({"id": tool_id, "type": "function", "function": {"name": name, "arguments": ""}})

    def arguments_delta(self, text: str) -> dict[str, Any]:
        return self._delta({"function": {"arguments": text}})

    def _delta(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"tool_calls": [{"index": self.number, **fields}]}


class _Thinking:
    """Seals the blocks of thinking of one reply, one after another, each with its place: Anthropic takes it in no other.

    A place is the number of characters, and of calls of tools, that come before.
    """

    def __init__(self, seal: Seal) -> None:
        self.block: dict[str, Any] | None = None  # that has begun
        self.index = 0  # of it, among its kind
        self._seal = seal
        self._at = (0, 0)
        self._text: list[str] = []

    def begin(self, block: dict[str, Any], at: tuple[int, int]) -> None:
        self.block, self._text, self._at = block, [block.get("thinking") or ""], at

    def add(self, delta: dict[str, Any]) -> None:
        if delta["type"] == "signature_delta":
            self.block = {**(self.block or {}), "signature": delta["signature"]}
        elif delta["type"] == "thinking_delta":
            self._text.append(delta.get("thinking") or "")

    def end(self) -> dict[str, Any] | None:
        """Return what ends a block of thinking in chat; None without a signature, or if no such block has begun.

        Only the first is the signature of a text: of texts that follow one another, OpenRouter's clients make one, with the
        first signature.
        """
        block, self.block = self.block, None
        if block is None or not (sealed := self._sealed(block)):
            return None
        is_hidden = "data" in block or self.index > 0
        detail = sealed_reasoning.hidden_detail if is_hidden else sealed_reasoning.signature_detail
        self.index += 1
        return detail(sealed, _FORMAT, self.index - 1)

    def whole(self, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the details of a whole reply."""
        details, characters, calls = list[dict[str, Any]](), 0, 0
        for block in blocks:
            match block["type"]:
                case "text":
                    characters += len(block["text"])
                case "tool_use":
                    calls += 1
                case "thinking" | "redacted_thinking":
                    self.begin(block, (characters, calls))
                    details += self._whole(block)
        return details

    def _whole(self, block: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the details of one block: its text, if it has one, and its seal, if that is not the text's signature."""
        index, sealed = self.index, self.end() or {}
        hidden = [sealed] if "data" in sealed else []
        if block["type"] != "thinking":
            return hidden
        return [sealed_reasoning.text_detail(block["thinking"], _FORMAT, index, sealed.get("signature", "")), *hidden]

    def _sealed(self, block: dict[str, Any]) -> str:
        if block.get("data"):
            kept = {"type": block["type"], "data": block["data"]}
        elif signature := block.get("signature"):
            kept = {"type": block["type"], "thinking": "".join(self._text), "signature": signature}
        else:
            return ""
        return self._seal({"block": kept, "at": self._at})


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes, seal: Seal | None = None, report: Report | None = None) -> WholeReply:
    """Return the reply in a message object, with its thinking sealed if there is a ``seal``. Raises UnusableResponse."""
    report = report or Report(MESSAGES)
    try:
        reply = wire.parse_json(body)
        if reply["type"] == "error":
            raise read_error(reply["error"])
        message = _message(reply["content"], seal)
        _count_searches(report, reply["content"])
        text_bytes, stop_reason = _generated_bytes(message), reply.get("stop_reason")
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


def _message(blocks: list[dict[str, Any]], seal: Seal | None) -> dict[str, Any]:
    """Return OpenAI's message. Thinking is not content, and OpenAI's message has no place for blocks of other types."""
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thinking = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    ids: set[str] = set()
    tool_calls = [_tool_call(block, ids) for block in blocks if block["type"] == "tool_use"]
    return {
        "role": "assistant",
        "content": None if tool_calls and not text else text,
        "refusal": None,
        **({"reasoning_content": thinking} if thinking else {}),
        **(_reasoning(blocks, thinking, seal) if seal else {}),
        **({"tool_calls": tool_calls} if tool_calls else {}),
    }


def _reasoning(blocks: list[dict[str, Any]], thinking: str, seal: Seal) -> dict[str, Any]:
    details = _Thinking(seal).whole(blocks)
    return {**({"reasoning": thinking} if thinking else {}), **({"reasoning_details": details} if details else {})}


def _tool_call(block: dict[str, Any], ids: set[str]) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": compact_json.dumps_text(block["input"])}
    return {"id": wire.own_id(block["id"], ids), "type": "function", "function": function}


def _generated_bytes(message: dict[str, Any]) -> int:
    functions = [tool_call["function"] for tool_call in message.get("tool_calls", [])]
    texts = [message["content"] or "", message.get("reasoning_content", "")]
    texts += [text for function in functions for text in (function["name"], function["arguments"])]
    return sum(wire.text_bytes(text) for text in texts)


# --- Usage and errors -------------------------------------------------------------------------------------------


def _count_searches(report: Report, blocks: list[dict[str, Any]]) -> None:
    """Count those that found something, a list, and those that failed: they are not billed.

    docs.claude.com/en/docs/agents-and-tools/tool-use/web-search-tool#usage-and-pricing
    """
    found = [isinstance(block.get("content"), list) for block in blocks if block["type"] == _FOUND]
    report.results += sum(found)
    report.failures += len(found) - sum(found)


def read_error(error: dict[str, Any]) -> InBandError:
    """Return the exception for an error object that arrived with a 2xx status."""
    reason = str(error.get("message") or "")
    names = frozenset({str(error["type"])})
    return InBandError(UpstreamError(reason, names=names), _status(_STATUSES.get(error["type"], 500), reason))


def read_refusal(status: int, body: bytes) -> tuple[int, str]:
    """Return the status that a refusal should have had, and "": no wait is named in its body."""
    return _status(status, error_body.parse(body).message if status == 400 else ""), ""


def _status(status: int, reason: str) -> int:
    """Return the status that an error should have had.

    Anthropic refuses with 400, as if the request were at fault, when our organization there is disabled, when its credit is
    used up and when it has reached its own limit.
    """
    if status != 400:
        return status
    if reason.startswith("This organization has been disabled"):
        return 403
    return 402 if _UNPAID.search(reason) else status
