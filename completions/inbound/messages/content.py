"""Translates the system prompt and the messages of Anthropic's API into messages of a chat request. Pure.

Every block is checked here, with the name of its field in errors: what a chat request has no words for is refused. The rest is
checked by ``completions.request.messages``, as for all requests.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from completions.inbound import tool_names
from completions.inbound.caller_errors import Place
from completions.providers import sealed_reasoning
from completions.request import fields, media, prompt
from completions.request import messages as chat_messages
from completions.request.fields import Fields, numbered, refuse
from completions.request.serving import cache_control
from gateway_project.text import compact_json

_MEDIA_TYPE = "text/plain"  # of a document in text
_COMMON = frozenset({"type", "cache_control"})
_CITED_TOKENS = 1_024  # an allowance for Anthropic's own words about citations; its marks of sentences may be as long as these
_REPLY_BLOCKS = ("text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result")
ROLES = ("user", "assistant", "system")


@dataclass(slots=True)
class Conversation:
    """Messages of a chat request, where each comes from, and what they do not show.

    ``unseen_tokens_max`` bounds the tokens that only a provider with Messages is sent, such as signatures.
    ``block_fields`` names the fields of blocks that not every provider takes.
    """

    messages: list[Fields] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    unseen_tokens_max: int = 0
    block_fields: set[str] = field(default_factory=set)
    has_unsigned_thinking: bool = False

    def add(self, message: Fields, place: Place) -> None:
        self.messages.append(message)
        self.places.append(place)

    def add_to_user(self, parts: list[Fields], place: Place) -> None:
        """Add parts to the message before, if it is the user's: many models want the roles to alternate."""
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "user":
            self.add({"role": "user", "content": parts}, place)
            return
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}] if last["content"] else []
            self.places[-1].parts = [f"{self.places[-1].path}.content"] * len(last["content"])
        last["content"] += parts
        self.places[-1].parts += place.parts

    def note(self, block: Any, where: str) -> None:
        """Note the fields of a checked block that not every provider takes."""
        if not isinstance(block, dict):
            return
        self.block_fields.update(f"{where}.{name}" for name in ("cache_control", "toolset_name") if block.get(name))
        if block.get("type") == "document" and block.get("title"):
            self.block_fields.add(f"{where}.title")
        if citations := block.get("citations"):
            self._note_citations(block, citations, where)

    def _note_citations(self, block: Fields, citations: Any, where: str) -> None:
        """Note the citations of a text, or that a block may be cited. No message shows the tokens of these."""
        if isinstance(citations, list):
            self.unseen_tokens_max += prompt.count_json({"citations": citations})
        elif citations.get("enabled"):
            self.unseen_tokens_max += _CITED_TOKENS + prompt.count_json({"cited": _citable(block)})
        else:
            return
        self.block_fields.add(f"{where}.citations")


def translate(body: Fields, pause: Callable[[], None]) -> Conversation:
    """Return the conversation of a body. Raises InvalidRequest about the first block that cannot be translated."""
    conversation = Conversation()
    if body.get("system") is not None:
        _add_system(conversation, body["system"])
    for path, message in numbered(fields.require_array(body, "messages"), "messages"):
        _add_message(conversation, message, path)
        pause()
    return conversation


# --- Messages -------------------------------------------------------------------------------------------------------


def _add_system(conversation: Conversation, system: Any) -> None:
    if isinstance(system, str):
        conversation.add({"role": "system", "content": system}, Place("system"))
        return
    parts, paths = _texts(conversation, fields.check_array(system, "system"), "system", "system")
    if parts:
        conversation.add({"role": "system", "content": parts}, Place("system", parts=paths))


def _add_message(conversation: Conversation, message: Any, path: str) -> None:
    role = fields.read_required(fields.check_object(message, path), "role", path)
    fields.check_members(message, {"role", "content"}, path)
    content = fields.read_required(message, "content", path)
    if role not in ROLES:
        refuse(f"{path}.role", f"must be one of {', '.join(ROLES)}")
    if role == "system":
        _add_reminder(conversation, content, path)
        return
    if isinstance(content, str):
        conversation.add({"role": role, "content": content}, Place(path))
        return
    blocks = fields.check_array(content, f"{path}.content")
    if role == "user":
        _add_user_blocks(conversation, blocks, path)
    else:
        _add_assistant_blocks(conversation, blocks, path)


def _add_reminder(conversation: Conversation, content: Any, path: str) -> None:
    """Add an instruction that stands in the middle of the conversation. There it stays: it is about what came before."""
    given = [{"type": "text", "text": content}] if isinstance(content, str) else fields.check_array(content, f"{path}.content")
    parts, paths = _texts(conversation, given, f"{path}.content", "messages")
    reminders = [{**part, "text": chat_messages.as_reminder(part["text"])} for part in parts]
    if reminders:
        conversation.add_to_user(reminders, Place(path, parts=paths))


def _texts(conversation: Conversation, blocks: list[Any], path: str, where: str) -> tuple[list[Fields], list[str]]:
    parts, paths = list[Fields](), list[str]()
    for at, block in numbered(blocks, path):
        fields.check_kind(block, at, ("text",))
        parts += _text(block, at)
        paths.append(at)
        conversation.note(block, where)
    return parts, paths


def _add_user_blocks(conversation: Conversation, blocks: list[Any], path: str) -> None:
    """Add each tool result as a message of its own, and then the other blocks as a message of the user.

    Images of results are in the message of the user, after a line that names their call, because tool messages have none.
    """
    place, parts = Place(path), list[Fields]()
    for at, block in numbered(blocks, f"{path}.content"):
        kind = fields.check_kind(block, at, (*_PARTS, "tool_result"))
        shown = _PARTS[kind](block, at) if kind in _PARTS else _add_tool_result(conversation, block, at)
        parts += shown
        place.parts += [at] * len(shown)
        conversation.note(block, "messages")
    if parts or not blocks:
        conversation.add({"role": "user", "content": parts}, place)


def _add_tool_result(conversation: Conversation, block: Fields, path: str) -> list[Fields]:
    """Add the message of a tool result. Return its images and files, which that message cannot have, after a label."""
    fields.check_members(block, _COMMON | {"tool_use_id", "content", "is_error", "toolset_name"}, path)
    fields.read_string(block, "toolset_name", path)
    message: Fields = {"role": "tool", "tool_call_id": fields.require_string(block, "tool_use_id", path)}
    content, others = block.get("content"), list[Fields]()
    if isinstance(content, str) or content is None:
        message["content"] = content or ""
    else:
        parts = []
        for at, each in numbered(fields.check_array(content, f"{path}.content"), f"{path}.content"):
            parts += _RESULT_PARTS[fields.check_kind(each, at, _RESULT_PARTS)](each, at)
            conversation.note(each, "messages")
        texts = [part for part in parts if part["type"] == "text"]
        others = [part for part in parts if part["type"] != "text"]
        message["content"] = texts or ""
    if fields.read_boolean(block, "is_error", path):
        message["is_error"] = True
    conversation.add({**message, **cache_control(block, path)}, Place(path))
    label = f"Shown by the result of {message['tool_call_id']}:"
    return [{"type": "text", "text": label}, *others] if others else []


def _add_assistant_blocks(conversation: Conversation, blocks: list[Any], path: str) -> None:
    parts, calls, sealed, thoughts = list[Fields](), list[Fields](), list[Fields](), list[str]()
    place = Place(path)
    for at, block in numbered(blocks, f"{path}.content"):
        match fields.check_kind(block, at, _REPLY_BLOCKS):
            case "text":
                parts += _text(block, at)
                place.parts.append(at)
            case "tool_use":
                calls.append(_tool_call(block, at))
                conversation.unseen_tokens_max += max(len(block["name"]) - tool_names.CHARACTERS_MAX, 0)
                place.calls.append(at)
            case "thinking":
                fields.check_members(block, {"type", "thinking", "signature"}, at)
                thoughts.append(fields.require_string(block, "thinking", at))
                conversation.unseen_tokens_max += _unseen(block, "signature", at)
                conversation.has_unsigned_thinking |= not block.get("signature")
            case "server_tool_use" | "web_search_tool_result" as kind:
                _check_search(block, at, kind)
                conversation.unseen_tokens_max += prompt.count_json(block)
                conversation.block_fields.add(f"messages.{kind}")
            case _ if sealed_reasoning.is_sealed(block.get("data")):
                fields.check_members(block, {"type", "data"}, at)
                sealed.append({"type": "reasoning.encrypted", "data": block["data"]})
            case _:
                fields.check_members(block, {"type", "data"}, at)
                conversation.unseen_tokens_max += _unseen(block, "data", at)
                conversation.block_fields.add("messages.redacted_thinking")
        conversation.note(block, "messages")
    message: Fields = {"role": "assistant", "content": parts or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    if any(thoughts):
        message["reasoning_content"] = "\n".join(thoughts)
    if sealed:
        message["reasoning_details"] = sealed
    conversation.add(message, place)


def _check_search(block: Fields, path: str, kind: str) -> None:
    """Check a search of an earlier reply, or its result. Only the provider that searched reads these blocks."""
    if prompt.wants_hour_cache(cache_control(block, path)):
        refuse(f"{path}.cache_control.ttl", "must be 5m on a block of a search")
    if kind == "server_tool_use":
        fields.check_members(block, _COMMON | {"id", "name", "input", "caller"}, path)
        if block.get("name") != "web_search":
            refuse(f"{path}.name", "must be web_search: no other tool runs at Anthropic")
        return
    fields.check_members(block, _COMMON | {"tool_use_id", "content", "caller"}, path)
    fields.read_required(block, "content", path)


def _unseen(block: Fields, name: str, path: str) -> int:
    return prompt.PART_TOKENS + prompt.count_text(fields.read_string(block, name, path))


# --- Blocks ---------------------------------------------------------------------------------------------------------


def _text(block: Fields, path: str) -> list[Fields]:
    fields.check_members(block, _COMMON | {"text", "citations"}, path)
    for at, citation in numbered(fields.read_array(block, "citations", path), f"{path}.citations"):
        fields.check_object(citation, at)
    text = fields.require_string(block, "text", path)
    return [{"type": "text", "text": text, **cache_control(block, path)}]


def _image(block: Fields, path: str) -> list[Fields]:
    fields.check_members(block, _COMMON | {"source"}, path)
    url = _url(fields.read_required(block, "source", path), f"{path}.source")
    return [{"type": "image_url", "image_url": {"url": url}, **cache_control(block, path)}]


def _document(block: Fields, path: str) -> list[Fields]:
    """Return a document as a file, after its context; one in text or in blocks as these, after its title and its context."""
    fields.check_members(block, _COMMON | {"source", "title", "context", "citations"}, path)
    _check_citations(block, path)
    title, context = fields.read_string(block, "title", path), fields.read_string(block, "context", path)
    source, at = fields.require_object(block, "source", path), f"{path}.source"
    if (kind := source.get("type")) == "text":
        parts: list[Fields] = [{"type": "text", "text": _joined(title, context, _plain_text(source, at))}]
    elif kind == "content":
        parts = [{"type": "text", "text": text} for text in (title, context) if text] + _custom_content(source, at)
    elif kind == "base64":
        file = {"file_data": _url(source, at), **({"filename": title} if title else {})}
        parts = [*([{"type": "text", "text": context}] if context else []), {"type": "file", "file": file}]
    else:
        refuse(f"{at}.type", "must be base64, text or content: documents are part of the request")
    return [*parts[:-1], {**parts[-1], **cache_control(block, path)}]


def _search_result(block: Fields, path: str) -> list[Fields]:
    """Return what a search found as text, after its title and where it was found."""
    fields.check_members(block, _COMMON | {"source", "title", "content", "citations"}, path)
    _check_citations(block, path)
    heading = [fields.require_string(block, name, path) for name in ("title", "source")]
    texts = [_only_text(each, at) for at, each in numbered(fields.require_array(block, "content", path), f"{path}.content")]
    return [{"type": "text", "text": _joined("\n".join(heading), *texts), **cache_control(block, path)}]


def _tool_reference(block: Fields, path: str) -> list[Fields]:
    """Return text that names a tool which a tool search found. The name is enough, because every tool is sent anyway."""
    fields.check_members(block, _COMMON | {"tool_name"}, path)
    name = fields.require_name(block, "tool_name", path)
    return [{"type": "text", "text": f"The tool {tool_names.shortened(name)} is there.", **cache_control(block, path)}]


def _check_citations(block: Fields, path: str) -> None:
    citations = fields.read_object(block, "citations", path)
    fields.check_members(citations, {"enabled"}, f"{path}.citations")
    fields.read_boolean(citations, "enabled", f"{path}.citations")


def _citable(block: Fields) -> Any:
    """Return the citable text of a block: a string or blocks. None for a file, which counts as much as a prompt can have."""
    source = block.get("source")
    if not isinstance(source, dict):
        return block.get("content")
    return {"text": source.get("data"), "content": source.get("content")}.get(source["type"])


def _custom_content(source: Fields, path: str) -> list[Fields]:
    """Return the parts of a document whose content is a string, or blocks of text and images."""
    fields.check_members(source, {"type", "content"}, path)
    given, at = fields.read_required(source, "content", path), f"{path}.content"
    if isinstance(given, str):
        return [{"type": "text", "text": given}]
    kinds = {"text": lambda block, place: [{"type": "text", "text": _only_text(block, place)}], "image": _image}
    blocks = fields.check_array(given, at)
    if not blocks:
        refuse(at, "must not be empty")
    return [part for place, each in numbered(blocks, at) for part in kinds[fields.check_kind(each, place, kinds)](each, place)]


def _only_text(block: Any, path: str) -> str:
    fields.check_kind(block, path, ("text",))
    fields.check_members(block, {"type", "text"}, path)
    return fields.require_string(block, "text", path)


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


def _plain_text(source: Fields, path: str) -> str:
    fields.check_members(source, {"type", "media_type", "data"}, path)
    if media.media_type(fields.read_string(source, "media_type", path)) != _MEDIA_TYPE:
        refuse(f"{path}.media_type", f"must be {_MEDIA_TYPE}")
    return fields.require_string(source, "data", path)


def _url(given: Any, path: str) -> str:
    """Return the source of an image or a document as an address: a data URL, unless it is an address already."""
    source = fields.check_object(given, path)
    kind = fields.read_required(source, "type", path)
    if kind == "url":
        fields.check_members(source, {"type", "url"}, path)
        return fields.require_string(source, "url", path)
    if kind != "base64":
        refuse(f"{path}.type", "must be base64: nothing is kept or fetched here")
    fields.check_members(source, {"type", "media_type", "data"}, path)
    media_type = media.media_type(fields.require_string(source, "media_type", path))
    return f"data:{media_type};base64,{fields.require_string(source, 'data', path)}"


def _tool_call(block: Fields, path: str) -> Fields:
    fields.check_members(block, _COMMON | {"id", "name", "input", "caller", "toolset_name"}, path)
    fields.read_string(block, "toolset_name", path)
    if block.get("caller") not in (None, {"type": "direct"}):
        refuse(f"{path}.caller", "must be direct")
    given = fields.require_object(block, "input", path)
    name = tool_names.shortened(fields.require_name(block, "name", path))
    function = {"name": name, "arguments": compact_json.dumps_text(given)}
    tool_id = fields.require_string(block, "id", path)
    return {"id": tool_id, "type": "function", "function": function, **cache_control(block, path)}


_Part = Callable[[Fields, str], list[Fields]]
_PARTS: dict[str, _Part] = {"text": _text, "image": _image, "document": _document, "search_result": _search_result}
_RESULT_PARTS: dict[str, _Part] = {**_PARTS, "tool_reference": _tool_reference}
