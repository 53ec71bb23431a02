"""OpenAI's messages -> Anthropic's: instructions apart, turns that alternate, content in blocks. Pure.

Raises InvalidRequest, whose ``param`` names the part, for what the Messages API has no block for.
"""

import re
from collections.abc import Iterator
from typing import Any

from completions.providers import wire
from gateway_project import errors

Block = dict[str, Any]
Turn = dict[str, Any]

_INSTRUCTING = ("system", "developer")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,", re.IGNORECASE)
_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")  # refused by Anthropic; ids that other makers gave have more


def instructions(messages: list[dict[str, Any]]) -> list[Block]:
    """All that system and developer messages say, wherever they stand: Anthropic takes instructions in one place."""
    blocks = []
    for path, message in _numbered(messages):
        if message["role"] in _INSTRUCTING:
            for block in _content(message.get("content"), f"{path}.content", allowed=("text",)):
                blocks.append(block)
    return blocks


def conversation(messages: list[dict[str, Any]]) -> list[Turn]:
    """The conversation. Messages of one speaker in a row are one turn, as results of tools and what the user adds must be."""
    conversation: list[Turn] = []
    for path, message in _numbered(messages):
        if message["role"] in _INSTRUCTING:
            continue
        speaker, blocks = _spoken(message, path)
        if conversation and conversation[-1]["role"] == speaker:
            conversation[-1]["content"] += blocks
        elif blocks:
            conversation.append({"role": speaker, "content": blocks})
    _strip_end(conversation)
    if not conversation:
        raise errors.wrong("messages", "must have a message with content that is not an instruction")
    return conversation


def cache_control(holder: dict[str, Any]) -> dict[str, Any]:
    """``cache_control`` if it is there, to be merged into a block. For five minutes: longer costs more than we charge."""
    mark = holder.get("cache_control")
    return {"cache_control": {"type": "ephemeral"}} if isinstance(mark, dict) and mark.get("type") == "ephemeral" else {}


def _numbered(messages: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((f"messages[{index}]", message) for index, message in enumerate(messages))


def _spoken(message: dict[str, Any], path: str) -> tuple[str, list[Block]]:
    """Whose turn it is, and what it adds."""
    content, role = message.get("content"), message["role"]
    if role == "user":
        return "user", _content(content, f"{path}.content", allowed=("text", "image_url", "file"))
    if role == "tool":
        return "user", [_tool_result(message, path)]
    if role == "assistant":
        if message.get("function_call") is not None:
            raise errors.wrong(f"{path}.function_call", "is not supported by this model: use tool_calls")
        said = _content(content, f"{path}.content", allowed=("text", "refusal"))
        return "assistant", said + _tool_uses(message.get("tool_calls"), f"{path}.tool_calls")
    raise errors.wrong(f"{path}.role", f"{role} is not supported by this model")


def _strip_end(conversation: list[Turn]) -> None:
    """A reply that the model is to continue must not end in white space."""
    if conversation and conversation[-1]["role"] == "assistant":
        blocks = conversation[-1]["content"]
        if blocks[-1]["type"] == "text":
            text = blocks.pop()["text"].rstrip()
            blocks += [{"type": "text", "text": text}] if text else []
        if not blocks:
            conversation.pop()


# --- Content ----------------------------------------------------------------------------------------------------


def _content(content: Any, path: str, *, allowed: tuple[str, ...]) -> list[Block]:
    """Blocks of a string, of parts of the ``allowed`` types, or of nothing. Empty text, which is refused, is left out."""
    if content is None:
        return []
    if isinstance(content, str):
        return [_text(content)] if content else []
    if not isinstance(content, list):
        raise errors.wrong(path, "must be a string or an array of parts")
    parts = [(f"{path}[{index}]", part) for index, part in enumerate(content)]
    blocks = (_block(part, part_path, allowed) for part_path, part in parts)
    return [block for block in blocks if block.get("text") != ""]


def _block(part: Any, path: str, allowed: tuple[str, ...]) -> Block:
    if not isinstance(part, dict):
        raise errors.wrong(path, "must be an object")
    kind = part.get("type")
    if kind not in allowed:
        raise errors.wrong(f"{path}.type", f"must be one of {', '.join(allowed)} for this model")
    if kind == "image_url":
        block = _image(_within(part, "image_url", path), f"{path}.image_url")
    elif kind == "file":
        block = _document(_within(part, "file", path), f"{path}.file")
    else:
        block = _text(_string(part, kind, path))
    return {**block, **cache_control(part)}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(image: dict[str, Any], path: str) -> Block:
    return {"type": "image", "source": _source(_string(image, "url", path), f"{path}.url", _IMAGE_TYPES)}


def _document(file: dict[str, Any], path: str) -> Block:
    source = _source(_string(file, "file_data", path), f"{path}.file_data", ("application/pdf",))
    title = file.get("filename")
    return {"type": "document", "source": source, **({"title": title} if isinstance(title, str) and title else {})}


def _source(url: str, path: str, allowed: tuple[str, ...]) -> dict[str, str]:
    """The data in a URL. One that would have to be fetched is refused: nothing is fetched for callers, by nobody."""
    head = _DATA_URL.match(url)
    if head is None or head[1].lower() not in allowed:
        raise errors.wrong(path, f"must be a data URL in base64 of {' or '.join(allowed)} for this model")
    return {"type": "base64", "media_type": head[1].lower(), "data": url[head.end() :]}


# --- Tools ------------------------------------------------------------------------------------------------------


def _tool_uses(tool_calls: Any, path: str) -> list[Block]:
    if tool_calls is None:
        return []
    if not isinstance(tool_calls, list):
        raise errors.wrong(path, "must be an array")
    return [_tool_use(tool_call, f"{path}[{index}]") for index, tool_call in enumerate(tool_calls)]


def _tool_use(tool_call: Any, path: str) -> Block:
    if not isinstance(tool_call, dict) or (tool_call.get("type") or "function") != "function":
        raise errors.wrong(f"{path}.type", "must be function for this model")
    function = _within(tool_call, "function", path)
    name = _string(function, "name", f"{path}.function")
    arguments = _arguments(function.get("arguments"), f"{path}.function.arguments")
    return {"type": "tool_use", "id": _tool_id(tool_call, "id", path), "name": name, "input": arguments}


def _arguments(text: Any, path: str) -> dict[str, Any]:
    arguments = wire.parse_json_object(text or "{}") if isinstance(text, str) else None
    if arguments is None:
        raise errors.wrong(path, "must be a JSON object as text")
    return arguments


def _tool_result(message: dict[str, Any], path: str) -> Block:
    blocks = _content(message.get("content"), f"{path}.content", allowed=("text", "image_url", "file"))
    result = {"type": "tool_result", "tool_use_id": _tool_id(message, "tool_call_id", path)}
    return {**result, "content": blocks} if blocks else result


def _tool_id(holder: dict[str, Any], name: str, path: str) -> str:
    return _NOT_IN_AN_ID.sub("_", _string(holder, name, path))


# --- Shapes -----------------------------------------------------------------------------------------------------


def _within(holder: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    value = holder.get(name)
    if not isinstance(value, dict):
        raise errors.wrong(f"{path}.{name}", "must be an object")
    return value


def _string(holder: dict[str, Any], name: str, path: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise errors.wrong(f"{path}.{name}", "must be a string")
    return value
