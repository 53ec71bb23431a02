"""Custom tools, whose input is text, as functions with one argument: for providers that have no custom tools. Pure.

Only a request whose language turns the calls back is translated so (``ChatRequest.takes_custom_as_functions``). A grammar
cannot be enforced so: the model is told it.
"""

from typing import Any

from msgspec.structs import replace

from completions.chat import Call, ChatRequest, RequestBody
from completions.request.fields import Fields
from gateway_project.text import compact_json

_PARAMETERS = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


def as_functions(request: ChatRequest) -> ChatRequest:
    """Return the request with functions instead of custom tools, if it may be."""
    if not request.takes_custom_as_functions:
        return request
    given = request.fields
    fields = {**given, "messages": [_message(message) for message in given["messages"]]}
    if given.get("tools"):
        fields["tools"] = [_tool(tool) for tool in given["tools"]]
    if isinstance(choice := given.get("tool_choice"), dict):
        fields["tool_choice"] = _choice(choice)
    return replace(request, body=RequestBody(fields))


def in_call(call: Call) -> Call:
    return replace(call, request=as_functions(call.request)) if call.request.takes_custom_as_functions else call


def _tool(tool: Fields) -> Fields:
    if tool["type"] != "custom":
        return tool
    custom = tool["custom"]
    grammar = (custom.get("format") or {}).get("grammar")
    rule = f"The input must match this {grammar['syntax']} grammar:\n{grammar['definition']}" if grammar else ""
    description = "\n\n".join(filter(None, (custom.get("description"), rule)))
    return {"type": "function", "function": {"name": custom["name"], "description": description, "parameters": _PARAMETERS}}


def _message(message: Fields) -> Fields:
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_called(call) for call in calls]} if calls else message


def _called(call: Fields) -> Fields:
    if call.get("type") != "custom":
        return call
    others = {name: value for name, value in call.items() if name != "custom"}
    arguments = compact_json.dumps_text({"input": call["custom"]["input"]})
    return {**others, "type": "function", "function": {"name": call["custom"]["name"], "arguments": arguments}}


def _choice(choice: Fields) -> Any:
    if choice.get("type") == "custom":
        return {"type": "function", "function": choice["custom"]}
    if choice.get("type") == "allowed_tools":
        allowed = choice["allowed_tools"]
        return {**choice, "allowed_tools": {**allowed, "tools": [_choice(tool) for tool in allowed["tools"]]}}
    return choice
