"""Responses of Anthropic's Messages API for the scripted upstream: whole messages, errors, events of a stream."""

import json
from typing import Any

from tests.upstream import Script, Step, reply, stream

USAGE = {
    "input_tokens": 4,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 3},
    "service_tier": "standard",
}
FINAL = {
    "output_tokens": 7,
    "input_tokens": None,
    "cache_read_input_tokens": None,
}  # merged into the usage of message_start, it makes USAGE


# --- Whole replies -----------------------------------------------------------------------------------------------


def message(*blocks: dict[str, Any], stop_reason: str | None = "end_turn", usage: Any = USAGE) -> dict[str, Any]:
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-upstream",
        "content": list(blocks or (text_block("Hello you"),)),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def whole(*blocks: dict[str, Any], **fields: Any) -> Script:
    return reply(json.dumps(message(*blocks, **fields)).encode())


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "citations": None}


def thinking_block(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": "EqoBCkgIARABGAIiQL"}


def tool_use_block(tool_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}


def error(kind: str, text: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_01"}


def refusal(status: int, kind: str, text: str = "no", **headers: str) -> Script:
    return reply(json.dumps(error(kind, text)).encode(), status=status, **headers)


# --- Streams -----------------------------------------------------------------------------------------------------


def event(data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), json.dumps(data).encode())


def start(usage: Any = None) -> bytes:
    counts = {**USAGE, "output_tokens": 1, "output_tokens_details": None} if usage is None else usage
    return event({"type": "message_start", "message": {**message(stop_reason=None, usage=counts), "content": []}})


def block_start(index: int, block: dict[str, Any]) -> bytes:
    return event({"type": "content_block_start", "index": index, "content_block": block})


def block_delta(index: int, kind: str, **fields: Any) -> bytes:
    return event({"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}})


def block_stop(index: int) -> bytes:
    return event({"type": "content_block_stop", "index": index})


def text(*texts: str, index: int = 0) -> bytes:
    """Return the events of one text block, with a delta for each text."""
    deltas = (block_delta(index, "text_delta", text=each) for each in texts)
    return block_start(index, {"type": "text", "text": ""}) + b"".join(deltas) + block_stop(index)


def thoughts(*texts: str, index: int = 0) -> bytes:
    deltas = (block_delta(index, "thinking_delta", thinking=each) for each in texts)
    signed = block_delta(index, "signature_delta", signature="EqoBCkgIARABGAIiQL")
    return (
        block_start(index, {"type": "thinking", "thinking": "", "signature": ""})
        + b"".join(deltas)
        + signed
        + block_stop(index)
    )


def tool(tool_id: str, name: str, *pieces: str, index: int = 0) -> bytes:
    deltas = (block_delta(index, "input_json_delta", partial_json=each) for each in ("", *pieces))
    return block_start(index, tool_use_block(tool_id, name)) + b"".join(deltas) + block_stop(index)


def message_delta(stop_reason: str | None = "end_turn", usage: Any = FINAL) -> bytes:
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return event({"type": "message_delta", "delta": delta, **({} if usage is None else {"usage": usage})})


PING = event({"type": "ping"})
STOP = event({"type": "message_stop"})


def streamed(*steps: Step) -> Script:
    """Return a complete stream with these blocks in it."""
    return stream(start(), PING, *(steps or (text("Hello ", "you"),)), message_delta(), STOP)
