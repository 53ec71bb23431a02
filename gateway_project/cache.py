"""LEAF. What a process remembers for a moment: so many things at most, each for so long at most."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Thing = TypeVar("Thing")


class Memory(Generic[Name, Thing]):
    """A dictionary that forgets. Every thing is kept equally long, so the oldest is the first to go, when it is full too."""

    def __init__(self, *, seconds: float, things_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._things_max = things_max
        self._clock = clock
        self._things: dict[Name, tuple[float, Thing]] = {}  # with the moment of its end; in the order of the ends

    def get(self, name: Name) -> Thing | None:
        """What is remembered under ``name``, if it still is."""
        until, thing = self._things.get(name, (0.0, None))
        return thing if self._clock() < until else None

    def put(self, name: Name, thing: Thing) -> None:
        """Remember it from now, instead of what was there."""
        self.forget(name)
        self._make_room()
        self._things[name] = self._clock() + self._seconds, thing

    def forget(self, name: Name) -> None:
        self._things.pop(name, None)

    def clear(self) -> None:
        self._things.clear()

    def __len__(self) -> int:
        return len(self._things)

    def _make_room(self) -> None:
        now = self._clock()
        while self._things:
            oldest = next(iter(self._things))
            if len(self._things) < self._things_max and now < self._things[oldest][0]:
                return
            del self._things[oldest]
