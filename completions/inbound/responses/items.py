"""Translates the instructions and the items of OpenAI's Responses into messages of a chat request. Pure.

Items, parts and fields that a chat request cannot express are refused here, with the name of their field. The rest is checked
by ``completions.request.messages``, as for all requests.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from completions.inbound.caller_errors import Place
from completions.inbound.responses import compaction, tools
from completions.providers import sealed_reasoning
from completions.request import fields
from completions.request.fields import Fields, numbered, refuse
from gateway_project.text import compact_json

ROLES = ("user", "system", "developer", "assistant")
_LABELS = frozenset({"id", "status", "type"})  # of an item of an earlier reply; models are told none of them
_DIRECT = {"type": "direct"}  # a call that the model made itself
# Type of a call -> its type in chat, and the member of either that has its input.
_NAMED_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}


@dataclass(slots=True)
class Conversation:
    """Messages of a chat request, and where each comes from.

    Consecutive items of the assistant become one message, in the order that chat has: reasoning, text, calls. The results of
    calls follow, and then the images and files of the results, in a message of the user. ``found_tools`` are the tools that a
    tool search of the caller found, after their paths.
    """

    account_id: UUID | None = None  # that summaries are sealed for
    messages: list[Fields] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    found_tools: list[tuple[str, Any]] = field(default_factory=list)
    has_custom_calls: bool = False
    has_searches: bool = False  # of earlier replies, which no provider is sent
    compactions: int = 0
    compacts_at: str = ""  # the item that asks for a summary of all before it
    _has_turn: bool = False  # whether the last message is one of the assistant, to which more can be added
    _shown: list[tuple[Fields, str]] = field(default_factory=list)  # parts that results cannot have, and their paths

    def add(self, message: Fields, place: Place) -> None:
        self.end_results()
        self._append(message, place)

    def add_result(self, message: Fields, place: Place, shown: list[tuple[Fields, str]]) -> None:
        """Add the message of a tool. Its images and files follow after the last result."""
        self._append(message, place)
        self._shown += shown

    def end_results(self) -> None:
        """Add the message that shows the images and the files of results."""
        if self._shown:
            place = Place(self._shown[0][1], self._shown[0][1], [path for _, path in self._shown])
            message: Fields = {"role": "user", "content": [part for part, _ in self._shown]}
            self._shown = []
            self._append(message, place)

    def turn(self, path: str, *, is_call: bool = False) -> tuple[Fields, Place]:
        """Return the message that an item of the assistant belongs to.

        Reasoning and text begin a new message if the last one has text and no calls. With calls they join it, because results
        must follow their calls at once.
        """
        self.end_results()
        if not self._has_turn or not (is_call or self.messages[-1].get("tool_calls") or not self.messages[-1]["content"]):
            self._append({"role": "assistant", "content": ""}, Place(path, f"{path}.content"))
            self._has_turn = True
        return self.messages[-1], self.places[-1]

    def _append(self, message: Fields, place: Place) -> None:
        self.messages.append(message)
        self.places.append(place)
        self._has_turn = False


def translate(body: Fields, pause: Callable[[], None], earlier: int = 0, account_id: UUID | None = None) -> Conversation:
    """Return the conversation of a body. Raises InvalidRequest about the first item that cannot be translated.

    The first ``earlier`` items come from earlier responses. Errors about them name ``previous_response_id``.
    """
    conversation = Conversation(account_id)
    if instructions := fields.read_string(body, "instructions"):
        conversation.add({"role": "system", "content": instructions}, Place("instructions", "instructions"))
    given = fields.read_required(body, "input")
    if isinstance(given, str):
        conversation.add({"role": "user", "content": given}, Place("input", "input"))
        return conversation
    if not isinstance(given, list):
        refuse("input", "must be a string or an array of items")
    for index, item in enumerate(given):
        _add_item(conversation, item, "previous_response_id" if index < earlier else f"input[{index - earlier}]")
        pause()
    conversation.end_results()
    return conversation


def _add_item(conversation: Conversation, given: Any, path: str) -> None:
    item = fields.check_object(given, path)
    kind = item.get("type") or ("message" if "role" in item else None)
    fields.check_kind({"type": kind}, path, _KINDS)
    if conversation.compacts_at:
        refuse(conversation.compacts_at, "must be the last item of the input")
    add, members = _KINDS[str(kind)]
    fields.check_members(item, members, path)
    add(conversation, item, path)


# --- Items ------------------------------------------------------------------------------------------------------------


def _add_message(conversation: Conversation, item: Fields, path: str) -> None:
    role = fields.read_required(item, "role", path)
    if role not in ROLES:
        refuse(f"{path}.role", f"must be one of {', '.join(ROLES)}")
    content = fields.read_required(item, "content", path)
    parts, paths = _parts(content, f"{path}.content", _PARTS[role])
    if role != "assistant":
        conversation.add({"role": role, "content": _content(content, parts)}, Place(path, f"{path}.content", paths))
        return
    message, place = conversation.turn(path)
    place.content, place.parts = f"{path}.content", place.parts + paths
    earlier = _as_parts(message["content"])
    message["content"] = [*earlier, *parts] if earlier else _content(content, parts)
    if phase := fields.read_string(item, "phase", path):
        message["phase"] = phase


def _add_named_call(conversation: Conversation, item: Fields, path: str) -> None:
    kind, member = _NAMED_CALLS[item["type"]]
    conversation.has_custom_calls |= kind == "custom"
    name = fields.require_string(item, "name", path)
    called = {"name": tools.chat_name(fields.read_string(item, "namespace", path), name), member: item.get(member)}
    _add_call(conversation, item, path, {"type": kind, kind: called})


def _add_caller_call(conversation: Conversation, item: Fields, path: str) -> None:
    name, tool = _CALLER_CALLS[item["type"]]
    for member, value in tool.others.items():
        if item.get(member) not in (None, value):
            refuse(f"{path}.{member}", f"must be {value or 'empty'}")
    function = {"name": name, "arguments": tool.arguments(item, path)}
    _add_call(conversation, item, path, {"type": "function", "function": function})


def _add_caller_result(conversation: Conversation, item: Fields, path: str) -> None:
    """Add the result of such a call as text, after the status in which it ended."""
    _check_caller(item, path)
    output = item.get("output")
    text = output if isinstance(output, str) else compact_json.dumps_text(output) if output is not None else ""
    ended = f"{item['status']}: " if item["type"] == "apply_patch_call_output" and item.get("status") else ""
    _add_text_result(conversation, item, path, ended + text)


def _add_screenshot(conversation: Conversation, item: Fields, path: str) -> None:
    """Add the result of a computer: an image, which the message of a tool cannot have."""
    if fields.read_array(item, "acknowledged_safety_checks", path):
        refuse(f"{path}.acknowledged_safety_checks", "must be empty: there are no safety checks here")
    at = f"{path}.output"
    output = fields.read_required(item, "output", path)
    fields.check_kind(output, at, ("computer_screenshot",))
    call_id = fields.require_string(item, "call_id", path)
    label = {"type": "text", "text": f"Shown by the result of {call_id}:"}
    message = {"role": "tool", "tool_call_id": call_id, "content": ""}
    conversation.add_result(message, Place(path, at), [(label, path), (_image(output, at), at)])


def _add_found_tools(conversation: Conversation, item: Fields, path: str) -> None:
    """Add what a search of the caller's found. The model is told of those tools as of all others."""
    found = fields.read_array(item, "tools", path)
    conversation.found_tools += numbered(found, f"{path}.tools")
    names = [tool.get("name") for tool in found if isinstance(tool, dict)]
    _add_text_result(conversation, item, path, compact_json.dumps_text({"found": names}))


def _add_text_result(conversation: Conversation, item: Fields, path: str, text: str) -> None:
    call_id = item.get("call_id") or item.get("id")  # OpenAI's reference has the id of a local shell's call as id
    message = {"role": "tool", "tool_call_id": fields.check_string(call_id, f"{path}.call_id"), "content": text}
    conversation.add_result(message, Place(path, f"{path}.output"), [])


def _add_call(conversation: Conversation, item: Fields, path: str, call: Fields) -> None:
    _check_caller(item, path)
    message, place = conversation.turn(path, is_call=True)
    message["content"] = message["content"] or None
    message.setdefault("tool_calls", []).append({"id": item.get("call_id"), **call})
    place.calls.append(path)


def _add_result(conversation: Conversation, item: Fields, path: str) -> None:
    _check_caller(item, path)
    call_id = fields.require_string(item, "call_id", path)
    output = fields.read_required(item, "output", path)
    parts, paths = _parts(output, f"{path}.output", _PARTS["user"])
    texts = [(part, at) for part, at in zip(parts, paths, strict=True) if part["type"] == "text"]
    shown = [(part, at) for part, at in zip(parts, paths, strict=True) if part["type"] != "text"]
    label = {"type": "text", "text": f"Shown by the result of {call_id}:"}
    message = {"role": "tool", "tool_call_id": call_id, "content": _content(output, [part for part, _ in texts])}
    place = Place(path, f"{path}.output", [at for _, at in texts])
    conversation.add_result(message, place, [(label, path), *shown] if shown else [])


def _add_reasoning(conversation: Conversation, item: Fields, path: str) -> None:
    """Add the reasoning of an earlier turn: its visible text, and what is encrypted.

    That is either seals of the gateway, or a secret of another maker, which no provider is sent.
    """
    texts = _reasoning_texts(item, "summary", "summary_text", path) + _reasoning_texts(item, "content", "reasoning_text", path)
    encrypted = fields.read_string(item, "encrypted_content", path)
    if not (any(texts) or encrypted):
        return
    message, _ = conversation.turn(path)
    if any(texts):
        message["reasoning_content"] = "\n".join(filter(None, (message.get("reasoning_content"), *texts)))
    if encrypted and all(map(sealed_reasoning.is_sealed, encrypted.split(" "))):
        details = [{"type": "reasoning.encrypted", "data": sealed} for sealed in encrypted.split(" ")]
        message["reasoning_details"] = [*message.get("reasoning_details", []), *details]
    elif encrypted:
        message["encrypted_content"] = encrypted


def _reasoning_texts(item: Fields, name: str, kind: str, path: str) -> list[str]:
    texts = []
    for at, part in numbered(fields.read_array(item, name, path), f"{path}.{name}"):
        fields.check_kind(part, at, (kind,))
        fields.check_members(part, {"type", "text"}, at)
        texts.append(fields.require_string(part, "text", at))
    return texts


def _check_caller(item: Fields, path: str) -> None:
    if item.get("caller") not in (None, _DIRECT):
        refuse(f"{path}.caller", "must be direct")


def _add_search(conversation: Conversation, item: Fields, path: str) -> None:
    """Note a search of an earlier reply. Its findings stay at OpenAI, and the text that came of it is in the conversation."""
    fields.read_object(item, "action", path)
    conversation.has_searches = True


def _add_compaction(conversation: Conversation, item: Fields, path: str) -> None:
    """Add the summary of what was compacted. An item that cannot be opened is refused: the model would know nothing of it."""
    at = f"{path}.encrypted_content"
    conversation.compactions += 1
    if conversation.compactions > compaction.ITEMS_MAX:
        refuse(path, f"is one too many: an input may have {compaction.ITEMS_MAX} items of the type compaction")
    sealed = fields.check_string(fields.read_required(item, "encrypted_content", path), at)
    if (summary := compaction.open_summary(conversation.account_id, sealed)) is None:
        refuse(at, "cannot be opened: it was made for another account or by another service. Send the conversation instead")
    conversation.add({"role": "user", "content": summary}, Place(path, at))


def _add_compaction_trigger(conversation: Conversation, item: Fields, path: str) -> None:
    conversation.add({"role": "user", "content": compaction.PROMPT}, Place(path, path))
    conversation.compacts_at = path


