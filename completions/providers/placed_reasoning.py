"""Seals a model's reasoning with its place in the reply, and puts it back there: some providers take it in no other. Pure.

A place is the number of characters, and of calls of tools, that come before.
"""

from collections.abc import Callable

from completions.providers.sealed_reasoning import Seal
from completions.request.fields import Fields


class PlacedReasoning:
    """Seals the pieces of reasoning of one reply, one after another."""

    def __init__(self, seal: Seal | None) -> None:
        self.index = 0  # of the piece, among its kind
        self._seal = seal
        self._at = (0, 0)

    def begin(self, at: tuple[int, int]) -> None:
        self._at = at

    def _sealed(self, given: Fields) -> str:
        return self._seal({**given, "at": self._at}) if self._seal else ""


def place(
    said: list[Fields],
    reasoning: list[Fields],
    member: str,
    text_of: Callable[[Fields], str | None],
    with_text: Callable[[Fields, str, bool], Fields],
) -> list[Fields]:
    """Return the pieces of a reply with its reasoning in between. What nothing follows is left out: providers refuse it.

    ``member`` has the reasoning, beside its place. ``text_of`` returns None for a call. ``with_text`` returns a part of a text,
    and is told whether it is the last one.
    """
    placed, left, characters, calls = list[Fields](), list(reasoning), 0, 0
    for piece in said:
        text, start = text_of(piece), characters
        if text is None:
            while left and left[0]["at"][1] <= calls:
                placed.append(left.pop(0)[member])
            calls += 1
            placed.append(piece)
            continue
        characters += len(text)
        while left and left[0]["at"][1] <= calls and (at := max(left[0]["at"][0], start)) < characters:
            placed += [with_text(piece, text[: at - start], False)] if at > start else []
            text, start = text[at - start :], at
            placed.append(left.pop(0)[member])
        placed.append(with_text(piece, text, True))
    return placed
