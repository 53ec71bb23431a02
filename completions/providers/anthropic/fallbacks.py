"""The nearest that a model takes instead of what it refuses, in the words of the Messages API. Pure.

``completions.providers.model_rules`` says what a model takes, ``access.platforms`` what a cloud. A header of the reply names
what was asked for and left out.
"""

from completions.chat import Call, ModelRules
from completions.providers.access.platforms import METADATA, STRICT
from completions.providers.model_rules import CONTINUE
from completions.request.fields import Fields

_ANY = "Reply to this request with a call of at least one of the tools, and not in words alone."
_ONE = "Reply to this request with a call of the tool {name}, and not in words alone."


def is_forced(choice: Fields) -> bool:
    return choice.get("type") in ("any", "tool")


def without_force(fields: Fields, rules: ModelRules) -> Fields:
    """Return the body with a choice of tools that the model takes. A call that may not be forced is asked for in words."""
    # At the end of the instructions the note stays the same from turn to turn, as thinking that is sent back demands.
    choice = fields.get("tool_choice") or {}
    if rules.forced_tools or not is_forced(choice):
        return fields
    system = fields.get("system") or []
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    note = _ONE.format(name=choice["name"]) if choice["type"] == "tool" else _ANY
    freed = {name: value for name, value in choice.items() if name != "name"}
    return {**fields, "system": [*blocks, {"type": "text", "text": note}], "tool_choice": {**freed, "type": "auto"}}


def without_prefill(fields: Fields, rules: ModelRules) -> Fields:
    """Return the body with a last turn of the user, who asks to continue, where the model does not continue its own."""
    if rules.prefill or not is_prefilled(fields["messages"]):
        return fields
    asked = {"role": "user", "content": [{"type": "text", "text": CONTINUE}]}
    return {**fields, "messages": [*fields["messages"], asked]}


def is_prefilled(turns: list[Fields]) -> bool:
    """Return whether the last turn is text of the assistant. One in which Anthropic's own tools run is a pause."""
    last = turns[-1] if turns else {}
    content = last.get("content")
    if last.get("role") != "assistant" or not content:
        return False
    if isinstance(content, str):
        return True
    return content[-1]["type"] == "text" and not any(block["type"] == "server_tool_use" for block in content)


def without_lacking(fields: Fields, lacks: frozenset[str]) -> Fields:
    """Return the body without what a cloud refuses."""
    if STRICT in lacks and fields.get("tools"):
        fields = {**fields, "tools": [without(tool, STRICT) for tool in fields["tools"]]}
    return without(fields, METADATA) if METADATA in lacks else fields


def lacking_fields(call: Call) -> list[str]:
    fields, lacks = call.request.fields, call.route.target.lacks
    left_out = []
    if STRICT in lacks and any((tool.get("function") or {}).get("strict") is True for tool in fields.get("tools") or ()):
        left_out.append("tools.function.strict")
    names = ("metadata", "safety_identifier", "user") if METADATA in lacks else ()
    return left_out + [name for name in names if fields.get(name)]


def without(fields: Fields, left_out: str) -> Fields:
    return {name: value for name, value in fields.items() if name != left_out}
