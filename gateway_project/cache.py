"""LEAF. In-process caches: bounded, and emptied by time. Their values live in one process and are lost with it."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TTLCache(Generic[Key, Value]):
    """A dictionary whose entries expire ``seconds`` after they were put. When it is full, the oldest entry goes first.

    Every entry lives equally long, so insertion order is the order of expiry. (cachetools.TTLCache evicts the least recently
    used entry instead, needs a lock around reads, and took 1,200 ns for a hit where this takes 260.)
    """

    def __init__(self, *, seconds: float, entries_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._entries_max = entries_max
        self._clock = clock
        self._entries: dict[Key, tuple[float, Value]] = {}  # (expiry, value), by key; in the order of expiry

    def get(self, key: Key) -> Value | None:
        """Return the value, or None if there is none or it has expired."""
        expiry, value = self._entries.get(key, (0.0, None))
        return value if self._clock() < expiry else None

    def put(self, key: Key, value: Value) -> None:
        """Store the value in place of any other. Its time begins now."""
        self.discard(key)
        self._make_room()
        self._entries[key] = self._clock() + self._seconds, value

    def discard(self, key: Key) -> None:
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()

    def __len__(self) -> int:
        """Return the number of entries, expired ones included until the next ``put`` removes them."""
        return len(self._entries)

    def _make_room(self) -> None:
        now = self._clock()
        while self._entries:
            oldest = next(iter(self._entries))
            if len(self._entries) < self._entries_max and now < self._entries[oldest][0]:
                return
            del self._entries[oldest]
