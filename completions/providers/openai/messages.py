"""Strips OpenAI messages for providers that are not sent unknown fields, or refuse them. Pure.

Clients send back the replies they received, and those come from many makers: a field that one maker adds to a message, a part
or a tool call is unknown to another.
"""

from completions.providers import sealed_reasoning, wire
from completions.request import media
from completions.request.fields import Fields

FOREIGN_FIELDS = {"cache_control"}  # Anthropic's, in parts and tools; other makers decide themselves what they cache
_TOOL_CALL_FIELDS = {"id", "type", "function", "custom"}


def with_plain_media(message: Fields) -> Fields:
    """Return a message with the data URLs of its images and files in the plainest form: many programs know no other."""
    if not isinstance(message.get("content"), list):
        return message
    content = []
    for part in message["content"]:
        kind, name = part["type"], {"image_url": "url", "file": "file_data"}.get(part["type"])
        content.append({**part, kind: {**part[kind], name: media.plain(part[kind][name])}} if name else part)
    return {**message, "content": content}


def with_reasoning(message: Fields, opened: sealed_reasoning.Open, *, keeps_shown: bool) -> Fields:
    """Return a message with reasoning as providers know it: text, own details; with ``keeps_shown`` those without a secret."""
    if message.keys().isdisjoint(sealed_reasoning.FIELDS):
        return message
    found, details = opened(message), message.get("reasoning_details") or []
    text = message.get("reasoning_content") or message.get("reasoning") or _text(details) or _text(found)
    own = [given["detail"] for given in found if "detail" in given]
    shown = [detail for detail in details if keeps_shown and not (detail.get("signature") or detail.get("data"))]
    return {
        **{name: value for name, value in message.items() if name != "reasoning_details"},
        **({"reasoning_content": text} if text else {}),
        **({"reasoning_details": own or shown} if own or shown else {}),
    }


def _text(details: list[Fields]) -> str:
    return "".join(text for detail in details if isinstance(text := detail.get("text"), str))


def keep_documented(messages: list[Fields], documented: frozenset[str]) -> list[Fields]:
    """Return the messages with the documented fields only, and what is inside these as it is."""
    return [
        message if message.keys() <= documented else {name: message[name] for name in message if name in documented}
        for message in messages
    ]


def drop_foreign_fields(items: list[Fields]) -> list[Fields]:
    """Return parts, or tools, without the fields that only other makers know."""
    return [{name: value for name, value in item.items() if name not in FOREIGN_FIELDS} for item in items]


def without_marks(tools: list[Fields]) -> list[Fields]:
    """Return the tools without foreign fields, which some clients put inside of the function."""
    plain = drop_foreign_fields(tools)
    return [
        {**tool, "function": drop_foreign_fields([tool["function"]])[0]} if tool.get("function") else tool for tool in plain
    ]


def with_schema(tool: Fields) -> Fields:
    """Return a tool without nulls, and with a schema that providers take for that of parameters."""
    if tool["type"] != "function":
        return tool
    function = {name: value for name, value in tool["function"].items() if value is not None}
    if "parameters" in function:
        function["parameters"] = wire.object_schema(function["parameters"])
    return {**tool, "function": function}


def keep_accepted(message: Fields, accepted: frozenset[str]) -> Fields:
    """Return a message with the accepted fields only."""
    role, content = message["role"], message.get("content")
    # In a message of role "function", the name is the only link to the call that it answers, so it is kept in any case.
    kept = {name: message[name] for name in message if name in accepted or (name == "name" and role == "function")}
    kept = {name: value for name, value in kept.items() if value is not None or name == "content"}
    if isinstance(content, list):  # an empty array is refused
        kept["content"] = drop_foreign_fields(content) or (None if kept.get("tool_calls") else "")
    if kept.get("tool_calls"):
        kept["tool_calls"] = [{name: call[name] for name in call if name in _TOOL_CALL_FIELDS} for call in kept["tool_calls"]]
    return kept
