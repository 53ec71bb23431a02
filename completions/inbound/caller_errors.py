"""Errors about a chat request, and headers about its fields, in the names of the caller's own fields. Pure."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway_project import errors

_IN_MESSAGE = re.compile(r"messages\[(\d+)\](?:\.(content|tool_calls)\[(\d+)\])?(.*)", re.DOTALL)
_IN_TOOL = re.compile(r"tools\[(\d+)\](?:\.(?:function|custom))?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a language of the fields of a chat request, of a message, of its parts and calls, and of a tool's function.

    Each is the beginning of a path. The first that fits counts.
    """

    fields: Mapping[str, str]
    message: Mapping[str, str]
    part: Mapping[str, str]
    function: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Place:
    """Where a message of the chat request comes from: its path, that of its content, and those of its parts and its calls."""

    path: str
    content: str = ""  # where it is not the member ``content``
    parts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the messages and the tools of a chat request come from. ``others`` has more of its fields."""

    names: Names
    messages: Sequence[Place] = ()
    tools: Sequence[str] = ()
    others: Mapping[str, str] = field(default_factory=dict)

    def rename(self, path: str) -> str:
        """Return the caller's name of a field of the chat request."""
        if (found := _IN_MESSAGE.fullmatch(path)) and int(found[1]) < len(self.messages):
            return self._in_message(self.messages[int(found[1])], found[2], int(found[3] or 0), found[4])
        if found := _IN_TOOL.fullmatch(path):
            index = int(found[1])
            tool = self.tools[index] if index < len(self.tools) else f"tools[{index}]"
            return tool + _rename_member(found[2], self.names.function)
        return _rename_beginning(path, {**self.others, **self.names.fields})

    def _in_message(self, place: Place, kind: str | None, index: int, rest: str) -> str:
        if kind is None:
            is_content = rest == ".content" and place.content
            return place.content if is_content else place.path + _rename_member(rest, self.names.message)
        members = place.parts if kind == "content" else place.calls
        return members[index] + _rename_member(rest, self.names.part) if index < len(members) else place.path

    def renamed(self, error: errors.ApiError) -> errors.ApiError:
        """Return the error with the caller's name of its field: in its ``param``, and at the beginning of its message."""
        if error.param is None or (param := self.rename(error.param)) == error.param:
            return error
        renamed = copy.copy(error)  # refusals are cached, for other languages too
        if error.message.startswith(error.param):
            renamed.message = param + error.message[len(error.param) :]
        renamed.param = param
        return renamed

    def rename_list(self, names: str) -> str:
        """Return the value of a header that lists fields, each once: two of the chat request may be one of the caller's."""
        return ", ".join(dict.fromkeys(self.rename(name) for name in names.split(", ")))


def _rename_member(rest: str, names: Mapping[str, str]) -> str:
    renamed = _rename_beginning(rest.removeprefix("."), names).removeprefix(".")
    return f".{renamed}" if renamed else ""


def _rename_beginning(path: str, names: Mapping[str, str]) -> str:
    for ours, theirs in names.items():
        if path == ours or path.startswith((f"{ours}.", f"{ours}[")):
            return theirs + path[len(ours) :]
    return path
