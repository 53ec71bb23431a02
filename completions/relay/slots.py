"""Bounds the completions that this process runs at a time: in total, for each account and for each key.

A process has ``WORKER_CONNECTIONS`` connections. Completions may take nine tenths: probes and pages always find a free one.

A key has as many slots as it may have requests in flight, and so has an account. Further requests are refused before their
bodies are read, or money is held. A request with an Idempotency-Key gets a slot up to twice that number: if its reply is
stored, it starts no completion. Admission decides for all processes. A slot is given back when the reply has ended, even
without client.
"""

import time
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any
from uuid import UUID

import gevent
from django.conf import settings

from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.db import pool
from gateway_project.net import disconnects
from keys.limits import limit_state_cache, requests_in_flight

# Refusals for requests in flight and of invalid requests, of each key: no limit counts them, and a client that asks again at
# once costs a process as much as one that is served.
_REFUSALS_PER_SECOND = 20
_REFUSALS_BURST = 20  # at once
_HELD_BACK_SECONDS_MAX = 10

REPEATABLE_FACTOR = 2  # how many times its requests in flight a key may have of slots, if it sends an Idempotency-Key


class Slot:
    """One completion's place among those that run, released where its ``with`` block ends."""

    __slots__ = ("_is_taken", "_owners")

    def __init__(self, *owners: Hashable) -> None:
        self._owners = owners
        self._is_taken = True

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._is_taken:
            self._is_taken = False
            process_slots.release(*self._owners)

    def transfer(self) -> "Slot":
        self._is_taken = False
        return Slot(*self._owners)


class ProcessSlots:
    """The slots that are taken, in all and by key and account. ``clock`` returns seconds; tests pass their own."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.taken = 0
        self._by_owner: dict[Hashable, int] = {}
        self._held_back = 0
        self._refused_until: TTLCache[str, float] = TTLCache(seconds=60, entries_max=10_000)  # by key; see _wait_seconds

    def take(self, key_id: str, account_id: UUID, *, is_repeatable: bool) -> Slot:
        """Take a slot. Raises ServiceUnavailable when all are taken, TooManyInFlight when the key has as many as it may.

        ``is_repeatable``: its reply may be stored, and then only admission can say whether the request counts.
        """
        if self.taken >= slots_max():
            raise errors.NoRoom("The gateway runs as many requests as it can at the moment. Try again.")
        counted_each = REPEATABLE_FACTOR if is_repeatable else 1
        of_key, of_account = self._by_owner.get(key_id, 0), self._by_owner.get(account_id, 0)
        maxima = limit_state_cache.in_flight(key_id) or requests_in_flight.default_state()
        counted = (of_key // counted_each, maxima.key_max, of_account // counted_each, maxima.account_max)
        requests_in_flight.RequestsInFlight(*counted).require_room()
        self.taken += 1
        self._by_owner[key_id], self._by_owner[account_id] = of_key + 1, of_account + 1
        return Slot(key_id, account_id)

    def release(self, *owners: Hashable) -> None:
        self.taken -= 1
        for owner in owners:
            left = self._by_owner.pop(owner) - 1
            if left:
                self._by_owner[owner] = left

    def hold_back(self, key_id: str, client: Any) -> None:
        """Wait before a refusal, if the key has had many. Raises RequestTimeout when ``client`` leaves.

        Refusals that wait take free slots, a quarter of all at most: no further one waits.
        """
        seconds = self._wait_seconds(key_id)
        if not seconds or self._held_back >= slots_max() // 4 or self.taken >= slots_max():
            return
        pool.release_connection()
        self.taken += 1
        self._held_back += 1
        try:
            with disconnects.raise_on_disconnect(client, errors.RequestTimeout("The client disconnected.")):
                gevent.sleep(seconds)
        finally:
            self.taken -= 1
            self._held_back -= 1

    def _wait_seconds(self, key_id: str) -> float:
        """Count a refusal. Return how long it must wait for its turn: a burst has none to wait for (GCRA)."""
        now = self._clock()
        refused_until = max(self._refused_until.get(key_id) or 0, now) + 1 / _REFUSALS_PER_SECOND
        seconds = max(refused_until - now - _REFUSALS_BURST / _REFUSALS_PER_SECOND, 0)
        if seconds > _HELD_BACK_SECONDS_MAX:
            return _HELD_BACK_SECONDS_MAX
        self._refused_until.put(key_id, refused_until)
        return seconds


process_slots = ProcessSlots()


def slots_max() -> int:
    """Return how many completions a process may run: a tenth of its connections, and one at least, is not for them."""
    connections: int = settings.WORKER_CONNECTIONS
    return connections - max(connections // 10, 1)
