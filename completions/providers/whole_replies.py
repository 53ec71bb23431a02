"""A whole reply of the chunks of a stream, and the chunks of a whole reply: for servers that send the other one. Pure."""

import json
from typing import Any

from completions.chat import Chunk, WholeReply
from completions.request.fields import Fields
from gateway_project.text import compact_json


class _Text(list[str]):
    """A text that arrives in pieces."""


# Members of a message whose texts arrive in pieces. All others arrive whole.
_IN_PIECES = frozenset({"arguments", "content", "input", "reasoning", "reasoning_content", "refusal", "text"})


def of_chunks(chunks: list[Chunk]) -> WholeReply:
    choices: dict[int, Fields] = {}
    for given in (choice for chunk in chunks for choice in json.loads(chunk.choices)):
        choice = choices.setdefault(given["index"], {"index": given["index"], "message": {"content": None}})
        delta = given.pop("delta")
        _add(choice, {name: value for name, value in given.items() if value is not None or name not in choice})
        _add(choice["message"], delta)
    for choice in choices.values():
        _join(choice)
        for call in choice["message"].get("tool_calls") or ():
            del call["index"]
    usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage), None)
    return WholeReply(list(choices.values()), usage=usage, text_bytes=sum(chunk.text_bytes for chunk in chunks))


def _add(whole: Fields, piece: Fields) -> None:
    for name, value in piece.items():
        known = whole.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            _add(known, value)
        elif type(known) is list and isinstance(value, list):
            for each in value:
                _add_item(known, each)
        elif isinstance(known, str | _Text) and isinstance(value, str) and name in _IN_PIECES:
            whole[name] = known = known if isinstance(known, _Text) else _Text([known])
            known.append(value)
        elif value is not None or known is None:
            whole[name] = value


def _add_item(known: list[Any], item: Any) -> None:
    index = item.get("index") if isinstance(item, dict) else None
    for each in reversed(known if index is not None else []):
        if isinstance(each, dict) and each.get("index") == index and each.get("type") == item.get("type", each.get("type")):
            _add(each, item)
            return
    known.append(item)


def _join(whole: Fields) -> None:
    """Join the texts that arrived in pieces."""
    for name, value in whole.items():
        if isinstance(value, _Text):
            whole[name] = "".join(value)
        else:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    _join(each)


def chunks(reply: WholeReply) -> list[Chunk]:
    said, ends = list[Fields](), list[Fields]()
    for choice in reply.choices:
        delta = {**choice["message"]}
        if delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(delta["tool_calls"])]
        others = {name: value for name, value in choice.items() if name != "message"}
        said.append({**others, "delta": delta, "finish_reason": None})
        ends.append({"index": choice["index"], "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]})
    text, end = compact_json.dumps_ascii(said), compact_json.dumps_ascii(ends)
    usage = [Chunk(b"[]", usage=reply.usage)] if reply.usage else []
    return [Chunk(text, text_bytes=reply.text_bytes), Chunk(end, has_finish_reason=True), *usage]
