"""Replies of Anthropic's Messages API, read: whole ones, the events of a stream, errors, and how much is in each. Pure."""

from dataclasses import dataclass
from typing import Any

from completions.chat import Chunk, Usage, WholeReply
from completions.pricing import cost
from completions.providers import wire
from completions.providers.exchange import InBandError, UnusableResponse, read_each_event
from gateway_project import compact_json

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
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
# Blocks and deltas that say something: their field, and OpenAI's.
_SAYING = {
    "text": ("text", "content"),
    "text_delta": ("text", "content"),
    "thinking": ("thinking", "reasoning_content"),
    "thinking_delta": ("thinking", "reasoning_content"),
}
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader:
    """The data of events in, Chunks out.

    Nothing is passed on before the first block of content begins: until then a failure is an early one, which a true status
    can tell. The counts of the prompt come with it, so that who leaves in the middle is charged for what was really read.
    """

    def __init__(self) -> None:
        self.has_passed_on = False  # any chunk
        self.has_finish_reason = False  # a reason to stop came
        self.has_ended = False  # message_stop came; what comes behind it is nothing
        self._has_begun = False
        self._counts: dict[str, Any] = {}
        self._text_bytes = 0
        self._tool_calls: dict[int, _ToolCall] = {}  # by the index of their block

    def read_events(self, events: list[bytes]) -> tuple[list[Chunk], UnusableResponse | None]:
        """The chunks to pass on of the events that one read brought; and the failure that ended them, if one did."""
        chunks, failure = read_each_event(self._read, events)
        if failure and not self.has_finish_reason and not self._text_bytes:
            chunks = []  # right after the role it is still an early one
        self.has_passed_on = self.has_passed_on or bool(chunks)
        return chunks, failure

    def _read(self, data: bytes) -> list[Chunk]:
        if self.has_ended:
            return []
        try:
            event = wire.parse_json(data)
            match event["type"]:
                case "message_start":
                    self._count(event["message"].get("usage"))
                case "content_block_start":
                    return self._open() + self._block(event["index"], event["content_block"])
                case "content_block_delta":
                    return self._delta(event["index"], event["delta"])
                case "content_block_stop":
                    return self._block_end(event["index"])
                case "message_delta":
                    return self._end(event["delta"].get("stop_reason"), event.get("usage"))
                case "message_stop":
                    self.has_ended = True
                case "error":
                    raise read_error(event["error"])
        except _MALFORMED as error:
            raise UnusableResponse(f"an event is none: {type(error).__name__}") from error
        return []  # also for "ping", and for what may be added any time

    def _open(self) -> list[Chunk]:
        """The role, once, and what is known of the usage."""
        if self._has_begun:
            return []
        self._has_begun = True
        return [_chunk({"role": "assistant", "content": ""}), *self._usage()]

    def _block(self, index: int, block: dict[str, Any]) -> list[Chunk]:
        if block["type"] != "tool_use":
            return self._said(block)
        tool_call = self._tool_calls[index] = _ToolCall(len(self._tool_calls), block.get("input") or {})
        return self._generated(tool_call.opening(block["id"], block["name"]), block["name"])

    def _delta(self, index: int, delta: dict[str, Any]) -> list[Chunk]:
        if delta["type"] != "input_json_delta":
            return self._said(delta)
        tool_call = self._tool_calls.get(index)
        return self._arguments(tool_call, delta["partial_json"]) if tool_call else []

    def _block_end(self, index: int) -> list[Chunk]:
        tool_call = self._tool_calls.get(index)
        if tool_call is None or tool_call.has_arguments:
            return []
        # None came: a tool without parameters, or a server that says them all at once. Clients parse them as JSON.
        return self._arguments(tool_call, compact_json.text(tool_call.input))

    def _end(self, stop_reason: str | None, usage: Any) -> list[Chunk]:
        if not (isinstance(usage, dict) and wire.is_token_count(usage.get("output_tokens"))):
            # The last count is from before the text.
            usage = {"output_tokens": cost.estimate_tokens(self._text_bytes)}
        self._count(usage)
        chunks = self._open()
        if stop_reason is not None and not self.has_finish_reason:
            self.has_finish_reason = True
            chunks.append(_chunk({}, finish_reason=_finish_reason(stop_reason)))
        return chunks + self._usage()

    def _said(self, part: dict[str, Any]) -> list[Chunk]:
        theirs, ours = _SAYING.get(part["type"], ("", ""))
        text = part.get(theirs)
        return self._generated({ours: text}, text) if text else []

    def _arguments(self, tool_call: "_ToolCall", text: str) -> list[Chunk]:
        if not text:
            return []
        tool_call.has_arguments = True
        return self._generated(tool_call.arguments(text), text)

    def _generated(self, delta: dict[str, Any], text: str) -> list[Chunk]:
        text_bytes = wire.text_bytes(text)
        self._text_bytes += text_bytes
        return [*self._open(), _chunk(delta, text_bytes=text_bytes)]

    def _count(self, usage: Any) -> None:
        """Keep what is new in a usage object: its counts are of the whole reply so far, and null where nothing changed."""
        if isinstance(usage, dict):
            self._counts.update(
                {name: value for name, value in usage.items() if wire.is_token_count(value) or isinstance(value, dict)}
            )

    def _usage(self) -> list[Chunk]:
        usage = parse_usage(self._counts)
        return [Chunk(b"[]", usage=usage)] if usage else []


@dataclass(slots=True)
class _ToolCall:
    """One that is being streamed. ``number`` is its place among the tool calls; ``input`` what its block began with."""

    number: int
    input: dict[str, Any]
    has_arguments: bool = False

    def opening(self, tool_id: str, name: str) -> dict[str, Any]:
        return self._delta({"id": tool_id, "type": "function", "function": {"name": name, "arguments": ""}})

    def arguments(self, text: str) -> dict[str, Any]:
        return self._delta({"function": {"arguments": text}})

    def _delta(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"tool_calls": [{"index": self.number, **fields}]}


def _chunk(delta: dict[str, Any], *, text_bytes: int = 0, finish_reason: str | None = None) -> Chunk:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return Chunk(compact_json.dumps_ascii(choices), text_bytes=text_bytes, has_finish_reason=bool(finish_reason))


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes) -> WholeReply:
    """A message object. Raises UnusableResponse."""
    try:
        reply = wire.parse_json(body)
        if reply["type"] == "error":
            raise read_error(reply["error"])
        message = _message(reply["content"])
        text_bytes, finish_reason = _generated_bytes(message), _finish_reason(reply.get("stop_reason"))
    except _MALFORMED as error:
        raise UnusableResponse(f"{len(body)} bytes are not a message: {type(error).__name__}") from error
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    choices = wire.replace_lone_surrogates(body, [choice])
    return WholeReply(choices, usage=parse_usage(reply.get("usage")), text_bytes=text_bytes)


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """OpenAI's message. Thoughts are not content, and blocks of other kinds are nothing that it has a place for."""
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thoughts = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    tool_calls = [_tool_call(block) for block in blocks if block["type"] == "tool_use"]
    return {
        "role": "assistant",
        "content": None if tool_calls and not text else text,
        "refusal": None,
        **({"reasoning_content": thoughts} if thoughts else {}),
        **({"tool_calls": tool_calls} if tool_calls else {}),
    }


def _tool_call(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": compact_json.text(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def _generated_bytes(message: dict[str, Any]) -> int:
    functions = [tool_call["function"] for tool_call in message.get("tool_calls", [])]
    texts = [message["content"] or "", message.get("reasoning_content", "")]
    texts += [text for function in functions for text in (function["name"], function["arguments"])]
    return sum(wire.text_bytes(text) for text in texts)


# --- Both -------------------------------------------------------------------------------------------------------


def parse_usage(value: Any) -> Usage | None:
    """A usage object, or None when it is not one that can be true. Theirs counts the prompt without its cached parts."""
    if not isinstance(value, dict):
        return None
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    fresh, *cached = (value.get(name) for name in names)
    read, written = (0 if count is None else count for count in cached)
    output = value.get("output_tokens")
    if not (
        wire.is_token_count(fresh)
        and wire.is_token_count(read)
        and wire.is_token_count(written)
        and wire.is_token_count(output)
    ):
        return None
    return Usage(
        prompt_tokens=fresh + read + written,
        completion_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(wire.detail_tokens(value, "output_tokens_details", "thinking_tokens"), output),
    )


def read_error(error: dict[str, Any]) -> InBandError:
    """An error object that came where a reply should be."""
    reason = str(error.get("message") or "")
    return InBandError(reason, 402 if is_account_error(reason) else _STATUSES.get(error["type"], 500))


def is_account_error(reason: str) -> bool:
    """What Anthropic says, with status 400, when our account with them has no money left or has reached its own limit."""
    return "credit balance is too low" in reason or "specified API usage limits" in reason


def _finish_reason(stop_reason: Any) -> str:
    return _FINISH_REASONS.get(stop_reason, "stop")
