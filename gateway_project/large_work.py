"""Work of many milliseconds for one large request, in slices, so that the process serves the others in between.

All requests of a process share one event loop: who computes holds up everybody. So one large request computes at a time, and it
pauses for twice as long as it computed. Large requests get a third of the process's time at most, however many there are.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import repeat
from typing import Any, TypeVar

LARGE_BYTES = 65_536
_PAUSE_SECONDS_MAX = 0.1
_SLICE_SECONDS = 0.002
_BREATH_SECONDS = 0.001

Item = TypeVar("Item")

_lock = threading.Lock()


def turn(size_bytes: int) -> AbstractContextManager[Callable[[], None]]:
    """Wait until no other large request computes, if this one is. The work calls the value, ``pause``, between its slices."""
    return _Turn() if size_bytes > LARGE_BYTES else _NO_TURN


def sliced(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items, with short pauses: for work of seconds on many of them that cannot keep large requests from their turns."""
    began = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - began > _SLICE_SECONDS:
            time.sleep(_BREATH_SECONDS)
            began = time.monotonic()


class _NoTurn(AbstractContextManager[Callable[[], None]]):
    """The turn of work that waits for none. Small requests are many, so functions of C begin and end it."""

    __enter__: Any = staticmethod(repeat(lambda: None).__next__)
    __exit__: Any = staticmethod("".format)  # takes whatever it is given, and returns nothing that would end an exception


_NO_TURN = _NoTurn()


class _Turn(AbstractContextManager[Callable[[], None]]):
    """A turn of one large request. Its pauses, and the time after it, are twice as long as the work before them."""

    def __enter__(self) -> Callable[[], None]:
        _lock.acquire()
        self._began = time.monotonic()
        return self._pause

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._pause()
        finally:
            _lock.release()

    def _pause(self) -> None:
        time.sleep(min(2 * (time.monotonic() - self._began), _PAUSE_SECONDS_MAX))
        self._began = time.monotonic()
