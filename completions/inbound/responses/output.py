"""Items of the output from OpenAI's choices: of a whole reply, and one after another as a stream's events. Pure."""

import io
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import msgspec

from completions.inbound.events import as_json, read_arguments
from completions.inbound.responses import tools
from completions.inbound.responses.tools import Called, CallerTool
from completions.providers import sealed_reasoning
from completions.request.fields import Fields

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
# The member of a choice that has text of the model -> the kind of its item.
_TEXT_KINDS = {"reasoning_content": "reasoning", "content": "output_text", "refusal": "refusal"}
SealText = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How an item of one kind is written. ``text`` names its text in the item, or in its one part of the type ``part_type``.

    ``part`` begins the names of the events of the part, and ``index`` names its number in them.
    """

    item_type: str
    id_prefix: str
    events: str
    text: str
    part_type: str = ""
    part: str = ""
    index: str = ""


_KINDS = {
    "reasoning": _Kind(
        "reasoning", "rs", "reasoning_summary_text", "text", "summary_text", "reasoning_summary_part", "summary_index"
    ),
    "output_text": _Kind("message", "msg", "output_text", "text", "output_text", "content_part", "content_index"),
    "refusal": _Kind("message", "msg", "refusal", "refusal", "refusal", "content_part", "content_index"),
    "function": _Kind("function_call", "fc", "function_call_arguments", "arguments"),
    "custom": _Kind("custom_tool_call", "ctc", "custom_tool_call_input", "input"),
    "search": _Kind("web_search_call", "ws", "", "action"),
}


@dataclass(slots=True)
class _Item:
    """An item, as far as the model has said it. ``key`` is "text" or the index of a call."""

    kind: _Kind
    id: str
    index: int
    key: str | int
    call: Fields = field(default_factory=dict)  # the id and the name of a call
    received: io.StringIO = field(default_factory=io.StringIO)  # the text or the arguments, so far
    logprobs: list[msgspec.Raw] = field(default_factory=list)  # as JSON, which takes less memory
    annotations: list[Fields] = field(default_factory=list)
    is_done: bool = False

    def is_whole(self) -> bool:
        """Return whether the item is complete, once another one has begun. A call may continue, beside others."""
        is_object = self.kind.text == "arguments" and read_arguments(self.received.getvalue()) is not None
        return isinstance(self.key, str) or is_object

    def opening(self) -> list[Fields]:
        return [self._item_event("added", self.written("in_progress", "")), *self._part_event("added", "")]

    def delta(self, piece: str, logprobs: list[Any]) -> list[Fields]:
        self.received.write(piece)
        self.logprobs += [msgspec.Raw(as_json(each)) for each in logprobs]
        return [{**self._event("delta"), "delta": piece, **self._probabilities(logprobs)}]

    def annotate(self, annotation: Fields) -> Fields:
        """Add what the text cites. Return the event of it."""
        self.annotations.append(annotation)
        return {**self._event("annotation.added"), "annotation_index": len(self.annotations) - 1, "annotation": annotation}

    def closing(self, status: str) -> list[Fields]:
        """Return the last events. If no arguments came, the function has no parameters, and they are ``{}``."""
        text = self._text()
        late = [{**self._event("delta"), "delta": text}] if text and not self._has_deltas() else []
        name = {"name": self.call["name"]} if self.kind.text == "arguments" else {}
        done = {**self._event("done"), **name, self.kind.text: text, **self._probabilities(self.logprobs)}
        return [*late, done, *self._part_event("done", text), self._item_event("done", self.written(status))]

    def written(self, status: str, text: str | None = None) -> Fields:
        text = self._text() if text is None else text
        item: Fields = {"id": self.id, "type": self.kind.item_type}
        if not self.kind.part_type:
            return {**item, "status": status, **self.call, self.kind.text: text}
        parts = [] if status == "in_progress" else [self._part(text)]
        return {**item, "status": status, "role": "assistant", "content": parts}

    def kept(self, status: str) -> Fields:
        """Return the item as it is stored."""
        return self.written(status)

    def _has_deltas(self) -> bool:
        """Return whether earlier events had the text, in pieces."""
        return bool(self.received.getvalue())

    def _text(self) -> str:
        text = self.received.getvalue()
        return _without_halves(text) if text or self.kind.text != "arguments" else "{}"

    def _part(self, text: str) -> Fields:
        is_text = self.kind.part_type == "output_text"
        others = {"annotations": list(self.annotations), "logprobs": self.logprobs} if is_text else {}
        return {"type": self.kind.part_type, self.kind.text: text, **others}

    def _item_event(self, what: str, item: Fields) -> Fields:
        return {"type": f"response.output_item.{what}", "output_index": self.index, "item": item}

    def _part_event(self, what: str, text: str) -> list[Fields]:
        if not self.kind.part_type:
            return []
        place = {"item_id": self.id, "output_index": self.index, self.kind.index: 0}
        part = self._part(text) if what == "done" else {**self._part(text), **self._probabilities([])}
        return [{"type": f"response.{self.kind.part}.{what}", **place, "part": part}]

    def _event(self, what: str) -> Fields:
        place: Fields = {"item_id": self.id, "output_index": self.index}
        number = {self.kind.index: 0} if self.kind.index else {}
        return {"type": f"response.{self.kind.events}.{what}", **place, **number}

    def _probabilities(self, logprobs: list[Any]) -> Fields:
        return {"logprobs": logprobs} if self.kind.part_type == "output_text" else {}


@dataclass(slots=True)
class _ReasoningItem(_Item):
    """The reasoning of the model. ``sealed`` has what its provider needs back. An item may have only that, and no text."""

    sealed: list[str] = field(default_factory=list)
    seal_text: SealText | None = None  # where the caller wants it encrypted, or it is stored
    shows_sealed: bool = True  # to the caller

    def opening(self) -> list[Fields]:
        return [self._item_event("added", self.written("in_progress"))]

    def delta(self, piece: str, logprobs: list[Any]) -> list[Fields]:
        begun = [] if self._has_deltas() else self._part_event("added", "")
        return [*begun, *_Item.delta(self, piece, logprobs)]

    def closing(self, status: str) -> list[Fields]:
        return _Item.closing(self, status) if self._has_deltas() else _Item.closing(self, status)[-1:]

    def written(self, status: str, text: str | None = None) -> Fields:
        item: Fields = {"id": self.id, "type": self.kind.item_type}
        if status == "in_progress":
            return {**item, "summary": []}
        summary = [self._part(self._text())] if self._has_deltas() else []
        return {**item, "summary": summary, **(self._encrypted() if self.shows_sealed else {})}

    def kept(self, status: str) -> Fields:
        return {**self.written(status), **self._encrypted()}

    def _encrypted(self) -> Fields:
        """Return the encrypted content. If the provider sent no seal, it is the sealed text."""
        if self.seal_text is None:
            return {}
        if not self.sealed and (sealed := self.seal_text(self._text())):
            self.sealed.append(sealed)
        return {"encrypted_content": " ".join(self.sealed) or None}


class _QuietItem(_Item):
    """An item without events of its text."""

    def opening(self) -> list[Fields]:
        return [self._item_event("added", self.written("in_progress"))]

    def closing(self, status: str) -> list[Fields]:
        return [self._item_event("done", self.written(status))]


class _WrappedItem(_Item):
    """A call of a custom tool, which the model made as a function with one argument. Its input is sent once it is complete."""

    def is_whole(self) -> bool:
        return read_arguments(self.received.getvalue()) is not None

    def delta(self, piece: str, logprobs: list[Any]) -> list[Fields]:
        self.received.write(piece)
        return []

    def _has_deltas(self) -> bool:
        return False

    def _text(self) -> str:
        return _without_halves(tools.custom_input(self.received.getvalue()))


class _SearchItem(_QuietItem):
    """A search of the web, which the provider made."""

    def closing(self, status: str) -> list[Fields]:
        return _QuietItem.closing(self, "completed")

    def written(self, status: str, text: str | None = None) -> Fields:
        return {"id": self.id, "type": self.kind.item_type, "status": status, **self.call}


class _CallerItem(_QuietItem, _WrappedItem):
    """A call of a tool of OpenAI's own that the model made as a function. It has no events of its arguments."""

    def written(self, status: str, text: str | None = None) -> Fields:
        tool: CallerTool = tools.CALLER_TOOLS[self.call["name"]]
        item = {"id": self.id, "type": tool.call_type, "status": status, "call_id": self.call["call_id"]}
        return {**item, **tool.written(_without_halves(self.received.getvalue()))}


