"""OpenAI's messages for upstreams that refuse a request for a field that they do not know. Pure.

Clients send back what they were answered, and answers come from many makers: what one of them added to a message, to a part
or to a call, another has never heard of.
"""

from collections.abc import Mapping
from typing import Any

Fields = dict[str, Any]

_FOREIGN = {"cache_control"}  # Anthropic's, in parts and tools: what is cached, others decide themselves
_CALL_FIELDS = {"id", "type", "function", "custom"}


def known(messages: list[Fields], fields: frozenset[str], roles: Mapping[str, str]) -> list[Fields]:
    """The messages with these fields alone; ``roles`` are those that go by another name."""
    return [_known(message, fields, roles) for message in messages]


def without_foreign(items: list[Fields]) -> list[Fields]:
    """Parts, or tools, without what only other makers know."""
    return [{name: value for name, value in item.items() if name not in _FOREIGN} for item in items]


def _known(message: Fields, fields: frozenset[str], roles: Mapping[str, str]) -> Fields:
    role, content = message["role"], message.get("content")
    # Who does not know of names yet needs to be told whose result it is.
    kept = {name: message[name] for name in message if name in fields or (name == "name" and role == "function")}
    kept = {name: value for name, value in kept.items() if value is not None or name == "content"}
    kept["role"] = roles.get(role, role)
    if isinstance(content, list):
        kept["content"] = without_foreign(content)
    if kept.get("tool_calls"):
        kept["tool_calls"] = [{name: call[name] for name in call if name in _CALL_FIELDS} for call in kept["tool_calls"]]
    return kept