_Add = Callable[[Conversation, Fields, str], None]
_CALLER_CALLS = {tool.call_type: (name, tool) for name, tool in tools.CALLER_TOOLS.items()}
_OF_CALLER_CALLS = _LABELS | {"call_id", "caller", "environment", "created_by"}
_OF_CALLER_RESULTS = _LABELS | {"call_id", "output", "caller", "max_output_length", "created_by"}
# The type of an item -> what adds it, and its members.
_KINDS: dict[str, tuple[_Add, Set[str]]] = {
    "message": (_add_message, _LABELS | {"role", "content", "phase"}),
    "function_call": (_add_named_call, _LABELS | {"call_id", "name", "namespace", "arguments", "caller"}),
    "function_call_output": (_add_result, _LABELS | {"call_id", "output", "caller"}),
    "custom_tool_call": (_add_named_call, _LABELS | {"call_id", "name", "namespace", "input", "caller"}),
    "custom_tool_call_output": (_add_result, _LABELS | {"call_id", "output", "caller"}),
    "reasoning": (_add_reasoning, _LABELS | {"summary", "content", "encrypted_content"}),
    "web_search_call": (_add_search, _LABELS | {"action"}),
    compaction.ITEM: (_add_compaction, _LABELS | {"encrypted_content", "created_by"}),
    compaction.TRIGGER: (_add_compaction_trigger, {"id", "type"}),
    **{kind: (_add_caller_call, _OF_CALLER_CALLS | {tool.member, *tool.others}) for kind, (_, tool) in _CALLER_CALLS.items()},
    **{f"{name}_call_output": (_add_caller_result, _OF_CALLER_RESULTS) for name in ("local_shell", "shell", "apply_patch")},
    "computer_call_output": (_add_screenshot, _LABELS | {"call_id", "output", "acknowledged_safety_checks", "created_by"}),
    "tool_search_output": (_add_found_tools, _LABELS | {"call_id", "execution", "tools", "created_by"}),
}
ITEM_TYPES = tuple(_KINDS)


# --- Parts ------------------------------------------------------------------------------------------------------------


def _parts(content: Any, path: str, kinds: "dict[str, _Part]") -> tuple[list[Fields], list[str]]:
    if isinstance(content, str):
        return _as_parts(content), [path] if content else []
    if not isinstance(content, list):
        refuse(path, "must be a string or an array of parts")
    parts = [kinds[fields.check_kind(part, at, kinds)](part, at) for at, part in numbered(content, path)]
    return parts, [at for at, _ in numbered(content, path)]


def _content(given: Any, parts: list[Fields]) -> Any:
    """Return a content of chat: a single text as a string, because not every server takes arrays everywhere."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts or ("" if isinstance(given, str) or given else [])


def _as_parts(content: Any) -> list[Fields]:
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []


def _text(part: Fields, path: str) -> Fields:
    fields.check_members(part, {"type", "text"}, path)
    return {"type": "text", "text": fields.require_string(part, "text", path)}


def _output_text(part: Fields, path: str) -> Fields:
    fields.check_members(part, {"type", "text", "annotations", "logprobs"}, path)
    for at, annotation in numbered(fields.read_array(part, "annotations", path), f"{path}.annotations"):
        fields.check_kind(annotation, at, ("url_citation",))
    return {"type": "text", "text": fields.require_string(part, "text", path)}


def _as_it_is(part: Fields, path: str) -> Fields:
    kind = part["type"]
    fields.check_members(part, {"type", kind}, path)
    return {"type": kind, kind: part.get(kind)}


def _image(part: Fields, path: str) -> Fields:
    fields.check_members(part, {"type", "image_url", "detail", "file_id"}, path)
    if part.get("file_id") is not None:
        refuse(f"{path}.file_id", "is not supported: files are not kept here; send the image itself as image_url")
    detail = {} if part.get("detail") is None else {"detail": part["detail"]}
    return {"type": "image_url", "image_url": {"url": part.get("image_url"), **detail}}


def _file(part: Fields, path: str) -> Fields:
    fields.check_members(part, {"type", "file_data", "file_id", "file_url", "filename", "detail"}, path)
    if part.get("detail") not in (None, "auto"):
        refuse(f"{path}.detail", "must be auto")
    members = ("file_data", "file_id", "file_url", "filename")
    return {"type": "file", "file": {name: part[name] for name in members if part.get(name) is not None}}


_Part = Callable[[Fields, str], Fields]
_TEXT: dict[str, _Part] = {"input_text": _text}
_PARTS: dict[str, dict[str, _Part]] = {
    "user": {**_TEXT, "input_image": _image, "input_file": _file, "input_audio": _as_it_is},
    "system": _TEXT,
    "developer": _TEXT,
    "assistant": {"output_text": _output_text, "refusal": _as_it_is},
}
