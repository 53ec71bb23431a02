"""Group commit: concurrent callers share one transaction, in the leader/follower pattern.

The first caller leads: it commits its own item at once, in a batch of one. Callers that arrive meanwhile form the next batch,
and the first of them leads it. There is no extra thread and no timer: a lone caller never waits, and the busier the database
is, the larger the batches become. This module does not know what it commits. Under gevent the same code serves greenlets
instead of threads.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_WAKE_MAX = 16  # each takes a third of a millisecond, so sixteen keep an event loop from its sockets for five milliseconds
_YIELD_SECONDS = 0.00001  # not 0: gevent gives other greenlets a turn at 0 too, but need not poll its sockets


class OutcomeUnknown(Exception):
    """The connection broke during a batch, perhaps after the commit. The batch may be run once more to find out."""


class WaitTimedOut(Exception):
    """The batch did not end in time. It may still be committed, but a failed batch is not retried for this caller."""


class GroupCommit(Generic[Item, Outcome]):
    """A queue of items that are committed in batches, one batch at a time.

    ``run(items, is_rerun)`` commits a whole batch and returns one outcome per item, in order. An outcome that is an exception
    is raised to the caller that submitted the item; the other items stay committed. When ``run`` itself raises, nothing was
    committed, and each item is run alone so that only the faulty one fails. After OutcomeUnknown the batch is first run with
    ``is_rerun=True``; ``run`` must then leave alone what the first run committed.
    """

    def __init__(
        self,
        run: Callable[[list[Item], bool], list[Outcome | Exception]],
        *,
        batch_max: int = 256,
        timeout_seconds: float = 15,
    ) -> None:
        self._run = run
        self._batch_max = batch_max
        self._timeout_seconds = timeout_seconds
        self._mutex = threading.Lock()
        self._waiting: list[_Ticket[Item, Outcome]] = []
        self._has_leader = False

    def submit(self, item: Item) -> Outcome:
        """Wait until the item's batch is committed, and return its outcome. Raises the item's exception, or WaitTimedOut."""
        ticket: _Ticket[Item, Outcome] = _Ticket(item)
        with self._mutex:
            self._waiting.append(ticket)
            leads = not self._has_leader
            self._has_leader = True
        if not leads:
            self._wait(ticket)
        if leads or ticket.is_leader:
            self._lead()
        return ticket.result()

    def _lead(self) -> None:
        with self._mutex:
            batch = self._waiting[: self._batch_max]
            del self._waiting[: self._batch_max]
        try:
            self._commit(batch)
        finally:
            self._finish(batch)
            _wake_all(batch[1:])  # the first ticket is the leader's own

    def _finish(self, batch: list["_Ticket[Item, Outcome]"]) -> None:
        """Mark the batch done and make the first waiting ticket the next leader, before any other ticket is woken.

        The woken callers then work while the next batch is in the database.
        """
        with self._mutex:
            for ticket in batch:
                ticket.is_done = True
            successor = self._waiting[0] if self._waiting else None
            self._has_leader = successor is not None
            if successor:
                successor.is_leader = True
        if successor:
            successor.wake()

    def _commit(self, batch: list["_Ticket[Item, Outcome]"]) -> None:
        try:
            self._run_batch(batch, is_rerun=False)
        except OutcomeUnknown:
            self._rerun([ticket for ticket in batch if not ticket.is_abandoned])
        except Exception as error:
            if len(batch) == 1:
                batch[0].outcome = error
            else:
                for ticket in batch:
                    if not ticket.is_abandoned:  # checked in each iteration, as earlier iterations may have taken long
                        self._commit([ticket])

    def _rerun(self, batch: list["_Ticket[Item, Outcome]"]) -> None:
        try:
            self._run_batch(batch, is_rerun=True)
        except Exception as error:
            for ticket in batch:
                ticket.outcome = error

    def _run_batch(self, batch: list["_Ticket[Item, Outcome]"], *, is_rerun: bool) -> None:
        outcomes = self._run([ticket.item for ticket in batch], is_rerun)
        for ticket, outcome in zip(batch, outcomes, strict=True):
            ticket.outcome = outcome

    def _wait(self, ticket: "_Ticket[Item, Outcome]") -> None:
        """Wait until the ticket is done or is to lead. Raises WaitTimedOut, or a timeout that the caller set itself."""
        try:
            is_woken = ticket.wait(self._timeout_seconds)
        except BaseException:
            if not self._abandon(ticket):
                self._withdraw(ticket)
            raise
        if not is_woken and self._abandon(ticket):
            raise WaitTimedOut

    def _withdraw(self, ticket: "_Ticket[Item, Outcome]") -> None:
        """Remove a ticket whose caller gives up when it can no longer be abandoned: it is done, or was made leader."""
        if not ticket.is_done:  # so it was made leader
            with self._mutex:
                self._waiting.remove(ticket)
            self._finish([])

    def _abandon(self, ticket: "_Ticket[Item, Outcome]") -> bool:
        """Note that the caller waits no longer. Return False when the ticket is done or was made leader."""
        with self._mutex:
            if ticket.is_leader or ticket.is_done:
                return False
            ticket.is_abandoned = True
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            return True


def _wake_all(batch: list["_Ticket[Any, Any]"]) -> None:
    """Wake the tickets a third at a time, or fewer.

    An event loop runs everything that is awake before it reads from the database again.
    """
    asleep = deque(batch)
    wake_max = min(math.ceil(len(batch) / 3), _WAKE_MAX)
    try:
        while asleep:
            for _ in range(min(wake_max, len(asleep))):
                asleep.popleft().wake()
            if asleep:
                time.sleep(_YIELD_SECONDS)
    finally:  # also when a timeout that the leader's caller set is raised here
        for ticket in asleep:
            ticket.wake()


class _Ticket(Generic[Item, Outcome]):
    """One item on its way through a batch. Its lock is acquired at once, and released by ``wake`` to end ``wait``."""

    __slots__ = ("item", "outcome", "is_leader", "is_done", "is_abandoned", "_lock")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.outcome: Outcome | Exception = WaitTimedOut("the batch was abandoned")
        self.is_leader = self.is_done = self.is_abandoned = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=seconds)

    def wake(self) -> None:
        self._lock.release()

    def result(self) -> Outcome:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome
