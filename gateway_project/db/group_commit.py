"""Group commit: concurrent callers share one transaction, in the leader/follower pattern.

The first caller leads: it commits its own item at once, in a batch of one. Callers that arrive meanwhile form the next batch,
and the first of them leads it. There is no extra thread and no timer: a lone caller never waits, and the busier the database
is, the larger the batches become. Under gevent, greenlets of one thread wait in another way than threads do.

Each item belongs to a partition, of which another transaction may lock rows. A batch does not wait for them: it skips the items
of that partition, and they are in the next batch again. If their rows are locked still, the partition is isolated: its items
have batches and leaders of their own, which wait for the rows, until none of its items waits. The items of a partition are
always committed in the order of their arrival.

After a wait without success for the rows of a partition, its later items are refused at once; after one for what all items
need, all later items are. From time to time one item is tried without a wait. Its success ends the refusals.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from gevent import monkey
from gevent.hub import Waiter

from gateway_project.deadline import SilentDeadline

_allocate_lock = monkey.get_original("_thread", "allocate_lock")

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Run = Callable[[list[Item], bool], list[Outcome | Exception]]

_WAKE_MAX = 16  # each takes a third of a millisecond, so sixteen keep an event loop from its sockets for five milliseconds
_YIELD_SECONDS = 0.00001  # not 0: gevent gives other greenlets a turn at 0 too, but need not poll its sockets
_SKIPS_MAX = 2  # times, before a partition is isolated: another process locks its rows for one batch or two
_REMEMBERED_SECONDS = 60  # since the last try, that rows stayed locked
_RETRY_SECONDS = 0.01  # between two batches of nothing but locked partitions, when no more can be isolated


class OutcomeUnknown(Exception):
    """The connection broke during a batch, perhaps after the commit. The batch may be run once more to find out."""


class WaitTimedOut(Exception):
    """The batch did not end in time. It may still be committed, but a failed batch is not retried for this caller."""


class Skipped(Exception):
    """The outcome of an item that was left alone because rows of its partition are locked. No caller gets it."""


class StaysLocked(Exception):
    """The rows of a partition stayed locked while its batch waited. The cause is raised to all who wait for the partition."""


class Unavailable(Exception):
    """No item of any partition can be committed at present. The cause is raised to all who wait."""


class GroupCommit(Generic[Item, Outcome]):
    """A queue of items that are committed in batches: one shared batch at a time, and one of each partition that is isolated.

    ``run(items, is_rerun)`` commits a whole batch and returns one outcome per item, in order. An outcome that is an exception
    is raised to the caller that submitted the item; the other items stay committed. When ``run`` itself raises, nothing was
    committed, and each item is run alone so that only the faulty one fails. After OutcomeUnknown the batch is first run with
    ``is_rerun=True``; ``run`` must then leave alone what the first run committed.

    ``run`` must not wait for locked rows: the outcome of their items is Skipped. ``run_isolated`` does the same for items of
    one partition, but waits, and raises StaysLocked after its time. At most ``_isolated_max`` partitions are isolated at a
    time, and ``_waiting_max`` items wait for each: the next is refused with WaitTimedOut. Items of further locked partitions
    are tried in each shared batch, for ``_timeout_seconds``. Of refused items one is tried every ``_refused_seconds``.

    Both functions raise Unavailable after a wait for what all items need. Then one caller every ``_refused_seconds`` runs
    ``probe`` first, which must not wait, and raises while no item can be committed.
    """

    _batch_max, _isolated_max, _waiting_max = 256, 4, 1_000
    _timeout_seconds, _refused_seconds = 15.0, 0.5

    def __init__(
        self,
        run: Run[Item, Outcome],
        *,
        run_isolated: Run[Item, Outcome] | None = None,
        probe: Callable[[], object] = lambda: None,
        partition: Callable[[Item], Hashable] = lambda item: None,
    ) -> None:
        self._run = run
        self._run_isolated = run_isolated or run
        self._probe = probe
        self._partition = partition
        # The lock of the system, which gevent has replaced: nothing waits while it is held, so it keeps no greenlet waiting.
        self._mutex = _allocate_lock()
        self._waiting: list[_Ticket[Item, Outcome]] = []  # of all partitions, in the order of their arrival
        self._has_leader = False  # of the shared batch; a partition that is isolated always has one
        self._isolated: set[Hashable] = set()
        self._refused_until: dict[Hashable, float] = {}  # by partition, in seconds of the monotonic clock
        self._all_refused_until: float | None = None
        self._cause: BaseException | None = None  # why all are refused

    @property
    def has_waiting(self) -> bool:
        """True when callers wait for a later batch than that which runs."""
        return bool(self._waiting)

    def submit(self, item: Item) -> Outcome:
        """Wait until the item's batch is committed, and return its outcome. Raises the item's exception, or WaitTimedOut."""
        if self._all_refused_until is not None:
            self._require_available()
        ticket: _Ticket[Item, Outcome] = _ticket_class(item, self._partition(item))
        self._enter(ticket)
        deadline = time.monotonic() + self._timeout_seconds
        try:
            while not ticket.is_done:
                if not ticket.is_leader:
                    if not ticket.wait(max(deadline - time.monotonic(), 0)) and self._abandon(ticket):
                        raise WaitTimedOut("the batch did not end in time")
                elif ticket.times_skipped and time.monotonic() > deadline:
                    raise WaitTimedOut("the batch did not end in time")
                else:
                    self._lead(ticket)
        except BaseException as error:
            if not self._abandon(ticket):
                self._withdraw(ticket)
            if ticket.times_skipped and isinstance(error, WaitTimedOut):
                self._refuse(ticket.partition)
            raise
        if isinstance(ticket.outcome, Exception):
            raise ticket.outcome
        return ticket.outcome

    def _enter(self, ticket: "_Ticket[Item, Outcome]") -> None:
        with self._mutex:
            if self._refused_until and ticket.partition in self._refused_until:
                self._begin_trial(ticket)
            is_isolated = bool(self._isolated) and ticket.partition in self._isolated
            is_full = is_isolated and len(self._waiting) >= self._waiting_max
            if is_full and sum(each.partition == ticket.partition for each in self._waiting) >= self._waiting_max:
                raise WaitTimedOut("too many wait for rows that are locked")
            self._waiting.append(ticket)
            if not is_isolated and not self._has_leader:
                self._has_leader = ticket.is_leader = True

    # --- Refuse ---

    def _begin_trial(self, ticket: "_Ticket[Item, Outcome]") -> None:
        """Let one ticket of a refused partition be tried, and raise WaitTimedOut to the others."""
        now = time.monotonic()
        if now < self._refused_until[ticket.partition]:
            raise WaitTimedOut("its rows stayed locked a moment ago")
        self._refused_until[ticket.partition] = now + self._refused_seconds
        ticket.is_trial = True

    def _refuse(self, partition: Hashable) -> None:
        now = time.monotonic()
        with self._mutex:
            remembered = {each: until for each, until in self._refused_until.items() if until > now - _REMEMBERED_SECONDS}
            self._refused_until = {**remembered, partition: now + self._refused_seconds}

    def _refuse_all(self, cause: BaseException | None) -> None:
        with self._mutex:
            self._all_refused_until, self._cause = time.monotonic() + self._refused_seconds, cause

    def _require_available(self) -> None:
        """Let one caller at a time find out whether items can be committed again. Raises WaitTimedOut to the others."""
        with self._mutex:
            until, cause, now = self._all_refused_until, self._cause, time.monotonic()
            if until is not None and now >= until:
                self._all_refused_until = now + self._refused_seconds
        if until is None:
            return
        if now < until:
            raise WaitTimedOut("others waited in vain a moment ago") from cause
        self._probe()
        with self._mutex:
            self._all_refused_until = self._cause = None

    # --- Lead ---

    def _lead(self, leader: "_Ticket[Item, Outcome]") -> None:
        with self._mutex:
            leader.is_leader = False
            partition = self._isolated_partition(leader) if self._isolated else None
            batch = self._take(partition)
        try:
            self._commit(batch, self._run if partition is None else self._run_isolated)
            if leader.times_skipped and all(ticket.is_stuck() for ticket in batch):
                time.sleep(_RETRY_SECONDS)
        finally:
            self._finish(batch, leader, partition)
            if batch != [leader]:
                _wake_all([ticket for ticket in batch if ticket.is_done and ticket is not leader])

    def _isolated_partition(self, ticket: "_Ticket[Item, Outcome]") -> Hashable:
        """Return the ticket's partition if it is isolated, or None, which stands for the shared batch."""
        return ticket.partition if ticket.partition in self._isolated else None

    def _take(self, partition: Hashable) -> "list[_Ticket[Item, Outcome]]":
        """Remove the next batch from those that wait, and return it."""
        if not self._isolated:
            batch = self._waiting[: self._batch_max]
            del self._waiting[: self._batch_max]
            return batch
        batch = [ticket for ticket in self._waiting if self._isolated_partition(ticket) == partition][: self._batch_max]
        taken = set(batch)
        self._waiting = [ticket for ticket in self._waiting if ticket not in taken]
        return batch

    def _finish(self, batch: "list[_Ticket[Item, Outcome]]", leader: "_Ticket[Item, Outcome]", partition: Hashable) -> None:
        """Mark the batch done and make the first waiting ticket the next leader, before any other ticket is woken.

        The woken callers then work while the next batch is in the database. Items that were skipped are the first in it.
        """
        with self._mutex:
            successors = []
            if self._refused_until:
                for ticket in batch:
                    was_locked = isinstance(ticket.outcome, (Skipped, WaitTimedOut))
                    if ticket.is_trial and not was_locked:
                        self._refused_until.pop(ticket.partition, None)
            if skipped := [ticket for ticket in batch if not ticket.end()]:
                self._waiting[:0] = skipped
                for ticket in skipped:
                    is_due = ticket.times_skipped >= _SKIPS_MAX and ticket.partition not in self._isolated
                    if is_due and len(self._isolated) < self._isolated_max:
                        self._isolated.add(ticket.partition)
                        successors.append(ticket)
            if leader_of_next := self._successor(partition):
                successors.append(leader_of_next)
            for ticket in successors:
                ticket.is_leader = True
        for ticket in successors:
            if ticket is not leader:  # it is awake, and leads again
                ticket.wake()

    def _successor(self, partition: Hashable) -> "_Ticket[Item, Outcome] | None":
        """Return the next leader, or None when no ticket waits: then the next caller leads, in a shared batch."""
        waiting = iter(self._waiting)
        if self._isolated:
            waiting = (ticket for ticket in self._waiting if self._isolated_partition(ticket) == partition)
        leader = next(waiting, None)
        if partition is None:
            self._has_leader = leader is not None
        elif leader is None:
            self._isolated.remove(partition)
        return leader

    # --- Commit ---

    def _commit(self, batch: "list[_Ticket[Item, Outcome]]", run: Run[Item, Outcome]) -> None:
        try:
            self._run_batch(batch, run)
        except OutcomeUnknown:
            self._rerun([ticket for ticket in batch if not ticket.is_abandoned], run)
        except (StaysLocked, Unavailable) as error:
            self._give_up(batch, error)
        except Exception as error:
            if len(batch) == 1:
                batch[0].outcome = error
            else:
                for ticket in batch:
                    if not ticket.is_abandoned:  # checked in each iteration, as earlier iterations may have taken long
                        self._commit([ticket], run)

    def _rerun(self, batch: "list[_Ticket[Item, Outcome]]", run: Run[Item, Outcome]) -> None:
        for ticket in batch:
            ticket.is_rerun = True  # also in a later batch, if it is skipped now
        try:
            self._run_batch(batch, run)
        except (StaysLocked, Unavailable) as error:
            self._give_up(batch, error)
        except Exception as error:
            for ticket in batch:
                ticket.outcome = _still_unknown(error)

    def _run_batch(self, batch: "list[_Ticket[Item, Outcome]]", run: Run[Item, Outcome]) -> None:
        outcomes = run([ticket.item for ticket in batch], any([ticket.is_rerun for ticket in batch]))  # noqa: C419  faster
        for ticket, outcome in zip(batch, outcomes, strict=True):
            ticket.outcome = outcome

    def _give_up(self, batch: "list[_Ticket[Item, Outcome]]", error: StaysLocked | Unavailable) -> None:
        """Fail the tickets of the batch, and those that wait for the next one, with the cause. Refuse later callers as well."""
        if isinstance(error, Unavailable):
            self._refuse_all(error.__cause__)
        else:
            self._refuse(batch[0].partition)
        with self._mutex:
            partition = self._isolated_partition(batch[0])
            waiting = [ticket for ticket in self._waiting if self._isolated_partition(ticket) == partition]
            self._waiting = [ticket for ticket in self._waiting if self._isolated_partition(ticket) != partition]
            for ticket in waiting:
                ticket.is_done = True
        for ticket in (*batch, *waiting):
            ticket.is_trial = False
            outcome = error.__cause__ if isinstance(error.__cause__, Exception) else error
            ticket.outcome = _still_unknown(outcome) if ticket.is_rerun else outcome
        _wake_all(waiting)

    # --- Give up ---

    def _withdraw(self, ticket: "_Ticket[Item, Outcome]") -> None:
        """Remove a ticket whose caller gives up when it can no longer be abandoned: it is done, or was made leader."""
        if not ticket.is_done:  # so it was made leader
            with self._mutex:
                self._waiting.remove(ticket)
                partition = self._isolated_partition(ticket)
            self._finish([], ticket, partition)

    def _abandon(self, ticket: "_Ticket[Item, Outcome]") -> bool:
        """Note that the caller waits no longer. Return False when the ticket is done or was made leader."""
        with self._mutex:
            if ticket.is_leader or ticket.is_done:
                return False
            ticket.is_abandoned = True
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            return True


