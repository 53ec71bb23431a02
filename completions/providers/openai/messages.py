"""Strips OpenAI messages for upstreams that are not sent unknown fields, or refuse them. Pure.

Clients send back the replies they received, and those come from many makers: a field that one maker adds to a message, a part
or a tool call is unknown to another.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from completions.providers import sealed_reasoning

Fields = dict[str, Any]

FOREIGN_FIELDS = {"cache_control"}  # Anthropic's, in parts and tools; other makers decide themselves what they cache
_TOOL_CALL_FIELDS = {"id", "type", "function", "custom"}
_ID_OF_MISTRAL = re.compile(r"[A-Za-z0-9]{9}")
_ID_CHARACTERS_MAX = 40  # of a call, in OpenAI's chat completions


def keep_accepted(
    messages: list[Fields], accepted: frozenset[str], renamed_roles: Mapping[str, str], take_id: Callable[[str], str] = str
) -> list[Fields]:
    """Return the messages with the accepted fields only, with renamed roles, and with ids of calls that the upstream takes."""
    return [_keep_accepted(message, accepted, renamed_roles, take_id) for message in messages]


def id_for_openai(call_id: str) -> str:
    """Return an id of a call that OpenAI takes, for that of any maker."""
    return shortened_id(call_id, _ID_CHARACTERS_MAX)


def id_for_mistral(call_id: str) -> str:
    """Return an id of a call that Mistral takes, for that of any maker."""
    return call_id if _ID_OF_MISTRAL.fullmatch(call_id) else base64.b32encode(_digest(call_id)).decode()[:9]


def shortened_id(call_id: str, characters_max: int) -> str:
    """Return an id of at most so many characters: a digest of one that is longer."""
    return call_id if len(call_id) <= characters_max else f"call_{_digest(call_id).hex()[:32]}"


def _digest(call_id: str) -> bytes:
    return hashlib.sha256(call_id.encode(errors="replace")).digest()


def with_reasoning(message: Fields, opened: Callable[[Fields], list[Fields]], *, keeps_shown: bool) -> Fields:
    """Return a message with reasoning under the names that upstreams know: its text, and the details that they sent, unsealed.

    ``keeps_shown``: details without a secret stay, too.
    """
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


def _keep_accepted(
    message: Fields, accepted: frozenset[str], renamed_roles: Mapping[str, str], take_id: Callable[[str], str]
) -> Fields:
    role, content = message["role"], message.get("content")
    # In a message of role "function", the name is the only link to the call that it answers, so it is kept in any case.
    kept = {name: message[name] for name in message if name in accepted or (name == "name" and role == "function")}
    kept = {name: value for name, value in kept.items() if value is not None or name == "content"}
    kept["role"] = renamed_roles.get(role, role)
    if isinstance(content, list):
        kept["content"] = drop_foreign_fields(content)
    if kept.get("tool_calls"):
        calls = [{name: call[name] for name in call if name in _TOOL_CALL_FIELDS} for call in kept["tool_calls"]]
        kept["tool_calls"] = [{**call, "id": take_id(call["id"])} for call in calls]
    if "tool_call_id" in kept:
        kept["tool_call_id"] = take_id(kept["tool_call_id"])
    return kept
