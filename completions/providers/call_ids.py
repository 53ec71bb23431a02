"""Ties the results of tools to their calls, by the ids that the caller gave them, and makes ids that a provider takes. Pure.

Some clients count ids anew in each reply, and some send results in the order in which the tools ended. So a result answers the
latest call of its id that has no result yet. Providers want the results right after the reply that called, and where models are
shown no ids (Gemini before 3, most templates of open models) they read them in the order of the calls.
"""

import base64
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

from completions.request.fields import Fields

Slot = TypeVar("Slot")
Fit = Callable[[str, int], str]  # makes an id acceptable; each attempt at one id makes another
_INVALID_AT_ANTHROPIC = re.compile(r"[^a-zA-Z0-9_-]")
_OF_MISTRAL = re.compile(r"[A-Za-z0-9]{9}")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which ids of calls a provider takes. ``spans_turns``: no two of a conversation may be alike; else no two of a reply."""

    fit: Fit
    spans_turns: bool = True


@dataclass(slots=True)
class Turn:
    """A reply of one or more messages and the results of its calls, or another message. ``calls`` and messages have paths."""

    messages: list[tuple[str, Fields]]
    calls: list[tuple[str, Fields]] = field(default_factory=list)
    results: dict[int, tuple[str, Fields]] = field(default_factory=dict)  # by the index of the call
    ids: list[str] = field(default_factory=list)  # of the calls, as the provider takes them

    @property
    def ordered_results(self) -> Iterator[tuple[int, str, Fields]]:
        """Return the results in the order of the calls, each with the index of its call."""
        return ((index, *self.results[index]) for index in sorted(self.results))


class OpenCalls(Generic[Slot]):
    """The calls of a conversation, as it is read. A slot is whatever stands for a call until its result comes."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._taken: set[str] = set()
        self._turn = 0
        self._open: dict[str, list[tuple[int, Slot]]] = {}

    def begin_turn(self) -> None:
        self._turn += 1
        if not self._rule.spans_turns:
            self._taken.clear()

    def make_id(self, call_id: str) -> str:
        """Return an id for a call, which no other call has."""
        made = next(made for attempt in count() if (made := self._rule.fit(call_id, attempt)) not in self._taken)
        self._taken.add(made)
        return made

    def add(self, call_id: str, slot: Slot) -> None:
        self._open.setdefault(call_id, []).append((self._turn, slot))

    def answer(self, call_id: str) -> Slot | None:
        """Return the slot of the call that a result answers: of the latest turn that has any, the first."""
        if not (found := self._open.get(call_id)):
            return None
        index = next(index for index, (turn, _) in enumerate(found) if turn == found[-1][0])
        return found.pop(index)[1]


def tie(messages: Iterable[tuple[str, Fields]], rule: Rule) -> list[Turn]:
    """Return the messages with each result, once, at the reply that called. One whose call is not there stays where it is."""
    turns: list[Turn] = []
    calls = OpenCalls[tuple[Turn, int]](rule)
    answers: dict[str, Any] = {}  # the last content of a result by its id
    before = ""
    for path, message in messages:
        role = message["role"]
        if role == "tool":
            call_id, said = message["tool_call_id"], message.get("content")
            slot = calls.answer(call_id)
            if slot:
                slot[0].results[slot[1]] = (path, message)
            elif call_id not in answers or answers[call_id] != said:
                turns.append(Turn([(path, message)]))
            answers[call_id] = said
        elif role == "assistant" == before:
            turns[-1].messages.append((path, message))
        else:
            turns.append(Turn([(path, message)]))
            calls.begin_turn()
        if role == "assistant":
            turn = turns[-1]
            for index, call in enumerate(message.get("tool_calls") or ()):
                calls.add(call["id"], (turn, len(turn.calls)))
                turn.ids.append(calls.make_id(call["id"]))
                turn.calls.append((f"{path}.tool_calls[{index}]", call))
        before = role
    return turns


def renamed(messages: Iterable[tuple[str, Fields]], rule: Rule) -> Iterator[tuple[str, Fields, bool]]:
    """Yield the messages as ``tie`` arranges them, with ids that the provider takes, and which are results without a call."""
    for turn in tie(messages, rule):
        ids = iter(turn.ids)
        for path, message in turn.messages:
            is_lost = message["role"] == "tool"
            if message.get("tool_calls"):
                message = {**message, "tool_calls": [{**call, "id": next(ids)} for call in message["tool_calls"]]}
            elif is_lost:
                message = {**message, "tool_call_id": rule.fit(message["tool_call_id"], 0)}
            yield path, message, is_lost
        for index, path, message in turn.ordered_results:
            yield path, {**message, "tool_call_id": turn.ids[index]}, False


def _digest(call_id: str, attempt: int) -> bytes:
    told_apart = f"{attempt}:{call_id}" if attempt else call_id
    return hashlib.sha256(told_apart.encode(errors="replace")).digest()


def _of_characters_max(characters_max: float) -> Fit:
    def fit(call_id: str, attempt: int) -> str:
        is_kept = 0 < len(call_id) <= characters_max and not attempt
        return call_id if is_kept else f"call_{_digest(call_id, attempt).hex()[:32]}"

    return fit


def _for_anthropic(call_id: str, attempt: int) -> str:
    valid = _INVALID_AT_ANTHROPIC.sub("_", call_id)
    return valid if valid and not attempt else f"{valid or 'call'}_{_digest(call_id, attempt).hex()[:8]}"


def _for_mistral(call_id: str, attempt: int) -> str:
    is_kept = not attempt and _OF_MISTRAL.fullmatch(call_id)
    return call_id if is_kept else base64.b32encode(_digest(call_id, attempt)).decode()[:9]


# 400, "String should match pattern '^[a-zA-Z0-9_-]+$'" and "`tool_use` ids must be unique", also for "" and across turns
# (github.com/anomalyco/opencode/issues/1279, github.com/NVIDIA-NeMo/Switchyard/issues/502).
ANTHROPIC = Rule(_for_anthropic)
# 400 for more than 40 characters in chat completions (github.com/agno-agi/agno/issues/5382), and for more than 64 in Responses.
OPENAI = Rule(_of_characters_max(40))
OPENAI_RESPONSES = Rule(_of_characters_max(64))
# "must be a-z, A-Z, 0-9, with a length of 9" (github.com/anomalyco/opencode/issues/1680).
MISTRAL = Rule(_for_mistral)
# Any id; some templates read the number in it (Kimi's functions.name:0), so that it stays if it can.
ANY = Rule(_of_characters_max(math.inf), spans_turns=False)
