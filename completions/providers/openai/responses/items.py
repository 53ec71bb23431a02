"""Translates messages of a chat request into items of OpenAI's Responses. Pure.

``completions.request.messages`` has checked the shape of every message. Refused here, with InvalidRequest, is what this API has
no item for: sound, and the one function call of a message that chat completions had before tools.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from completions.providers import call_ids, sealed_reasoning
from completions.request import media
from completions.request.fields import Fields, refuse

_CALLS = {"function": ("function_call", "arguments"), "custom": ("custom_tool_call", "input")}
_CALL_TYPES = tuple(name for name, _ in _CALLS.values())


def translate(messages: list[Fields], reasoned: sealed_reasoning.Open | None = None) -> list[Fields]:
    """Return the messages as items, with the reasoning of each reply in the places where the model reasoned."""
    found: list[Fields] = []
    custom_ids: set[str] = set()  # of calls of custom tools, whose results are items of another type
    numbered = ((f"messages[{index}]", message) for index, message in enumerate(messages))
    tied = ((path, message) for path, message, _ in call_ids.renamed(numbered, call_ids.OPENAI_RESPONSES))
    for is_reply, turn in groupby(tied, lambda each: each[1]["role"] == "assistant"):
        if is_reply:
            found += _reply(turn, custom_ids, reasoned)
        else:
            found += [_other(message, path, custom_ids) for path, message in turn]
    return found


def _other(message: Fields, path: str, custom_ids: set[str]) -> Fields:
    role = message["role"]
    if role == "function":
        refuse(f"{path}.role", "function is not supported by this model")
    if role != "tool":
        return {"type": "message", "role": role, "content": _parts(message["content"], f"{path}.content")}
    given, call_id = message.get("content") or "", message["tool_call_id"]
    kind = "custom_tool_call_output" if call_id in custom_ids else "function_call_output"
    output = given if isinstance(given, str) else _parts(given, f"{path}.content")
    return {"type": kind, "call_id": call_id, "output": output}


def _reply(turn: Iterable[tuple[str, Fields]], custom_ids: set[str], reasoned: sealed_reasoning.Open | None) -> list[Fields]:
    """Return the items of consecutive messages of the assistant, which may be one reply."""
    content, reasoning = list[Fields](), list[Fields]()
    for path, message in turn:
        content += _said(message)
        content += _calls(message, path, custom_ids)
        if reasoned:
            reasoning += reasoned(message)
    return sealed_reasoning.place(content, reasoning, "item", _text, _with_text) if reasoning else content


def _said(message: Fields) -> Iterator[Fields]:
    """Yield what the model said: its text, then its refusal."""
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = {kind: "".join(part[kind] for part in parts if part["type"] == kind) for kind in ("text", "refusal")}
    texts["refusal"] += message.get("refusal") or ""
    phase = {"phase": message["phase"]} if isinstance(message.get("phase"), str) else {}
    for kind, part_type in (("text", "output_text"), ("refusal", "refusal")):
        if texts[kind]:
            yield {"type": "message", "role": "assistant", "content": [{"type": part_type, kind: texts[kind]}], **phase}


def _calls(message: Fields, path: str, custom_ids: set[str]) -> Iterator[Fields]:
    if message.get("function_call") is not None:
        refuse(f"{path}.function_call", "is not supported by this model: use tool_calls")
    for call in message.get("tool_calls") or []:
        kind = call.get("type") or "function"
        item_type, member = _CALLS[kind]
        if kind == "custom":
            custom_ids.add(call["id"])
        called = call[kind]
        content = called[member] if kind == "custom" else called[member] or "{}"
        yield {"type": item_type, "call_id": call["id"], "name": called["name"], member: content}


def _text(item: Fields) -> str | None:
    """Return the text of what the model said; None of a call."""
    if item["type"] in _CALL_TYPES:
        return None
    [part] = item["content"]
    text: str = part["text"] if part["type"] == "output_text" else part["refusal"]
    return text


def _with_text(item: Fields, text: str, is_last: bool) -> Fields:
    [part] = item["content"]
    name = "text" if part["type"] == "output_text" else "refusal"
    return {**item, "content": [{**part, name: text}]}


def _parts(content: Any, path: str) -> list[Fields]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [_part(part, f"{path}[{index}]") for index, part in enumerate(content)]


def _part(part: Fields, path: str) -> Fields:
    match part["type"]:
        case "image_url":
            image = part["image_url"]
            return {"type": "input_image", "image_url": media.plain(image["url"]), "detail": image.get("detail") or "auto"}
        case "file":
            name = part["file"].get("filename")
            named = name if isinstance(name, str) and name else "file.pdf"
            return {"type": "input_file", "file_data": media.plain(part["file"]["file_data"]), "filename": named}
        case "input_audio":
            refuse(f"{path}.type", "must be one of text, image_url, file for this model")
    return {"type": "input_text", "text": part["text"]}
