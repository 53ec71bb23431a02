"""Lets a key start only a few requests at a time while other keys start theirs, so that a busy key does not delay the others.

All requests of a process share one event loop, which serves them in the order of their arrival. Without this, one request of a
key waits behind a hundred of another. A start is what a request computes before its upstream is asked: its checks and its
admission. A key that is alone starts as many as it likes, because larger batches of admissions are cheaper.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gevent.event import Event

_ALONE_AFTER_SECONDS = 1.0


class FairQueue:
    """The starts of this process, by key. ``clock`` returns seconds; tests pass their own."""

    def __init__(self, *, starts_max: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        self._starts_max = starts_max
        self._clock = clock
        self._starting: dict[str, int] = {}
        self._waiting: dict[str, deque[Event]] = {}
        self._latest_key = ""
        self._latest_at = self._contended_at = -_ALONE_AFTER_SECONDS

    @contextmanager
    def start(self, key_id: str) -> Iterator[None]:
        """Wait until the key may start one more request; the block is the start."""
        self._enter(key_id)
        try:
            yield
        finally:
            self._leave(key_id)

    def _enter(self, key_id: str) -> None:
        starting = self._starting.get(key_id, 0)
        if self._is_contended(key_id) and starting >= self._starts_max:
            self._wait(key_id)
        else:
            self._starting[key_id] = starting + 1

    def _is_contended(self, key_id: str) -> bool:
        """Return whether another key started a request within a second before, or between two of this key's."""
        now = self._clock()
        if key_id != self._latest_key:
            if now - self._latest_at < _ALONE_AFTER_SECONDS:
                self._contended_at = now
            self._latest_key = key_id
        self._latest_at = now
        return now - self._contended_at < _ALONE_AFTER_SECONDS

    def _wait(self, key_id: str) -> None:
        turn = Event()
        queue = self._waiting.setdefault(key_id, deque())
        queue.append(turn)
        try:
            turn.wait()
        except BaseException:
            if turn.is_set():
                self._leave(key_id)  # the start was handed over, and nobody uses it
            else:
                queue.remove(turn)
            raise

    def _leave(self, key_id: str) -> None:
        """Hand the start over to the request of the key that waits longest, if one does and no more than its starts run.

        More run when they began while the key was alone.
        """
        queue, starting = self._waiting.get(key_id), self._starting[key_id]
        if queue and starting <= self._starts_max:
            queue.popleft().set()
        elif starting > 1:
            self._starting[key_id] = starting - 1
        else:
            del self._starting[key_id]
            self._waiting.pop(key_id, None)


process_queue = FairQueue()
