"""Translates the tools of OpenAI's Responses into those of a chat request, and the calls of them, there and back. Pure.

A chat request has only functions and custom tools. A namespace groups such tools, and its name is put before theirs. OpenAI's
own tools that run at the caller become functions, whose arguments are the members of their calls. Of the tools that run at
OpenAI only the web search may have a price: it is kept apart, and the others are refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from completions.inbound import tool_names
from completions.inbound.events import read_arguments
from completions.request import fields
from completions.request.fields import Fields, numbered, refuse
from gateway_project.text import compact_json

_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}
_STRINGS = {"type": "array", "items": _STRING}
_POINT = {"x": _INTEGER, "y": _INTEGER}
_ACTIONS = ["click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"]
_ACTION = {  # of a computer
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": _ACTIONS},
        **_POINT,
        "button": {"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
        "keys": _STRINGS,
        "path": {"type": "array", "items": {"type": "object", "properties": _POINT, "required": ["x", "y"]}},
        "scroll_x": _INTEGER,
        "scroll_y": _INTEGER,
        "text": _STRING,
    },
    "required": ["type"],
}
_DIRECT = (None, ["direct"])  # who may call a tool: the model itself


@dataclass(frozen=True, slots=True)
class CallerTool:
    """A tool of OpenAI's own that runs at the caller.

    Its calls have the arguments in ``member``, together with the ``fixed`` ones, and ``empty`` until they are known. With
    ``is_list`` the only argument has the name of ``member`` and is a list.
    """

    call_type: str
    member: str
    description: str = ""
    parameters: Fields = field(default_factory=dict)
    fixed: Fields = field(default_factory=dict)
    empty: Fields = field(default_factory=dict)
    others: Fields = field(default_factory=dict)  # further members of its calls
    is_list: bool = False

    def written(self, arguments: str) -> Fields:
        if self.is_list:
            listed = (read_arguments(arguments) or {}).get(self.member)
            return {self.member: listed if isinstance(listed, list) else [], **self.others}
        return {self.member: {**self.empty, **self.fixed, **(read_arguments(arguments) or {})}, **self.others}

    def arguments(self, item: Fields, path: str) -> str:
        """Return the arguments of a call in the history."""
        if self.is_list:
            listed = fields.require_array(item, self.member, path)
            return compact_json.dumps_text({self.member: listed})
        arguments = fields.require_object(item, self.member, path)
        return compact_json.dumps_text({name: value for name, value in arguments.items() if name not in self.fixed})


# The type of a tool, which is the name of its function, too.
CALLER_TOOLS = {
    "local_shell": CallerTool(
        "local_shell_call",
        "action",
        "Runs a command in the user's shell and returns what it printed.",
        {
            "type": "object",
            "properties": {"command": _STRINGS, "working_directory": _STRING, "timeout_ms": _INTEGER},
            "required": ["command"],
        },
        fixed={"type": "exec", "env": {}},
        empty={"command": []},
    ),
    "shell": CallerTool(
        "shell_call",
        "action",
        "Runs commands in the user's shell and returns what each of them printed.",
        {
            "type": "object",
            "properties": {"commands": _STRINGS, "timeout_ms": _INTEGER, "max_output_length": _INTEGER},
            "required": ["commands"],
        },
        empty={"commands": []},
    ),
    "apply_patch": CallerTool(
        "apply_patch_call",
        "operation",
        "Creates, updates or deletes a file. diff is in the V4A format: the lines of a hunk after a line that begins with @@, "
        "each after a space, - or +. To create a file, each line of it after a +.",
        {
            "type": "object",
            "properties": {
                "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                "path": _STRING,
                "diff": _STRING,
            },
            "required": ["type", "path"],
        },
        empty={"type": "update_file", "path": "", "diff": ""},
    ),
    "computer": CallerTool(
        "computer_call",
        "actions",
        "Does actions at the user's computer, in their order, and then takes a screenshot. x and y are pixels of that. "
        "Members of each type of action beside type: click has button, x and y; double_click and move have x and y; drag has "
        "path; keypress has keys; scroll has x, y, scroll_x and scroll_y; type has text; screenshot and wait have none.",
        {"type": "object", "properties": {"actions": {"type": "array", "items": _ACTION}}, "required": ["actions"]},
        others={"pending_safety_checks": []},
        is_list=True,
    ),
    "tool_search": CallerTool("tool_search_call", "arguments", others={"execution": "client"}),
}
AT_OPENAI = ["web_search_preview", "file_search", "code_interpreter", "image_generation", "mcp", "programmatic_tool_calling"]
WEB_SEARCH = "web_search"
TYPES = ("function", "custom", "namespace", WEB_SEARCH, *CALLER_TOOLS)


@dataclass(frozen=True, slots=True)
class Called:
    """The names of a call of a tool in Responses: the tool's type, its name, and its namespace, if it is in one."""

    type: str
    name: str
    namespace: str = ""

    @property
    def caller_tool(self) -> CallerTool | None:
        return CALLER_TOOLS.get(self.type)

    @property
    def labels(self) -> Fields:
        return {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}


