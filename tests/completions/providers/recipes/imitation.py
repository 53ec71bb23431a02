"""What a server of a recipe must be asked, what it replies, and what the gateway makes of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.upstream import DONE, KEY, Received, Script, event, reply, stream

KEY_PATTERN = re.escape(KEY)
BEARER = {"authorization": f"Bearer {KEY_PATTERN}"}
KEY_HEADERS = ("authorization", "api-key", "x-api-key", "x-goog-api-key")
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
CITY = '{"city":"Rome"}'


@dataclass(frozen=True)
class Answered:
    """A reply, and the bill for it: tokens and nanodollars at the price of the page."""

    script: Script
    prompt: int
    completion: int
    nanos: int
    cached: int = 0
    text: str = "Hello you"
    finish: str = "stop"
    thoughts: str = ""
    calls: tuple[tuple[str, str], ...] = ()  # (name of the function, its arguments)
    sent: Mapping[str, Any] = field(default_factory=dict)  # fields of the request


@dataclass(frozen=True)
class Refused:
    """An error of the server, and the one that the caller gets."""

    script: Script
    status: int
    code: str
    words: str = ""


@dataclass(frozen=True)
class Recipe:
    """``path`` has the query. ``shows``: patterns of headers that prove who asks; no other header of KEY_HEADERS may come.
    ``model`` is that of the body, None where the path has it. ``environment``: beside the variable that the block names, which
    has the JSON of a service account where the server is Google's (``has_account``).
    """

    path: str
    model: str | None
    chat: Answered
    stream: Answered
    tools: Answered
    error: Refused
    refusal: Answered | Refused
    reasoning: Answered | None = None
    tools_stream: Answered | None = None
    stream_path: str = ""
    shows: Mapping[str, str] = field(default_factory=lambda: BEARER)
    environment: Mapping[str, str] = field(default_factory=dict)
    has_account: bool = False

    def mistakes(self, asked: Received, reply: Answered | Refused) -> list[str]:
        """Return what is wrong with a request for this reply."""
        path = self.stream_path or self.path if asked.body.get("stream") or "stream" in asked.path else self.path
        found = [] if asked.path == path else [f"{asked.path} is not {path}"]
        for name in {*KEY_HEADERS, *self.shows}:
            if not re.fullmatch(self.shows.get(name, ""), asked.headers.get(name, "")):
                found.append(f"{name} is {asked.headers.get(name)!r}")
        wanted = {"model": self.model, **(reply.sent if isinstance(reply, Answered) else {})}
        return found + [f"{name} is {asked.body.get(name)!r}" for name in wanted if asked.body.get(name) != wanted[name]]


# --- Replies as most servers with OpenAI's format spell them --------------------------------------------------------


def call(call_id: str, arguments: str = CITY, **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": arguments}, **fields}


def called(script: Script, prompt: int, completion: int, *, nanos: int, **fields: Any) -> Answered:
    """Return a reply that calls ``weather``."""
    given = {"text": "", "finish": "tool_calls", "calls": (("weather", CITY),), **fields}
    return Answered(script, prompt, completion, nanos=nanos, **given)


def call_deltas(call_id: str, *pieces: str, **fields: Any) -> list[dict[str, Any]]:
    """Return the deltas of a streamed call, whose arguments come in pieces."""
    first, *others = pieces
    later = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in others]
    return [{"tool_calls": [call(call_id, first, index=0)], **fields}, *later]


def json_reply(body: Any, status: int = 200, **headers: str) -> Script:
    return reply(json.dumps(body).encode(), status=status, **headers)


def whole(message: dict[str, Any], usage: Any, finish: str = "stop", **fields: Any) -> Script:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_764_374_400}
    return json_reply({**head, "choices": [choice], "usage": usage, **fields})


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return an event of a stream; without a delta, one without choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_764_374_400, "choices": choices, **fields}


def streamed(*events: Any) -> Script:
    """Return a stream of JSON, or of bytes as they are."""
    return stream(*(each if isinstance(each, bytes) else event(each) for each in events), DONE)
