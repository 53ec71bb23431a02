"""Blocks of a message from OpenAI's choices: of a whole reply, and one after another as a stream's events. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from completions.inbound.events import event, read_arguments
from completions.providers import sealed_reasoning
from completions.request.fields import Fields

_STOP_REASONS = {
    **{"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"},
    **dict.fromkeys(("tool_calls", "function_call"), "tool_use"),
}
# The member of a choice that has text of the model -> the type of its block. A refusal is text, and the reason of the end, too.
_TEXT_KINDS = {"reasoning_content": "thinking", "content": "text", "refusal": "text"}
_AS_SENT: Mapping[str, str] = {}
_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def message(choice: Fields, names: Mapping[str, str] = _AS_SENT) -> Fields:
    """Return what a whole choice says, in blocks that are not empty, and why the model stopped."""
    reply = choice["message"]
    blocks = []
    for member, kind in _TEXT_KINDS.items():
        blocks += [_text_block(kind, reply[member])] if reply.get(member) else []
        blocks += [_sealed_block(each) for each in sealed_reasoning.seals(reply)] if kind == "thinking" else []
    blocks += [_tool_use(call, names) for call in reply.get("tool_calls") or []]
    return {"content": blocks, **_stop(choice, is_refused=bool(reply.get("refusal")))}


def _text_block(kind: str, text: str) -> Fields:
    """Return a block of text or thinking. Thinking of another maker's model has no signature."""
    return {"type": kind, kind: text, **({"signature": ""} if kind == "thinking" else {})}


def _sealed_block(sealed: str) -> Fields:
    """Return what the model's provider needs back, as the block that Anthropic's clients send back and do not look into."""
    return {"type": "redacted_thinking", "data": sealed}


def _tool_use(call: Fields, names: Mapping[str, str]) -> Fields:
    """Return a call. If the model wrote no object, its text is the member ``arguments`` of the input."""
    function = call["function"]
    name, arguments = names.get(function["name"], function["name"]), function["arguments"]
    given = read_arguments(arguments or "{}")
    given = {"arguments": arguments} if given is None else given
    return {"type": "tool_use", "id": call["id"], "name": name, "input": given}


def _stop(choice: Fields, *, is_refused: bool) -> Fields:
    """Return why the model stopped. Some servers tell which sequence stopped it."""
    sequence, reason = choice.get("stop_reason"), choice.get("finish_reason")
    if reason == "stop" and isinstance(sequence, str) and sequence:
        return {"stop_reason": "stop_sequence", "stop_sequence": sequence}
    return {"stop_reason": "refusal" if is_refused else _STOP_REASONS.get(str(reason), "end_turn"), "stop_sequence": None}


@dataclass(slots=True)
class _Block:
    """A block that is being streamed, or that waits for the one before it to end. ``pieces`` are not sent yet."""

    start: Fields
    key: str | int  # "text", "thinking", "sealed", or the index of a tool call
    pieces: list[str] = field(default_factory=list)
    arguments: str = ""  # as far as they are sent

    def is_complete(self) -> bool:
        """Return whether the block is complete, once another one has begun. A call may continue, beside others."""
        return isinstance(self.key, str) or read_arguments(self.arguments) is not None

    def opening(self, index: int) -> bytes:
        return event({"type": "content_block_start", "index": index, "content_block": self.start})

    def deltas(self, index: int) -> list[bytes]:
        """Return the events of the pieces that are not sent yet."""
        kind, member = _DELTAS.get(str(self.key), ("input_json_delta", "partial_json"))
        return [
            event({"type": "content_block_delta", "index": index, "delta": {"type": kind, member: piece}})
            for piece in self.pieces
        ]

    def closing(self, index: int) -> list[bytes]:
        """Return the end. Thinking ends with a signature; that of another maker's model is empty."""
        signature = {"type": "content_block_delta", "index": index, "delta": {"type": "signature_delta", "signature": ""}}
        signed = [event(signature)] if self.key == "thinking" else []
        return [*signed, event({"type": "content_block_stop", "index": index})]


class BlockStream:
    """Turns the deltas of one choice into events. Blocks follow one another: one that begins too early waits for its turn."""

    def __init__(self, names: Mapping[str, str] = _AS_SENT) -> None:
        self._names = names
        self.stop: Fields = {"stop_reason": "end_turn", "stop_sequence": None}
        self._blocks: list[_Block] = []  # the first is open; the others wait
        self._index = 0  # of the open block
        self._is_open = False
        self._is_refused = False

    def read(self, choice: Fields) -> list[bytes]:
        """Return the events that can be sent now."""
        delta, events = choice.get("delta") or {}, list[bytes]()
        for member, kind in _TEXT_KINDS.items():
            if text := delta.get(member):
                self._is_refused = self._is_refused or member == "refusal"
                events += self._add(self._latest(kind) or self._begin(kind, _text_block(kind, "")), text)
            if kind == "thinking" and "reasoning_details" in delta:
                for sealed in sealed_reasoning.seals(delta):
                    events += self._add(self._begin("sealed", _sealed_block(sealed)), "")
        for call in delta.get("tool_calls") or []:
            events += self._read_call(call)
        if choice.get("finish_reason"):
            self.stop = _stop(choice, is_refused=self._is_refused)
        return events

    def end(self) -> list[bytes]:
        """Return the end of the open block, and all of those that wait. Changes nothing."""
        events = list[bytes]()
        for index, block in enumerate(self._blocks, self._index):
            if index > self._index:
                events += [block.opening(index), *block.deltas(index)]
            events += block.closing(index)
        return events

    def _read_call(self, call: Fields) -> list[bytes]:
        """Read a delta of a call. Only the first delta of a call has the id. Complete arguments stay as they are."""
        function, key = call.get("function") or {}, call.get("index", 0)
        block = next((block for block in self._blocks if block.key == key), None)
        if block is None and not call.get("id"):
            return []
        name = self._names.get(function.get("name") or "", function.get("name"))
        start: Fields = {"type": "tool_use", "id": call.get("id"), "name": name, "input": {}}
        return self._add(block or self._begin(key, start), function.get("arguments") or "")

    def _latest(self, kind: str) -> _Block | None:
        """Return the latest block, if it is of this kind."""
        return self._blocks[-1] if self._blocks and self._blocks[-1].key == kind else None

    def _begin(self, key: str | int, start: Fields) -> _Block:
        self._blocks.append(block := _Block(start, key))
        return block

    def _add(self, block: _Block, text: str) -> list[bytes]:
        """Add text to a block. Send what the open one has; while it is complete and others wait, end it and open the next."""
        block.pieces += [text] if text else []
        events = self._send()
        while len(self._blocks) > 1 and self._blocks[0].is_complete():
            events += self._blocks.pop(0).closing(self._index)
            self._index += 1
            self._is_open = False
            events += self._send()
        return events

    def _send(self) -> list[bytes]:
        block = self._blocks[0]
        events = ([] if self._is_open else [block.opening(self._index)]) + block.deltas(self._index)
        self._is_open = True
        if not isinstance(block.key, str):
            block.arguments += "".join(block.pieces)
        block.pieces = []
        return events
