"""LEAF. Concurrent callers share a transaction: the first to arrive leads, those that come meanwhile are the next batch.

No thread of its own, no timer: a lone caller is a batch of one, and the busier the database, the larger the batches. It
knows nothing of what it commits. Under gevent the same code shares between greenlets what it shares between threads here.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_TOGETHER_MAX = 16  # at a third of a millisecond each, five in which an event loop does not look at its sockets
_BLINK_SECONDS = 0.00001  # not 0, at which it gives others their turn, but need not look at them


class Lost(Exception):
    """The store went away under a batch, perhaps after it had committed: it may be run again, once, to find out."""


class TooLate(Exception):
    """The batch did not end in time. What it commits all the same stands, but it is not tried again for who has left."""


class GroupCommit(Generic[Item, Outcome]):
    """Runs items in batches, one batch at a time.

    ``run(items, again)`` commits a whole batch and returns an outcome for each item, in order; an outcome that is an
    exception is raised to whoever submitted the item, and the others stand. When ``run`` itself raises, nothing of the batch
    was committed and each item is run alone, so that one poisoned item fails alone; after Lost the batch is run ``again``
    first, and ``run`` must then leave alone what it committed before.
    """

    def __init__(
        self,
        run: Callable[[list[Item], bool], list[Outcome | Exception]],
        *,
        batch_max: int = 256,
        patience_seconds: float = 15,
    ) -> None:
        self._run = run
        self._batch_max = batch_max
        self._patience_seconds = patience_seconds
        self._mutex = threading.Lock()
        self._waiting: list[_Ticket[Item, Outcome]] = []
        self._is_led = False

    def submit(self, item: Item) -> Outcome:
        """Wait until the item's batch is committed; its outcome. Raises what ``run`` gave for it, or TooLate."""
        ticket: _Ticket[Item, Outcome] = _Ticket(item)
        with self._mutex:
            self._waiting.append(ticket)
            leads = not self._is_led
            self._is_led = True
        if not leads:
            self._wait(ticket)
        if leads or ticket.leads:
            self._lead()
        return ticket.result()

    def _lead(self) -> None:
        with self._mutex:
            batch = self._waiting[: self._batch_max]
            del self._waiting[: self._batch_max]
        try:
            self._commit(batch)
        finally:
            self._hand_over(batch)
            _wake(batch[1:])  # the first is ourselves

    def _hand_over(self, batch: list["_Ticket[Item, Outcome]"]) -> None:
        """The batch is done, and the first who waits leads the next one, at once: before anybody of this one is woken.

        What they do next, they do while that one is in the database.
        """
        with self._mutex:
            for ticket in batch:
                ticket.is_done = True
            successor = self._waiting[0] if self._waiting else None
            self._is_led = successor is not None
            if successor:
                successor.leads = True
        if successor:
            successor.ring()

    def _commit(self, batch: list["_Ticket[Item, Outcome]"]) -> None:
        try:
            self._assign(batch, again=False)
        except Lost:
            self._commit_again([ticket for ticket in batch if not ticket.is_abandoned])
        except Exception as error:
            if len(batch) == 1:
                batch[0].outcome = error
            else:
                for ticket in batch:
                    if not ticket.is_abandoned:  # looked at in each turn: the turns before may have taken long
                        self._commit([ticket])

    def _commit_again(self, batch: list["_Ticket[Item, Outcome]"]) -> None:
        try:
            self._assign(batch, again=True)
        except Exception as error:
            for ticket in batch:
                ticket.outcome = error

    def _assign(self, batch: list["_Ticket[Item, Outcome]"], *, again: bool) -> None:
        outcomes = self._run([ticket.item for ticket in batch], again)
        for ticket, outcome in zip(batch, outcomes, strict=True):
            ticket.outcome = outcome

    def _wait(self, ticket: "_Ticket[Item, Outcome]") -> None:
        """Until it is done or leads. Raises TooLate, or an alarm of the caller's own."""
        try:
            is_rung = ticket.wait(self._patience_seconds)
        except BaseException:
            if not self._abandon(ticket):
                self._leave(ticket)
            raise
        if not is_rung and self._abandon(ticket):
            raise TooLate

    def _leave(self, ticket: "_Ticket[Item, Outcome]") -> None:
        """Its caller goes, too late to be abandoned."""
        if not ticket.is_done:  # so it was to lead
            with self._mutex:
                self._waiting.remove(ticket)
            self._hand_over([])

    def _abandon(self, ticket: "_Ticket[Item, Outcome]") -> bool:
        """Nobody waits for it any more. False when it is done, or was made to lead."""
        with self._mutex:
            if ticket.leads or ticket.is_done:
                return False
            ticket.is_abandoned = True
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            return True


def _wake(batch: list["_Ticket[Any, Any]"]) -> None:
    """A third at a time, or fewer: an event loop lets all who are awake have their turns before it hears from the database."""
    asleep = deque(batch)
    together = min(math.ceil(len(batch) / 3), _TOGETHER_MAX)
    try:
        while asleep:
            for _ in range(min(together, len(asleep))):
                asleep.popleft().ring()
            if asleep:
                time.sleep(_BLINK_SECONDS)
    finally:  # also when an alarm of the leader's own rings
        for ticket in asleep:
            ticket.ring()


class _Ticket(Generic[Item, Outcome]):
    """One item on its way through a batch. The lock is its doorbell: taken here, given back by ``ring``."""

    __slots__ = ("item", "outcome", "leads", "is_done", "is_abandoned", "_bell")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.outcome: Outcome | Exception = TooLate("the batch was abandoned")
        self.leads = self.is_done = self.is_abandoned = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def wait(self, seconds: float) -> bool:
        return self._bell.acquire(timeout=seconds)

    def ring(self) -> None:
        self._bell.release()

    def result(self) -> Outcome:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome
