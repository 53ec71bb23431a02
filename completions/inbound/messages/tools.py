"""The tools of a request, as the tools of a chat request. Pure.

Most are the caller's own functions. Some are Anthropic's own tools that run at the caller: they have a type instead of a
schema, and only Anthropic's models know them. Of the tools that run at Anthropic only the web search may have a price: others
are refused.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from completions.inbound import tool_names
from completions.request import fields, prompt
from completions.request.fields import Fields, numbered, refuse
from completions.request.serving import cache_control

# Anthropic's reference lists 245 tokens for bash, 700 for the text editor, and 735 and a system prompt of 499 for the computer.
OWN_TOOL_TOKENS_MAX = 4_096
_TYPE = re.compile(r"(bash|text_editor|memory|computer|computer_toolset|web_search)_(\d{4})(\d{2})(\d{2})")
_PIXELS_MAX = 100_000
_CHARACTERS_MAX = 2**31 - 1
_COMMON = frozenset({"type", "name", "cache_control", "strict", "input_examples", "defer_loading", "allowed_callers"})
_FUNCTION = _COMMON | {"description", "input_schema", "eager_input_streaming"}
_OWN = {
    "bash": _COMMON,
    "text_editor": _COMMON | {"max_characters"},
    "memory": _COMMON,
    "computer": _COMMON | {"display_width_px", "display_height_px", "display_number", "enable_zoom"},
    "computer_toolset": frozenset({"type", "cache_control", "configs"}),
    "web_search": _COMMON | {"max_uses", "allowed_domains", "blocked_domains", "user_location"},
}
SEARCHES_MAX = 100  # of one tool
_INTEGERS = {
    "display_width_px": (1, _PIXELS_MAX),
    "display_height_px": (1, _PIXELS_MAX),
    "display_number": (0, _PIXELS_MAX),
    "max_characters": (1, _CHARACTERS_MAX),
    "max_uses": (1, SEARCHES_MAX),
}
_NOTED = ("cache_control", "input_examples", "defer_loading")  # that not every provider takes
_DIRECT_SEARCH = "web_search_20250305"  # later ones are called by code that runs at Anthropic, unless they are told not to
_FIRST_COMPUTER = "20241022"  # of this day even bash and the editor need the beta of the computer
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def translate(body: Fields) -> Fields:
    """Return ``tools``, ``tool_choice`` and ``parallel_tool_calls`` of the chat request."""
    tools = [_tool(tool, path) for path, tool in numbered(fields.read_array(body, "tools"), "tools")]
    return {**({"tools": tools} if tools else {}), **_tool_choice(body)}


def first(tools: list[Fields], families: Iterable[str] = tuple(_OWN)) -> str:
    """Return the field that names the first tool of Anthropic's own, or of some of its families; empty if there is none."""
    return next((f"{path}.type" for path, tool in numbered(tools, "tools") if _family(tool) in families), "")


def searches_max(tools: list[Fields]) -> int:
    return sum(tool["max_uses"] for tool in tools if _family(tool) == "web_search")


def betas(tools: list[Fields]) -> Iterator[str]:
    """Yield the betas without which Anthropic refuses the tools: those of the computer."""
    for tool in tools:
        if found := _TYPE.fullmatch(tool.get("type") or ""):
            family, *day = found.groups()
            if family == "computer" or "".join(day) == _FIRST_COMPUTER:
                yield f"computer-use-{'-'.join(day)}"


def long_names(tools: list[Fields]) -> dict[str, str]:
    """Return each name that is too long for most providers, by the name that they are sent."""
    names = [name for tool in tools if len(name := tool.get("name") or "") > tool_names.CHARACTERS_MAX]
    return {tool_names.shortened(name): name for name in names}


def unseen_tokens_max(tools: list[Fields]) -> int:
    """Return the maximum of tokens that only Anthropic counts: its instructions, examples of inputs, and cut names."""
    names = sum(len(name) - len(sent) for sent, name in long_names(tools).items())
    examples = ({"input_examples": tool["input_examples"]} for tool in tools if tool.get("input_examples"))
    return names + sum(OWN_TOOL_TOKENS_MAX for tool in tools if _family(tool)) + sum(map(prompt.count_json, examples))


