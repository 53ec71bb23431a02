"""OpenAI's Responses for the scripted upstream: whole ones, events of a stream, errors."""

import json
from typing import Any

from tests.upstream import Script, event, reply, stream

Item = dict[str, Any]
USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 16,
}


def message(*texts: str) -> Item:
    parts = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": parts}


def refusal(text: str) -> Item:
    return {**message(), "content": [{"type": "refusal", "refusal": text}]}


def reasoning(number: int | str, *summary: str, encrypted: str | None = "gAAAAA") -> Item:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    hidden = {"encrypted_content": encrypted} if encrypted else {}
    return {"id": f"rs_{number}", "type": "reasoning", "summary": parts, **hidden}


def call(call_id: str, name: str, arguments: Any) -> Item:
    said = {"call_id": call_id, "name": name, "arguments": json.dumps(arguments, separators=(",", ":"))}
    return {"id": f"fc_{call_id}", "type": "function_call", "status": "completed", **said}


def custom_call(call_id: str, name: str, text: str) -> Item:
    said = {"call_id": call_id, "name": name, "input": text}
    return {"id": f"ctc_{call_id}", "type": "custom_tool_call", "status": "completed", **said}


def response(*items: Item, status: str = "completed", usage: Any = USAGE, **fields: Any) -> dict[str, Any]:
    about = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.5-2026-04-23", "service_tier": "default"}
    return {**about, "status": status, "error": None, "incomplete_details": None, "output": [*items], "usage": usage, **fields}


def whole(*items: Item, **fields: Any) -> Script:
    return reply(json.dumps(response(*items, **fields)).encode())


def refused(status: int, text: str, code: str | None = None) -> Script:
    error = {"message": text, "type": "invalid_request_error", "param": "input", "code": code}
    return reply(json.dumps({"error": error}).encode(), status=status)


def streamed(*items: Item, **fields: Any) -> Script:
    """Return a complete stream of these items, each text in two pieces."""
    return stream(begun(), *(said(index, item) for index, item in enumerate(items)), ended(*items, **fields))


def named(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\n".encode() + event(data)


def begun(**fields: Any) -> bytes:
    empty = response(status="in_progress", usage=None, **{"service_tier": "auto", **fields})
    return b"".join(named({"type": f"response.{what}", "response": empty}) for what in ("created", "in_progress"))


def ended(*items: Item, **fields: Any) -> bytes:
    last = response(*items, **fields)
    return named({"type": f"response.{last['status']}", "response": last})


def said(index: int, item: Item) -> bytes:
    """Return the events of an item."""
    place = {"output_index": index, "item_id": item["id"]}
    added = {**item, **{name: empty for name, empty in (("content", []), ("summary", [])) if name in item}}
    deltas: list[dict[str, Any]] = []
    match item["type"]:
        case "message":
            for number, part in enumerate(item["content"]):
                kind, name = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
                at = {**place, "content_index": number}
                probabilities = {"logprobs": part.get("logprobs") or []} if kind == "output_text" else {}
                deltas += [{"type": "response.content_part.added", **at, "part": {**part, name: ""}}]
                deltas += _deltas(f"response.{kind}.delta", {**at, **probabilities}, part[name])
                deltas += [{"type": f"response.{kind}.done", **at, name: part[name]}]
        case "reasoning":
            for number, part in enumerate(item["summary"]):
                at = {**place, "summary_index": number}
                deltas += [{"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}]
                deltas += _deltas("response.reasoning_summary_text.delta", at, part["text"])
        case "function_call":
            added["arguments"] = ""
            deltas += _deltas("response.function_call_arguments.delta", place, item["arguments"])
            deltas += [{"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}]
        case _:
            added["input"] = ""
            deltas += _deltas("response.custom_tool_call_input.delta", place, item["input"])
    events = [
        {"type": "response.output_item.added", "output_index": index, "item": added},
        *deltas,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
    return b"".join(map(named, events))


def _deltas(kind: str, place: dict[str, Any], text: str) -> list[dict[str, Any]]:
    half = len(text) // 2
    return [{"type": kind, **place, "delta": piece} for piece in (text[:half], text[half:]) if piece]


def failed(code: str, text: str = "a reason", **fields: Any) -> bytes:
    last = response(status="failed", error={"code": code, "message": text}, **{"usage": None, **fields})
    return named({"type": "response.failed", "response": last})


def error_event(code: str | None, text: str = "a reason") -> bytes:
    return named({"type": "error", "code": code, "message": text, "param": None, "sequence_number": 3})