@dataclass(slots=True)
class Tools:
    """Tools of a chat request and their paths. ``called`` has those whose calls look different in Responses."""

    chat: list[Fields] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    called: dict[str, Called] = field(default_factory=dict)  # by the name in the chat request
    has_custom: bool = False
    search: Fields | None = None  # the tool that searches the web, and its path
    search_at: str = ""
    _names: set[str] = field(default_factory=set)

    def add(self, tool: Fields, path: str, called: Called) -> None:
        """Add a tool of the type function or custom. One that a search found is there once, however often it is found."""
        inner = tool[tool["type"]]
        inner["name"] = name = chat_name(called.namespace, called.name)
        is_there = name in self._names
        if is_there and path.startswith("input"):
            return
        if is_there and (called.namespace or name in self.called):
            refuse(f"{path}.name", f"is that of another tool: with its namespace, it is {name}", quotes_request=True)
        self._names.add(name)
        self.chat.append(tool)
        self.paths.append(path)
        self.has_custom |= called.type == "custom"
        if called.type != "function" or name != called.name:
            self.called[name] = called


def chat_name(namespace: str, name: str) -> str:
    """Return the name of a tool in the chat request. One that is too long for providers ends in a digest of the whole."""
    return tool_names.shortened(f"{namespace}__{name}" if namespace else name)


def translate(body: Fields, found: Sequence[tuple[str, Any]]) -> Tools:
    """Return the tools of a body and the ``found`` ones, which come with their paths from a tool search of the caller."""
    tools = Tools()
    for path, tool in (*numbered(fields.read_array(body, "tools"), "tools"), *found):
        _add(tools, tool, path)
    if body.get("tool_choice") == "none":  # then nothing may be searched, or charged
        tools.search, tools.search_at = None, ""
    return tools


def _add(tools: Tools, value: Any, path: str) -> None:
    tool = fields.check_object(value, path)
    kind = tool.get("type")
    if kind == "computer_use_preview":
        refuse(f"{path}.type", "must be computer: computer_use_preview is for a preview of OpenAI's only")
    if kind in AT_OPENAI:
        refuse(f"{path}.type", f"must not be {kind}: that tool runs at OpenAI, and not every model has it")
    fields.check_kind(tool, path, TYPES)
    if kind == "namespace":
        _add_namespace(tools, tool, path)
    elif kind == WEB_SEARCH:
        _add_search(tools, tool, path)
    elif caller_tool := CALLER_TOOLS.get(str(kind)):
        tools.add(_caller_tool(tool, path, caller_tool), path, Called(str(kind), str(kind)))
    else:
        _add_named(tools, tool, path)


def _add_namespace(tools: Tools, group: Fields, path: str) -> None:
    fields.check_members(group, {"type", "name", "description", "tools"}, path)
    namespace = fields.require_name(group, "name", path)
    description = fields.read_string(group, "description", path)
    for at, tool in numbered(fields.require_array(group, "tools", path), f"{path}.tools"):
        fields.check_kind(tool, at, ("function", "custom"))
        _add_named(tools, tool, at, namespace, description)
        description = ""


def _add_search(tools: Tools, tool: Fields, path: str) -> None:
    if tools.search or path.startswith("input"):
        refuse(f"{path}.type", "must not be web_search: one such tool may be among tools")
    fields.check_members(tool, {"type", "filters", "user_location", "search_context_size", "external_web_access"}, path)
    for name in ("filters", "user_location"):
        fields.read_object(tool, name, path)
    fields.read_choice(tool, "search_context_size", ("low", "medium", "high"), path)
    fields.read_boolean(tool, "external_web_access", path)
    tools.search, tools.search_at = tool, f"{path}.type"


def _add_named(tools: Tools, tool: Fields, path: str, namespace: str = "", about: str = "") -> None:
    """Add a function or a custom tool. ``about`` describes its namespace: the description of the first tool includes it."""
    name, named = fields.require_string(tool, "name", path), _named(tool, path)
    inner = named[tool["type"]]
    if about:
        inner["description"] = "\n\n".join(filter(None, (f"{namespace}: {about}", inner.get("description"))))
    tools.add(named, path, Called(tool["type"], name, namespace))


