"""Requests in the language of Responses, and their events."""

import json
import re
from typing import Any

PATH = "/v1/responses"
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}


def parsed(raw: bytes) -> list[dict[str, Any]]:
    """Return the data of the events, each of which has its name on the line before, and the next number."""
    frames = raw.decode().split("\n\n")
    assert frames.pop() == ""
    found = [re.fullmatch(r"event: ([\w.]+)\ndata: (.+)", frame) for frame in frames if not frame.startswith(":")]
    events = [json.loads(each[2]) for each in found if each]
    assert [each[1] for each in found if each] == [data["type"] for data in events]
    assert [data["sequence_number"] for data in events] == list(range(len(events)))
    return events


def events(reply: Any) -> list[dict[str, Any]]:
    """Read a stream to its end."""
    assert (reply.status_code, reply["Content-Type"]) == (200, "text/event-stream")
    return parsed(b"".join(reply.streaming_content))