@dataclass(slots=True)
class Output:
    """Turns the deltas of one choice into events, and keeps the items.

    An item ends when the next begins, except a call whose arguments are not complete yet. ``name`` makes the ids of items
    unique. ``called`` has the tools by their names in the chat request. With ``seal_text``, items of reasoning have
    ``encrypted_content``, and with ``shows_sealed`` the caller gets it. With ``searches``, web searches and citations are read.
    """

    name: str
    called: Mapping[str, Called]
    seal_text: SealText | None = None
    _: KW_ONLY
    shows_sealed: bool = True
    searches: bool = False
    incomplete_reason: str | None = field(default=None, init=False)
    _items: list[_Item] = field(default_factory=list, init=False)

    def read(self, choice: Fields) -> list[Fields]:
        """Return the events of a delta."""
        delta, events = choice.get("delta") or {}, list[Fields]()
        logprobs = _logprobs(choice.get("logprobs"))
        for search in (self.searches and delta.get("web_searches")) or []:
            events += self._begin(_KINDS["search"], "search", search, _SearchItem)
        for member, kind in _TEXT_KINDS.items():
            if text := delta.get(member):
                events += self._say(_KINDS[kind], text, logprobs if kind == "output_text" else [])
            if kind == "reasoning" and self.seal_text and "reasoning_details" in delta:
                events += self._keep(sealed_reasoning.seals(delta))
        for annotation in (self.searches and delta.get("annotations")) or []:
            events += self._annotate(annotation)
        for call in delta.get("tool_calls") or []:
            events += self._read_call(call)
        if reason := choice.get("finish_reason"):
            self.incomplete_reason = _INCOMPLETE.get(str(reason))
        return events

    def read_whole(self, choice: Fields) -> None:
        message = choice["message"]
        calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls") or [])]
        self.read({**choice, "delta": {**message, "tool_calls": calls}})

    def end(self) -> list[Fields]:
        """Return the end of the items that are open. Changes nothing."""
        return [event for item in self._items if not item.is_done for event in item.closing(self._status(item))]

    def items(self, *, is_cut: bool = False) -> list[Fields]:
        """Return all items. ``is_cut``: the reply broke off."""
        return [item.written(self._status(item, is_cut=is_cut)) for item in self._items]

    def kept_items(self) -> list[Fields]:
        """Return all items as they are stored: reasoning has its encrypted content, even if the caller does not get it."""
        return [item.kept(self._status(item)) for item in self._items]

    def _status(self, item: _Item, *, is_cut: bool = False) -> str:
        is_open = not item.is_done and not (isinstance(item.key, int) and item.is_whole())
        return "incomplete" if is_open and (is_cut or self.incomplete_reason) else "completed"

    def _say(self, kind: _Kind, text: str, logprobs: list[Any]) -> list[Fields]:
        item = self._items[-1] if self._items and self._items[-1].kind is kind else None
        begun = [] if item else self._begin(kind, "text", {}, _ReasoningItem if kind.item_type == "reasoning" else _Item)
        return [*begun, *self._items[-1].delta(text, logprobs)]

    def _annotate(self, annotation: Fields) -> list[Fields]:
        """Add what the latest text cites."""
        is_text = bool(self._items) and self._items[-1].kind is _KINDS["output_text"]
        return [self._items[-1].annotate(annotation)] if is_text else []

    def _keep(self, sealed: list[str]) -> list[Fields]:
        """Keep the seals of reasoning: in the item of that reasoning, or in an item of their own."""
        if not sealed:
            return []
        is_begun = bool(self._items) and isinstance(self._items[-1], _ReasoningItem)
        events = [] if is_begun else self._begin(_KINDS["reasoning"], "text", {}, _ReasoningItem)
        item = self._items[-1]
        assert isinstance(item, _ReasoningItem)
        item.sealed += sealed
        return events

    def _read_call(self, call: Fields) -> list[Fields]:
        """Read a delta of a call. Only the first of a call has its id; arguments that were complete get nothing added."""
        is_custom = bool(call.get("custom")) or call.get("type") == "custom"
        called, key = call.get("function") or call.get("custom") or {}, call.get("index", 0)
        item = next((item for item in self._items if item.key == key), None)
        if item is None and not call.get("id"):
            return []
        events = [] if item else self._begin_call(key, call.get("id"), called.get("name"), is_custom=is_custom)
        if item and called.get("name"):
            item.call["name"] += called["name"]
        item = item or self._items[-1]
        piece = called.get("input" if is_custom else "arguments")
        return [*events, *item.delta(piece, [])] if piece and not item.is_done else events

    def _begin_call(self, key: str | int, call_id: Any, name: Any, *, is_custom: bool) -> list[Fields]:
        called = tools.find(self.called, name)
        kind = _KINDS["custom" if is_custom or called.type == "custom" else "function"]
        if called.caller_tool:
            item_class: type[_Item] = _CallerItem
        else:
            item_class = _WrappedItem if called.type == "custom" and not is_custom else _Item
        return self._begin(kind, key, {"call_id": call_id, **called.labels}, item_class)

    def _begin(self, kind: _Kind, key: str | int, call: Fields, item_class: type[_Item] = _Item) -> list[Fields]:
        """End the items that are whole, and open another."""
        events = list[Fields]()
        for item in self._items:
            if not item.is_done and item.is_whole():
                events += item.closing("completed")
                item.is_done = True
        index = len(self._items)
        self._items.append(item := item_class(kind, f"{kind.id_prefix}_{self.name}{index}", index, key, call))
        if isinstance(item, _ReasoningItem):
            item.seal_text, item.shows_sealed = self.seal_text, self.shows_sealed
        return events + item.opening()


def _logprobs(given: Any) -> list[Any]:
    content = given.get("content") if isinstance(given, dict) else None
    return content if isinstance(content, list) else []


def _without_halves(text: str) -> str:
    """Return the text with both halves of each surrogate pair joined, and a question mark for a half that is alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
