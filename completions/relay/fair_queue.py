"""Shares the process between keys, so that a busy key does not delay the others. A key that is alone waits for nothing.

All requests of a process share one event loop, which serves them in the order of their arrival: a request would wait behind a
hundred of another key, and behind every event of its streams.

Starts: while other keys are active, a key starts only a few requests at a time. A start is what a request computes before its
provider is asked. Alone it starts as many as it likes, because larger batches are cheaper.

Streams: while other keys are active, the streams of a key may take its share of the measured time: one part of as many as there
are busy keys, and one more for all others. Beyond it they wait before they read on (GCRA). Events that arrive meanwhile are
passed on together.
"""

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

import gevent
from gevent.event import Event

_ALONE_AFTER_SECONDS = 1.0
_SHARES_EACH_SECONDS = 1.0  # how often it is counted which keys are busy
_BUSY_SHARE = 0.05  # of the time: a key that takes more is busy
_TURN_SECONDS_MAX = 0.01  # counted for one read: one that took longer has waited for its client
_LOOP_FACTOR = 2  # timers and switches of a read take the event loop for about as long again as what is measured of it
_BURST_SECONDS = 0.02  # that a key may be ahead of its share
_WAIT_SECONDS_MAX = 1.0


class FairQueue:
    """The starts of this process, by key. ``clock`` returns seconds; tests pass their own."""

    def __init__(
        self, *, starts_max: int = 2, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = gevent.sleep
    ) -> None:
        self._starts_max = starts_max
        self._clock = clock
        self._sleep = sleep
        self._spent: dict[str, float] = {}  # seconds, by key, since the shares were counted
        self._ahead: dict[str, float] = {}  # by key: when it has its share again
        self._shares, self._counted_at = 2, -_SHARES_EACH_SECONDS
        self._starting: dict[str, int] = {}
        self._waiting: dict[str, deque[Event]] = {}
        self._latest_key = ""
        self._latest_at = self._contended_at = -_ALONE_AFTER_SECONDS

    def start(self, key_id: str) -> "_Start":
        return _Start(self, key_id)

    def spend(self, key_id: str, seconds: float) -> None:
        """Count the time that a read of one of the key's streams took. Wait if the key is beyond its share."""
        now, seconds = self._clock(), _LOOP_FACTOR * min(seconds, _TURN_SECONDS_MAX)
        self._spent[key_id] = self._spent.get(key_id, 0.0) + seconds
        if now - self._counted_at >= _SHARES_EACH_SECONDS:
            self._count_shares(now)
        if not self._is_contended(key_id):
            self._ahead.pop(key_id, None)
            return
        until = self._ahead[key_id] = max(self._ahead.get(key_id, now), now) + seconds * self._shares
        if until - now > _BURST_SECONDS:
            self._sleep(min(until - now - _BURST_SECONDS, _WAIT_SECONDS_MAX))

    def _count_shares(self, now: float) -> None:
        """Count the keys that were busy since the last time, and forget those that are not beyond their share."""
        busy_seconds = _BUSY_SHARE * min(now - self._counted_at, 10 * _SHARES_EACH_SECONDS)
        self._shares = max(sum(spent > busy_seconds for spent in self._spent.values()) + 1, 2)
        self._spent.clear()
        self._ahead = {key_id: until for key_id, until in self._ahead.items() if until > now}
        self._counted_at = now

    def _enter(self, key_id: str) -> None:
        starting = self._starting.get(key_id, 0)
        if self._is_contended(key_id) and starting >= self._starts_max:
            self._wait(key_id)
        else:
            self._starting[key_id] = starting + 1

    def _is_contended(self, key_id: str) -> bool:
        """Return whether another key was active within a second before, or between two acts of this key."""
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
                self._leave(key_id)  # the start was handed over, and is not used
            else:
                queue.remove(turn)
            raise

    def _leave(self, key_id: str) -> None:
        """Hand the start over to the request of the key that waits longest, unless more run, begun while the key was alone."""
        queue, starting = self._waiting.get(key_id), self._starting[key_id]
        if queue and starting <= self._starts_max:
            queue.popleft().set()
        elif starting > 1:
            self._starting[key_id] = starting - 1
        else:
            del self._starting[key_id]
            self._waiting.pop(key_id, None)


class _Start:
    __slots__ = ("_key_id", "_queue")

    def __init__(self, queue: FairQueue, key_id: str) -> None:
        self._queue, self._key_id = queue, key_id

    def __enter__(self) -> None:
        self._queue._enter(self._key_id)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._queue._leave(self._key_id)


process_queue = FairQueue()