def block_fields(tools: list[Fields]) -> set[str]:
    """Return the fields of tools that not every provider takes."""
    return {f"tools.{name}" for tool in tools for name in _NOTED if tool.get(name)}


def _family(tool: Fields) -> str:
    """Return the kind of a tool of Anthropic's own, such as ``bash`` or ``web_search``; empty for others."""
    found = _TYPE.fullmatch(kind) if isinstance(kind := tool.get("type"), str) else None
    return found[1] if found else ""


def _tool(given: Any, path: str) -> Fields:
    tool = fields.check_object(given, path)
    family = _family(tool)
    if not family and tool.get("type") not in (None, "custom"):
        known = ", ".join(f"{name}_*" for name in _OWN)
        refuse(f"{path}.type", f"must be custom, or one of {known}: other tools run at Anthropic, and have no price")
    fields.check_members(tool, _OWN[family] if family else _FUNCTION, path)
    _check_common(tool, path)
    function = _own_function(tool, family, path) if family else _function(tool, path)
    return {"type": "function", "function": function, **cache_control(tool, path)}


def _check_common(tool: Fields, path: str) -> None:
    """Check the members that nothing but Anthropic's API reads."""
    for at, example in numbered(fields.read_array(tool, "input_examples", path), f"{path}.input_examples"):
        fields.check_object(example, at)
    fields.read_boolean(tool, "defer_loading", path)
    callers = tool.get("allowed_callers")
    if callers is not None and fields.check_array(callers, f"{path}.allowed_callers") != ["direct"]:
        refuse(f"{path}.allowed_callers", "must be direct: no code runs at Anthropic")


def _function(tool: Fields, path: str) -> Fields:
    name = tool_names.shortened(fields.require_name(tool, "name", path))
    function: Fields = {"name": name, "parameters": fields.require_object(tool, "input_schema", path)}
    if description := fields.read_string(tool, "description", path):
        function["description"] = description
    if fields.read_boolean(tool, "strict", path):
        function["strict"] = True
    fields.read_boolean(tool, "eager_input_streaming", path)  # every tool's input is passed on as it arrives
    return function


def _own_function(tool: Fields, family: str, path: str) -> Fields:
    """Return a function that stands for a tool of Anthropic's own. No provider is sent it."""
    for name, (minimum, maximum) in _INTEGERS.items():
        fields.read_integer(tool, name, minimum, maximum, path)
    for name in ("enable_zoom", "strict"):
        fields.read_boolean(tool, name, path)
    if family == "web_search":
        _check_search(tool, path)
    if family == "computer_toolset":
        return {"name": family, "parameters": fields.read_object(tool, "configs", path)}
    return {"name": tool_names.shortened(fields.require_name(tool, "name", path))}


def _check_search(tool: Fields, path: str) -> None:
    """Refuse a search without a number of uses, which the hold pays for, and one by code, which nothing bounds."""
    fields.read_required(tool, "max_uses", path)
    if tool["type"] != _DIRECT_SEARCH and tool.get("allowed_callers") != ["direct"]:
        refuse(f"{path}.allowed_callers", "must be direct: no code runs at Anthropic")
    for name in ("allowed_domains", "blocked_domains"):
        for at, domain in numbered(fields.read_array(tool, name, path), f"{path}.{name}"):
            fields.check_string(domain, at)
    fields.read_object(tool, "user_location", path)


def _tool_choice(body: Fields) -> Fields:
    choice = fields.read_object(body, "tool_choice")
    if not choice:
        return {}
    fields.check_members(choice, {"type", "name", "disable_parallel_tool_use"}, "tool_choice")
    one_at_a_time = fields.read_boolean(choice, "disable_parallel_tool_use", "tool_choice")
    parallel = {"parallel_tool_calls": False} if one_at_a_time else {}
    kind = fields.read_required(choice, "type", "tool_choice")
    if kind == "tool":
        name = fields.read_string(choice, "name", "tool_choice")
        return {"tool_choice": {"type": "function", "function": {"name": tool_names.shortened(name)}}, **parallel}
    if not isinstance(kind, str) or kind not in _CHOICES:
        refuse("tool_choice.type", f"must be one of {', '.join((*_CHOICES, 'tool'))}")
    return {"tool_choice": _CHOICES[kind], **parallel}
