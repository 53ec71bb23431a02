"""Which field of a Messages request each field of the chat request comes from. Pure.

Errors about the chat request are told to the caller in the names of its own fields.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from completions.inbound import caller_errors

_PLACE = re.compile(r"messages\[(\d+)\](?:\.(content|tool_calls)\[(\d+)\])?(.*)", re.DOTALL)
_MESSAGES = {
    "image_url.url": "source",
    "image_url": "source",
    "file.file_data": "source",
    "file": "source",
    "function.arguments": "input",
    "function.name": "name",
    "tool_call_id": "tool_use_id",
    "reasoning_content": "thinking",
}
# The beginning of a path in the chat request -> in the caller's.
_FIELDS = {
    "stop": "stop_sequences",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "tool_choice.function.name": "tool_choice.name",
    "reasoning_effort": "thinking",
    "include_reasoning": "thinking.display",
    "response_format.json_schema.schema": "output_config.format.schema",
    "response_format": "output_config.format",
    "tools.function.parameters": "tools.input_schema",
    "tools.function": "tools",
    "messages.reasoning_content": "messages.thinking",
    "messages.reasoning_details": "messages.redacted_thinking",
    "messages.tool_call_id": "messages.tool_use_id",
}
_TOOL = re.compile(r"(tools\[\d+\])\.function(?:\.(name|parameters|description|strict))?")
_TOOL_FIELDS = {"parameters": "input_schema"}


@dataclass(slots=True)
class MessagePlace:
    """Where a message of the chat request comes from: its path, and those of the blocks of its parts and of its calls.

    The path is ``system``, a message, or a block of one: a tool's result is a message of its own.
    """

    path: str
    parts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


def rename(path: str, messages: Sequence[MessagePlace]) -> str:
    """Return the caller's name of a field of the chat request."""
    if found := _PLACE.fullmatch(path):
        return _in_messages(messages, *found.groups()) or path
    if found := _TOOL.match(path):
        member = f".{_TOOL_FIELDS.get(found[2], found[2])}" if found[2] else ""
        return f"{found[1]}{member}{path[found.end() :]}"
    return caller_errors.rename_beginning(path, _FIELDS)


def _in_messages(messages: Sequence[MessagePlace], index: str, member: str | None, number: str | None, rest: str) -> str | None:
    if int(index) >= len(messages):
        return None
    place, renamed = messages[int(index)], rest.removeprefix(".")
    renamed = _MESSAGES.get(renamed, renamed)
    suffix = f".{renamed}" if renamed else ""
    if member is None or number is None:
        return place.path + suffix
    blocks = place.parts if member == "content" else place.calls
    if int(number) >= len(blocks):
        return place.path + suffix
    return blocks[int(number)] + suffix
