"""Translates OpenAI's messages into Anthropic's: instructions apart, turns that alternate, content in blocks. Pure.

``completions.request.messages`` has checked the shape of every message. Refused here, with InvalidRequest, is what the Messages
API has no block for: audio, functions and custom tools, images and documents that are not data of a known type, and arguments
that are not a JSON object.
"""

from collections.abc import Sequence

from completions.providers import call_ids, sealed_reasoning, wire
from completions.request import media, prompt
from completions.request.fields import Fields, refuse

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_UNMARKED = ("thinking", "redacted_thinking")  # blocks that a cache ends at are others
_DOCUMENT_TYPES = ("application/pdf",)


def instructions(messages: list[Fields]) -> list[Fields]:
    """Return the text of all system and developer messages: Anthropic takes instructions in one place only."""
    return without_blank(
        [block for path, message in wire.with_paths(messages, are_instructions=True) for block in _marked(message, path)]
    )


def conversation(messages: list[Fields], thoughts_of: sealed_reasoning.Open | None = None) -> list[Fields]:
    """Return all other messages as turns that alternate between user and assistant, as Anthropic wants them."""
    turns: list[Fields] = []
    thoughts: dict[int, list[Fields]] = {}  # by the index of their turn
    for path, message, is_lost in call_ids.renamed(wire.with_paths(messages, are_instructions=False), call_ids.ANTHROPIC):
        if is_lost:
            refuse(f"{path}.tool_call_id", "must be the id of a tool call in an earlier message, which has no other result")
        role, blocks = _translate(message, path)
        if blocks:
            _add(turns, role, blocks)
        if thoughts_of and turns and turns[-1]["role"] == role == "assistant" and (found := thoughts_of(message)):
            thoughts.setdefault(len(turns) - 1, []).extend(found)
    _strip_last_turn(turns)
    said: list[Fields] = []
    for index, turn in enumerate(turns):
        blocks = turn["content"]
        if index in thoughts:
            blocks = sealed_reasoning.place(blocks, thoughts[index], "block", lambda block: block.get("text"), _with_text)
        if blocks := without_blank(blocks):
            _add(said, turn["role"], blocks)
    if not said:
        refuse("messages", "must have a message with content that is not an instruction")
    return said


def without_blank(blocks: list[Fields]) -> list[Fields]:
    """Return the blocks without text of white space alone, a 400. Its mark for the cache goes to the block before."""
    kept: list[Fields] = []
    for block in blocks:
        if block["type"] != "text" or block["text"].strip():
            kept.append(block)
        elif kept and "cache_control" in block and kept[-1]["type"] not in _UNMARKED:
            kept[-1] = {**kept[-1], "cache_control": block["cache_control"]}
    return kept


def _add(turns: list[Fields], role: str, blocks: list[Fields]) -> None:
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": [*blocks]})


def cache_control(fields: Fields) -> Fields:
    """Return the ``cache_control`` of a part, a tool or a body, to merge into a block: of five minutes, or the priced hour."""
    mark = fields.get("cache_control")
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        return {}
    return {"cache_control": {"type": "ephemeral", **({"ttl": "1h"} if prompt.wants_hour_cache(fields) else {})}}


def _translate(message: Fields, path: str) -> tuple[str, list[Fields]]:
    """Return the role of the turn that the message belongs to, and its blocks."""
    role = message["role"]
    if role == "function":
        refuse(f"{path}.role", "function is not supported by this model")
    if message.get("function_call") is not None and role == "assistant":
        refuse(f"{path}.function_call", "is not supported by this model: use tool_calls")
    if role == "assistant":
        calls = enumerate(message.get("tool_calls") or [])
        return "assistant", _marked(message, path, [_tool_use(call, f"{path}.tool_calls[{index}]") for index, call in calls])
    return "user", [_tool_result(message, path)] if role == "tool" else _marked(message, path)


def _strip_last_turn(turns: list[Fields]) -> None:
    """Strip white space from the end of a reply that the model is to continue; Anthropic refuses it."""
    if turns and turns[-1]["role"] == "assistant":
        blocks, text = turns[-1]["content"], ""
        while blocks and blocks[-1]["type"] == "text" and not text:
            text = blocks.pop()["text"].rstrip()
        blocks += [_text_block(text)] if text else []
        if not blocks:
            turns.pop()


def _marked(message: Fields, path: str, calls: Sequence[Fields] = ()) -> list[Fields]:
    """Return the content of a message and its calls. A mark for the cache on the message itself is that of its last block."""
    blocks = [*wire.parts(message, path, _block), *calls]
    return [*blocks[:-1], {**cache_control(message), **blocks[-1]}] if blocks else blocks


def _block(part: Fields, path: str) -> Fields:
    match part["type"]:
        case "image_url":
            source = _base64_source(part["image_url"]["url"], f"{path}.image_url.url", _IMAGE_TYPES)
            block: Fields = {"type": "image", "source": source}
        case "file":
            source = _base64_source(part["file"]["file_data"], f"{path}.file.file_data", _DOCUMENT_TYPES)
            title = part["file"].get("filename")
            block = {"type": "document", "source": source, **({"title": title} if isinstance(title, str) and title else {})}
        case "text" | "refusal" as kind:
            block = _text_block(part[kind])
        case _:
            refuse(f"{path}.type", "must be one of text, image_url, file for this model")
    return {**block, **cache_control(part)}


def _text_block(text: str) -> Fields:
    return {"type": "text", "text": text}


def _with_text(block: Fields, text: str, is_last: bool) -> Fields:
    """Return a part of a text: a mark for the cache is at its end."""
    return {**block, "text": text} if is_last else _text_block(text)


def _base64_source(url: str, path: str, media_types: tuple[str, ...]) -> Fields:
    """Return the data in a data URL. An address is refused: Anthropic would fetch it, and nothing is fetched for callers."""
    found = media.read_data_url(url)
    if found is None or found[0] not in media_types:
        refuse(path, f"must be a data URL in base64 of {' or '.join(media_types)} for this model")
    return {"type": "base64", "media_type": found[0], "data": found[1]}


def _tool_use(call: Fields, path: str) -> Fields:
    if (call.get("type") or "function") != "function":
        refuse(f"{path}.type", "must be function for this model")
    function = call["function"]
    arguments = wire.parse_arguments(function["arguments"], f"{path}.function.arguments")
    used = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}
    return {**used, **cache_control(call)}


def _tool_result(message: Fields, path: str) -> Fields:
    blocks = without_blank(wire.parts(message, path, _block))
    result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], **cache_control(message)}
    return {**result, "content": blocks} if blocks else result
