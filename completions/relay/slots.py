"""Bounds the completions that this process runs at a time, in all and for each key.

The server takes ``WORKER_CONNECTIONS`` connections for each process. Completions keep theirs for as long as their providers
take, so they may have only nine tenths of them: probes and pages always find one free. A key may have no more slots than
requests in flight, so that what it sends beyond is refused before its body is read. Admission decides for all processes.

A slot is taken before the body is read and before any money is held, and given back when the reply has ended, even if that is
long after the client left.
"""

from types import TracebackType

import gevent
from django.conf import settings

from gateway_project import errors
from keys import concurrency, rate_limit_cache

# How long a refusal for the key's maximum is held back. A client that asks again at once would cost the process as much as one
# that is served.
_HELD_BACK_SECONDS = 1


class Slot:
    """One completion's place among those that run, released where its ``with`` block ends."""

    __slots__ = ("_is_taken", "_key_id")

    def __init__(self, key_id: str) -> None:
        self._key_id = key_id
        self._is_taken = True

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._is_taken:
            self._is_taken = False
            process_slots.release(self._key_id)

    def hand_over(self) -> "Slot":
        """Return the slot for another ``with`` block, which is to release it instead."""
        self._is_taken = False
        return Slot(self._key_id)


class ProcessSlots:
    """The slots that are taken, in all and by key."""

    def __init__(self) -> None:
        self.taken = 0
        self._by_key: dict[str, int] = {}

    def take(self, key_id: str, *, is_repeatable: bool) -> Slot:
        """Take a slot. Raises ServiceUnavailable when all are taken, TooManyInFlight when the key has as many as it may.

        ``is_repeatable``: its reply may be stored; then only admission can say whether the request counts.
        """
        if self.taken >= slots_max():
            raise errors.ServiceUnavailable("The gateway runs as many requests as it can at the moment. Try again.")
        of_key = self._by_key.get(key_id, 0)
        if of_key and not is_repeatable:
            _require_room(key_id, of_key)
        self.taken += 1
        self._by_key[key_id] = self._by_key.get(key_id, 0) + 1
        return Slot(key_id)

    def release(self, key_id: str) -> None:
        self.taken -= 1
        if self._by_key[key_id] == 1:
            del self._by_key[key_id]
        else:
            self._by_key[key_id] -= 1


process_slots = ProcessSlots()


def slots_max() -> int:
    """Return how many completions a process may run: a tenth of its connections, and one at least, is not for them."""
    connections: int = settings.WORKER_CONNECTIONS
    return connections - max(connections // 10, 1)


def _require_room(key_id: str, of_key: int) -> None:
    last_read = rate_limit_cache.in_flight(key_id)
    if last_read and of_key >= last_read.key_max:
        gevent.sleep(_HELD_BACK_SECONDS)
        raise concurrency.refusal("key", last_read.key_max)