def _named(tool: Fields, path: str) -> Fields:
    """Return a function or a custom tool."""
    kind = tool["type"]
    known = {"parameters", "strict"} if kind == "function" else {"format"}
    found = {"defer_loading"} if path.startswith("input") else set()  # until a search found it
    fields.check_members(tool, {"type", "name", "description", "allowed_callers", *found, *known}, path)
    if tool.get("allowed_callers") not in _DIRECT:
        refuse(f"{path}.allowed_callers", "must be direct")
    if kind == "custom":
        return {"type": kind, kind: {**_described(tool, path, ()), **_tool_format(tool, path)}}
    fields.read_boolean(tool, "strict", path)
    return {"type": kind, kind: _described(tool, path, ("parameters", "strict"))}


def _described(tool: Fields, path: str, others: tuple[str, ...]) -> Fields:
    fields.read_string(tool, "description", path)
    return {name: tool[name] for name in ("name", "description", *others) if tool.get(name) is not None}


def _tool_format(tool: Fields, path: str) -> Fields:
    """Return the format of a custom tool's input. Chat completions nest a grammar."""
    wanted, at = fields.read_object(tool, "format", path), f"{path}.format"
    if not wanted:
        return {}
    if fields.check_kind(wanted, at, ("text", "grammar")) == "text":
        fields.check_members(wanted, {"type"}, at)
        return {"format": {"type": "text"}}
    fields.check_members(wanted, {"type", "syntax", "definition"}, at)
    if wanted.get("syntax") not in ("lark", "regex"):
        refuse(f"{at}.syntax", "must be lark or regex")
    definition = fields.require_string(wanted, "definition", at)
    return {"format": {"type": "grammar", "grammar": {"syntax": wanted["syntax"], "definition": definition}}}


def _caller_tool(tool: Fields, path: str, caller_tool: CallerTool) -> Fields:
    """Return the function that a tool of OpenAI's own becomes. A shell or a search may also run at OpenAI: not here."""
    kind = tool["type"]
    if kind == "tool_search":
        fields.check_members(tool, {"type", "execution", "description", "parameters"}, path)
        if tool.get("execution") != "client":
            refuse(f"{path}.execution", "must be client: a search of the server's runs at OpenAI")
        description, parameters = fields.read_string(tool, "description", path), fields.read_object(tool, "parameters", path)
        return {"type": "function", "function": {"name": kind, "description": description, "parameters": parameters}}
    members = {"type", "environment", "allowed_callers"} if kind == "shell" else {"type", "allowed_callers"}
    fields.check_members(tool, members, path)
    if tool.get("allowed_callers") not in _DIRECT:
        refuse(f"{path}.allowed_callers", "must be direct")
    if fields.read_object(tool, "environment", path) not in ({}, {"type": "local"}):
        refuse(f"{path}.environment", "must be local: others run at OpenAI")
    function = {"name": kind, "description": caller_tool.description, "parameters": caller_tool.parameters}
    return {"type": "function", "function": function}


# --- The choice -------------------------------------------------------------------------------------------------------


def choice(body: Fields) -> Any:
    """Return ``tool_choice`` in the words of chat. A string is checked with the rest."""
    tool_choice = body.get("tool_choice")
    if not isinstance(tool_choice, dict):
        return tool_choice
    if tool_choice.get("type") != "allowed_tools":
        return _chosen(tool_choice, "tool_choice", ("function", "custom", "allowed_tools", *CALLER_TOOLS))
    fields.check_members(tool_choice, {"type", "mode", "tools"}, "tool_choice")
    if tool_choice.get("mode") not in ("auto", "required"):
        refuse("tool_choice.mode", "must be auto or required")
    allowed = numbered(fields.require_array(tool_choice, "tools", "tool_choice"), "tool_choice.tools")
    tools = [_chosen(tool, path, ("function", "custom", *CALLER_TOOLS)) for path, tool in allowed]
    return {"type": "allowed_tools", "allowed_tools": {"mode": tool_choice["mode"], "tools": tools}}


def _chosen(chosen: Any, path: str, kinds: tuple[str, ...]) -> Fields:
    kind = fields.check_kind(chosen, path, kinds)
    if kind in CALLER_TOOLS:
        fields.check_members(chosen, {"type"}, path)
        return {"type": "function", "function": {"name": kind}}
    fields.check_members(chosen, {"type", "name", "namespace"}, path)
    name = fields.require_string(chosen, "name", path)
    return {"type": kind, kind: {"name": chat_name(fields.read_string(chosen, "namespace", path), name)}}


# --- Calls ------------------------------------------------------------------------------------------------------------


def custom_input(arguments: str) -> str:
    """Return the input of a custom tool that a model called as a function: the field ``input``, or else the whole text."""
    text = (read_arguments(arguments) or {}).get("input")
    return text if isinstance(text, str) else arguments


def find(called: Mapping[str, Called], name: Any) -> Called:
    return called.get(name) or Called("function", name or "")
