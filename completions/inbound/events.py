"""Server-sent events that have a name, and the choices that they are made of. Pure."""

import json
from typing import Any

import msgspec

from completions.request.fields import Fields
from gateway_project.text import compact_json


def event(data: Fields) -> bytes:
    """Return a server-sent event. Anthropic's clients drop those without a name; OpenAI sends it, too."""
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), as_json(data))


def as_json(data: Any) -> bytes:
    """Return JSON, also of half of a surrogate pair: a provider may cut its text inside an emoji."""
    try:
        return compact_json.dumps(data)
    except UnicodeEncodeError:
        return compact_json.dumps(_escaped(data))


def _escaped(value: Any) -> Any:
    """Return a value in which each string that is not UTF-8 is escaped JSON already."""
    if isinstance(value, dict):
        return {name: _escaped(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    is_escaped = isinstance(value, str) and not value.isascii()
    return msgspec.Raw(compact_json.dumps_ascii(value)) if is_escaped else value


def read_arguments(arguments: str) -> Fields | None:
    """Return the arguments of a call; None while they are incomplete, and if the model wrote no object."""
    try:
        parsed = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def parse_choices(choices: bytes) -> list[Any]:
    """Return the choices of a chunk. msgspec refuses halves of surrogate pairs."""
    try:
        parsed: list[Any] = msgspec.json.decode(choices)
    except msgspec.DecodeError:
        parsed = json.loads(choices)
    return parsed
