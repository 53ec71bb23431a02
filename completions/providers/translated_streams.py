"""The common parts of streams in formats other than OpenAI's chat: the role at the beginning, counted text, calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from completions.chat import Chunk
from completions.pricing.usage import Usage
from completions.providers import sealed_reasoning, wire
from completions.providers.reading import EventReader
from completions.providers.reported_usage import Report
from completions.request.fields import Fields


@dataclass(slots=True)
class StreamedCall:
    """A call of a tool of which deltas arrive. ``number`` is its index among them, ``member`` has its input."""

    number: int
    kind: str = "function"
    member: str = "arguments"
    has_input: bool = False

    def delta(self, beginning: Fields, called: Fields) -> Fields:
        return {"tool_calls": [{"index": self.number, **beginning, self.kind: called}]}


class TranslatedStream(EventReader):
    """An EventReader that makes chunks anew. ``form`` says in OpenRouter's words whose reasoning it is."""

    chunk: Callable[..., Chunk] = staticmethod(wire.chunk)
    form = ""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report
        self._has_begun = False
        self._text_bytes = 0  # of all that was generated
        self._characters = 0  # of the text alone
        self._calls: dict[int, StreamedCall] = {}  # by the index of their block or item
        self._ids: set[str] = set()  # of the calls

    def _begin(self) -> list[Chunk]:
        """Return the chunk with the role at the first call, then nothing."""
        if self._has_begun:
            return []
        self._has_begun = True
        return [self.chunk({"role": "assistant", "content": ""})]

    def _generated(self, delta: Fields, text: str, **members: Any) -> list[Chunk]:
        text_bytes = wire.text_bytes(text)
        self._text_bytes += text_bytes
        return [*self._begin(), self.chunk(delta, text_bytes=text_bytes, **members)]

    def _said(self, member: str, text: str, **members: Any) -> list[Chunk]:
        if not text:
            return []
        self._characters += len(text)
        return self._generated({member: text}, text, **members)

    def _reasoned(self, text: str, index: int) -> list[Chunk]:
        return self._generated(sealed_reasoning.text_members(text, self.form, index), text) if text else []

    def _detailed(self, detail: Fields | None) -> list[Chunk]:
        return [*self._begin(), self.chunk({"reasoning_details": [detail]})] if detail else []

    def _begin_call(self, index: int, call: StreamedCall, given_id: Any, name: str) -> list[Chunk]:
        self._calls[index] = call
        beginning = {"id": wire.own_id(given_id, self._ids), "type": call.kind}
        return self._generated(call.delta(beginning, {"name": name, call.member: ""}), name)

    def _called(self, index: int, text: str) -> list[Chunk]:
        call = self._calls.get(index)
        if call is None or not text:
            return []
        call.has_input = True
        return self._generated(call.delta({}, {call.member: text}), text)

    def _usage(self, usage: Usage | None) -> list[Chunk]:
        return [Chunk(b"[]", usage=usage)] if usage else []
