"""Requests in the language of Messages, and their events."""

import json
import re
from typing import Any

PATH = "/v1/messages"
HELLO = [{"role": "user", "content": "Hello"}]


def ask(api: Any, path: str = PATH, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return api.post(path, {"model": "acme/large", "max_tokens": 100, "messages": HELLO, **fields}, headers=headers)


def events(reply: Any) -> list[dict[str, Any]]:
    """Read a stream to its end. Return the data of its events, each of which has its name on the line before."""
    assert (reply.status_code, reply["Content-Type"]) == (200, "text/event-stream")
    frames = b"".join(reply.streaming_content).decode().split("\n\n")
    assert frames.pop() == ""
    found = [re.fullmatch(r"event: (\w+)\ndata: (.+)", frame) for frame in frames if not frame.startswith(":")]
    parsed = [json.loads(each[2]) for each in found]
    assert [each[1] for each in found] == [data["type"] for data in parsed]
    return parsed


def assert_error(reply: Any, status: int, kind: str, message: str = "") -> None:
    """Assert that the reply is an error in Anthropic's shape."""
    assert (reply.status_code, reply["Content-Type"]) == (status, "application/json")
    body = reply.json()
    assert set(body) == {"type", "error", "request_id"}
    assert set(body["error"]) == {"type", "message"} | ({"details"} if kind in ("billing_error", "not_found_error") else set())
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", kind, reply["request-id"])
    assert body["error"]["message"].startswith(message), body