def _still_unknown(error: Exception) -> OutcomeUnknown:
    """Return the outcome of an item whose first commit may have succeeded, when the batch that would tell fails."""
    unknown = OutcomeUnknown("the connection was lost during the commit, and what became of it cannot be read")
    unknown.__cause__ = error
    return unknown


def _wake_all(batch: list["_Ticket[Any, Any]"]) -> None:
    """Wake the tickets a third at a time, or fewer, so that the event loop reads from the database in between."""
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
    """One item on its way through a batch. ``wake`` ends ``wait``, or spares the next one.

    ``wait`` returns False after its time. Here a lock does this: it is acquired at once, and ``wake`` releases it.
    """

    __slots__ = (
        *("item", "partition", "outcome", "times_skipped", "_lock"),
        *("is_leader", "is_done", "is_abandoned", "is_rerun", "is_trial"),
    )

    def __init__(self, item: Item, partition: Hashable = None) -> None:
        self.item = item
        self.partition = partition
        self.outcome: Outcome | Exception = WaitTimedOut("the batch was abandoned")
        self.is_leader = self.is_done = self.is_abandoned = self.is_rerun = self.is_trial = False
        self.times_skipped = 0
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=seconds)

    def wake(self) -> None:
        if self._lock.locked():  # else it was woken before and has not waited since
            self._lock.release()

    def end(self) -> bool:
        """Mark the ticket done, after its batch. Return False, and count it, when it was skipped and its caller waits."""
        if isinstance(self.outcome, Skipped) and not self.is_abandoned:
            self.times_skipped += 1
            is_refused = self.is_trial and self.times_skipped >= _SKIPS_MAX
            self.outcome = WaitTimedOut("its rows are locked still" if is_refused else "the batch was abandoned")
            self.is_done = is_refused
            return is_refused
        self.is_done = True
        return True

    def is_stuck(self) -> bool:
        """Return whether the ticket was skipped so often that its partition would be isolated if there were room."""
        return self.times_skipped >= _SKIPS_MAX and isinstance(self.outcome, Skipped)


class _GreenletTicket(_Ticket[Item, Outcome]):
    """A ticket of a greenlet, whose wait may last a tenth of a second longer. gevent's lock takes three times as long."""

    __slots__ = ("_is_awake", "_waiter")

    def _begin(self) -> None:
        self._is_awake = False  # since the last wait
        self._waiter: Waiter | None = None

    def wait(self, seconds: float) -> bool:
        if not self._is_awake:
            self._waiter = self._waiter or Waiter()
            with SilentDeadline(seconds):
                while not self._is_awake:
                    self._waiter.clear()  # of a wake that an earlier wait did not need
                    self._waiter.get()
        is_awake, self._is_awake = self._is_awake, False
        return is_awake

    def wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            if self._waiter is not None:
                self._waiter.hub.loop.run_callback(self._waiter.switch, None)


# gevent patches before this module is imported.
_ticket_class: type[_Ticket[Any, Any]] = _GreenletTicket if monkey.is_module_patched("threading") else _Ticket
