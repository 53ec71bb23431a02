"""Which field of a Responses request each field of the chat request comes from. Pure.

Errors about the chat request are told to the caller in the names of its own fields.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from completions.inbound import caller_errors
from completions.inbound.responses.tools import WEB_SEARCH, Called

_IN_MESSAGE = re.compile(r"messages\[(\d+)\](?:\.(content|tool_calls)\[(\d+)\])?(.*)", re.DOTALL)
# The rest of a path within a part or a call -> its rest in the caller's.
_MEMBERS = {
    ".image_url.url": ".image_url",
    ".image_url.detail": ".detail",
    ".file": "",
    ".id": ".call_id",
    ".function": "",
    ".custom": "",
}
# The beginning of a path in the chat request -> in the caller's. The first that fits counts.
_FIELDS = {
    "messages.reasoning_content": "input.summary",
    "messages.reasoning_details": "input.encrypted_content",
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "reasoning_summary": "reasoning.summary",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "tool_choice.function": "tool_choice",
    "tools.function": "tools",
    "verbosity": "text.verbosity",
}
_TOOL = re.compile(r"tools\[(\d+)\](?:\.(?:function|custom))?(.*)", re.DOTALL)


@dataclass(slots=True)
class ItemPlace:
    """Where a message of the chat request comes from: the paths of its item, its content, and each of its parts and calls."""

    path: str
    content: str
    parts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the messages of a chat request come from, and the path of each of its tools. ``called`` and ``search_at`` are those
    of ``Tools``. ``logprobs_at`` is the field that asks for probabilities.
    """

    messages: Sequence[ItemPlace] = ()
    tools: Sequence[str] = ()
    called: Mapping[str, Called] = field(default_factory=dict)
    search_at: str = ""
    logprobs_at: str = "include"


def rename(path: str, places: Places) -> str:
    """Return the caller's name of a field of the chat request."""
    if found := _IN_MESSAGE.fullmatch(path):
        return _in_items(places.messages, *found.groups()) or path
    if found := _TOOL.fullmatch(path):
        index = int(found[1])
        return (places.tools[index] if index < len(places.tools) else f"tools[{index}]") + found[2]
    if path == WEB_SEARCH:
        return places.search_at
    if path == "logprobs":
        return places.logprobs_at
    return caller_errors.rename_beginning(path, _FIELDS)


def _in_items(messages: Sequence[ItemPlace], index: str, member: str | None, number: str | None, rest: str) -> str | None:
    if int(index) >= len(messages):
        return None
    place = messages[int(index)]
    if member is None or number is None:
        own = {".tool_call_id": ".call_id", ".reasoning_content": ".summary"}
        return place.content if rest == ".content" else place.path + own.get(rest, rest)
    places = place.parts if member == "content" else place.calls
    if int(number) >= len(places):
        return place.path
    for ours, theirs in _MEMBERS.items():
        if rest == ours or rest.startswith(f"{ours}."):
            return places[int(number)] + theirs + rest[len(ours) :]
    return places[int(number)] + rest
