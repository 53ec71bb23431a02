"""Concurrent callers share a transaction, and one caller's failure does not affect the others."""

import threading
import time
from collections.abc import Callable
from typing import Any

import gevent
import pytest

from gateway_project.db import group_commit
from gateway_project.db.group_commit import (
    GroupCommit,
    OutcomeUnknown,
    Skipped,
    StaysLocked,
    Unavailable,
    WaitTimedOut,
    _GreenletTicket,
    _Ticket,
)
from tests.waiting import until


class Store:
    """Commits batches of texts: the first one when the test opens the gate, the others at once."""

    def __init__(self, commit: Callable[[list[str], bool], list] | None = None) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.batches: list[list[str]] = []
        self._commit = commit or (lambda items, is_rerun: [item.upper() for item in items])

    def run(self, items: list[str], is_rerun: bool) -> list:
        self.batches.append(items)
        if len(self.batches) == 1:
            self.entered.set()
            assert self.gate.wait(60)
        return self._commit(items, is_rerun)


def submit(group: GroupCommit, *items: str) -> tuple[dict, list[threading.Thread]]:
    """Submit each item from its own thread, in this order. The outcomes are complete when the threads have ended."""
    outcomes: dict = {}

    def one(item: str) -> None:
        try:
            outcomes[item] = group.submit(item)
        except BaseException as error:
            outcomes[item] = error

    threads = []
    for item in items:
        threads.append(threading.Thread(target=one, args=(item,)))
        threads[-1].start()
        while not (group._has_leader and (len(threads) == 1 or len(group._waiting) == len(threads) - 1)):
            threading.Event().wait(0.001)
    return outcomes, threads


def submit_all(store: Store, group: GroupCommit, *items: str) -> dict:
    outcomes, threads = submit(group, *items)
    assert store.entered.wait(60)
    store.gate.set()
    for thread in threads:
        thread.join(60)
    return outcomes


def limited(group: GroupCommit, **limits: float) -> GroupCommit:
    """Give the group limits of its own, such as ``batch_max``."""
    vars(group).update({f"_{name}": limit for name, limit in limits.items()})
    return group


def test_a_lone_caller_is_a_batch_of_one():
    store = Store()
    store.gate.set()
    assert GroupCommit(store.run).submit("a") == "A"
    assert store.batches == [["a"]]


def test_items_submitted_during_a_commit_form_the_next_batch_in_order():
    store = Store()
    assert submit_all(store, GroupCommit(store.run), "a", "b", "c", "d") == {"a": "A", "b": "B", "c": "C", "d": "D"}
    assert store.batches == [["a"], ["b", "c", "d"]]


def test_a_batch_has_at_most_batch_max_items():
    store = Store()
    outcomes = submit_all(store, limited(GroupCommit(store.run), batch_max=2), "a", "b", "c", "d")
    assert set(outcomes.values()) == {"A", "B", "C", "D"}
    assert store.batches == [["a"], ["b", "c"], ["d"]]


def test_an_outcome_that_is_an_exception_is_raised_to_its_own_caller():
    store = Store(lambda items, is_rerun: [ValueError(item) if item == "c" else item for item in items])
    outcomes = submit_all(store, GroupCommit(store.run), "a", "b", "c", "d")
    assert isinstance(outcomes.pop("c"), ValueError)
    assert outcomes == {"a": "a", "b": "b", "d": "d"}
    assert store.batches == [["a"], ["b", "c", "d"]]


def test_a_faulty_item_fails_alone():
    def commit(items: list[str], is_rerun: bool) -> list:
        if "c" in items:
            raise ValueError("poisoned")
        return items

    store = Store(commit)
    outcomes = submit_all(store, GroupCommit(store.run), "a", "b", "c", "d")
    assert isinstance(outcomes.pop("c"), ValueError)
    assert outcomes == {"a": "a", "b": "b", "d": "d"}
    assert store.batches == [["a"], ["b", "c", "d"], ["b"], ["c"], ["d"]]


def test_a_batch_with_an_unknown_outcome_is_rerun_once():
    asked = []

    def commit(items: list[str], is_rerun: bool) -> list:
        asked.append((items, is_rerun))
        if not is_rerun:
            raise OutcomeUnknown
        return items

    store = Store(commit)
    store.gate.set()
    assert GroupCommit(store.run).submit("a") == "a"
    assert asked == [(["a"], False), (["a"], True)]


def test_a_second_unknown_outcome_is_raised_to_every_caller():
    def commit(items: list[str], is_rerun: bool) -> list:
        raise OutcomeUnknown

    store = Store(commit)
    outcomes = submit_all(store, GroupCommit(store.run), "a", "b", "c")
    assert [type(outcomes[item]) for item in "abc"] == [OutcomeUnknown] * 3
    assert store.batches == [["a"], ["a"], ["b", "c"], ["b", "c"]]


def test_an_outcome_stays_unknown_when_the_batch_that_would_tell_fails():
    def commit(items: list[str], is_rerun: bool) -> list:
        raise ConnectionError if is_rerun else OutcomeUnknown

    with pytest.raises(OutcomeUnknown) as unknown:
        GroupCommit(commit).submit("a")
    assert isinstance(unknown.value.__cause__, ConnectionError)


class Timeouts:
    """Lets the waits of these items time out when the test says so, whatever the machine's speed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *items: str) -> None:
        self.now = threading.Event()
        wait = _Ticket.wait

        def waiting(ticket: _Ticket, seconds: float) -> bool:
            if ticket.item not in items:
                return wait(ticket, seconds)
            assert self.now.wait(60)
            return wait(ticket, 0)

        monkeypatch.setattr(_Ticket, "wait", waiting)


def test_a_wait_ends_after_its_time():
    assert _Ticket("a").wait(0.01) is False


def test_a_caller_that_waits_again_has_what_is_left_of_its_time(monkeypatch):
    waits: list[float] = []
    started_at = time.monotonic()

    def woken_after_ten_seconds(ticket: _Ticket, seconds: float) -> bool:
        waits.append(seconds)
        monkeypatch.setattr(time, "monotonic", lambda: started_at + 10 * len(waits))
        return len(waits) == 1

    monkeypatch.setattr(time, "monotonic", lambda: started_at)
    group = limited(GroupCommit(Store().run), timeout_seconds=15)
    group._has_leader = True  # somebody else, so that this caller follows
    monkeypatch.setattr(_Ticket, "wait", woken_after_ten_seconds)
    with pytest.raises(WaitTimedOut):
        group.submit("a")
    assert waits == pytest.approx([15, 5])


def test_an_item_that_times_out_in_the_queue_is_never_committed(monkeypatch):
    timeouts, store = Timeouts(monkeypatch, "b"), Store()
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, "a", "b")
    timeouts.now.set()
    threads[1].join(60)
    store.gate.set()
    threads[0].join(60)
    assert outcomes["a"] == "A"
    assert isinstance(outcomes["b"], WaitTimedOut)
    assert store.batches == [["a"]]


def test_an_item_committed_after_its_caller_timed_out_stays_committed(monkeypatch):
    timeouts, second = Timeouts(monkeypatch, "c"), threading.Event()

    def commit(items: list[str], is_rerun: bool) -> list:
        if items != ["a"]:
            timeouts.now.set()
            assert second.wait(60)
        return [item.upper() for item in items]

    store = Store(commit)
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, "a", "b", "c")
    store.gate.set()
    threads[2].join(60)  # c waits for the batch that b leads
    second.set()
    threads[1].join(60)
    assert isinstance(outcomes["c"], WaitTimedOut)
    assert outcomes["b"] == "B"
    assert store.batches == [["a"], ["b", "c"]]


@pytest.mark.parametrize("failure", [KeyError, OutcomeUnknown])
def test_a_failed_item_is_not_retried_for_a_caller_that_timed_out(failure, monkeypatch):
    failures, left, timeouts = [failure], threading.Event(), Timeouts(monkeypatch, "c", "d")

    def commit(items: list[str], is_rerun: bool) -> list:
        if items != ["a"] and failures:
            timeouts.now.set()
            assert left.wait(60)
            raise failures.pop()
        return [item.upper() for item in items]

    store = Store(commit)
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, "a", "b", "c", "d")
    store.gate.set()
    for thread in threads[2:]:
        thread.join(60)  # c and d wait for the batch that b leads
    left.set()
    threads[1].join(60)
    assert outcomes.pop("b") == "B"
    assert all(isinstance(outcomes[item], WaitTimedOut) for item in "cd")
    assert store.batches == [["a"], ["b", "c", "d"], ["b"]]


def test_the_group_serves_after_every_kind_of_failure():
    failures = iter([KeyError, OutcomeUnknown])

    def commit(items: list[str], is_rerun: bool) -> list:
        failure = next(failures, None)
        if failure and not is_rerun:
            raise failure
        return items

    store = Store(commit)
    store.gate.set()
    group = GroupCommit(store.run)
    with pytest.raises(KeyError):
        group.submit("a")
    assert [group.submit(item) for item in "bc"] == ["b", "c"]


# --- Interrupted callers -------------------------------------------------------------------------------------------


class Interrupt(BaseException):
    """What an event loop, such as gevent.Timeout, raises in a waiting caller."""


class Interrupter:
    """Interrupts the caller that waits with this item, when the test sets ``now``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, item: str) -> None:
        self.now = threading.Event()
        wait = _Ticket.wait

        def waiting(ticket: _Ticket, seconds: float) -> bool:
            if ticket.item != item:
                return wait(ticket, seconds)
            assert self.now.wait(60)
            raise Interrupt

        monkeypatch.setattr(_Ticket, "wait", waiting)


def test_an_item_whose_caller_is_interrupted_in_the_queue_is_never_committed(monkeypatch):
    interrupter, store = Interrupter(monkeypatch, "b"), Store()
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, "a", "b", "c")
    interrupter.now.set()
    threads[1].join(60)
    store.gate.set()
    for thread in threads:
        thread.join(60)
    assert isinstance(outcomes.pop("b"), Interrupt)
    assert outcomes == {"a": "A", "c": "C"}
    assert store.batches == [["a"], ["c"]]


def test_another_caller_leads_when_the_next_leader_is_interrupted(monkeypatch):
    interrupter, store = Interrupter(monkeypatch, "b"), Store()
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, "a", "b", "c", "d")
    store.gate.set()
    threads[0].join(60)  # b is the leader now, but has not woken yet
    interrupter.now.set()
    for thread in threads:
        thread.join(60)
    assert isinstance(outcomes.pop("b"), Interrupt)
    assert outcomes == {"a": "A", "c": "C", "d": "D"}
    assert store.batches == [["a"], ["c", "d"]]
    assert group.submit("e") == "E"


def test_a_caller_that_times_out_while_it_is_made_leader_leads(monkeypatch):
    wait = _Ticket.wait

    def waiting(ticket: _Ticket, seconds: float) -> bool:
        if ticket.item != "b":
            return wait(ticket, seconds)
        while not ticket.is_leader:
            time.sleep(0.001)
        return False

    monkeypatch.setattr(_Ticket, "wait", waiting)
    store = Store()
    assert submit_all(store, GroupCommit(store.run), "a", "b", "c") == {"a": "A", "b": "B", "c": "C"}
    assert store.batches == [["a"], ["b", "c"]]


def test_the_group_serves_after_its_last_caller_was_interrupted(monkeypatch):
    interrupter, store = Interrupter(monkeypatch, "b"), Store()
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, "a", "b")
    store.gate.set()
    threads[0].join(60)
    interrupter.now.set()
    threads[1].join(60)
    assert isinstance(outcomes["b"], Interrupt)
    assert group.submit("c") == "C"
    assert store.batches == [["a"], ["c"]]


def test_an_interrupted_caller_whose_item_was_committed_does_not_block_the_group(monkeypatch):
    interrupter, store = Interrupter(monkeypatch, "c"), Store()
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, "a", "b", "c")
    store.gate.set()
    for thread in threads[:2]:
        thread.join(60)  # c is done, but has not woken yet
    interrupter.now.set()
    threads[2].join(60)
    assert isinstance(outcomes.pop("c"), Interrupt)
    assert outcomes == {"a": "A", "b": "B"}
    assert group.submit("d") == "D"


def test_an_interrupted_leader_does_not_block_the_group():
    def commit(items: list[str], is_rerun: bool) -> list:
        if items == ["a"]:
            raise Interrupt
        return [item.upper() for item in items]

    store = Store(commit)
    outcomes = submit_all(store, GroupCommit(store.run), "a", "b", "c")
    assert isinstance(outcomes.pop("a"), Interrupt)
    assert outcomes == {"b": "B", "c": "C"}
    assert store.batches == [["a"], ["b", "c"]]


def test_the_next_batch_starts_before_all_callers_of_the_last_one_are_woken(monkeypatch):
    begun, pauses = threading.Event(), []

    def commit(items: list[str], is_rerun: bool) -> list:
        if items == ["f"]:
            begun.set()
        return items

    def pause(seconds: float) -> None:
        pauses.append(begun.wait(60))

    store = Store(commit)
    group = limited(GroupCommit(store.run), batch_max=4)
    outcomes, threads = submit(group, *"abcdef")
    monkeypatch.setattr("gateway_project.db.group_commit.time.sleep", pause)
    store.gate.set()
    for thread in threads:
        thread.join(60)
    assert outcomes == {item: item for item in "abcdef"}
    assert store.batches == [["a"], [*"bcde"], ["f"]]
    assert pauses == [True, True]  # b leads and wakes three callers one at a time, yielding in between


def test_an_interrupted_leader_still_wakes_all_callers(monkeypatch):
    def pause(seconds: float) -> None:
        raise Interrupt

    store = Store()
    monkeypatch.setattr("gateway_project.db.group_commit.time.sleep", pause)
    outcomes = submit_all(store, limited(GroupCommit(store.run), timeout_seconds=60), *"abcdef")
    assert isinstance(outcomes.pop("b"), Interrupt)
    assert outcomes == {item: item.upper() for item in "acdef"}


def test_callers_of_a_large_batch_are_woken_a_few_at_a_time(monkeypatch):
    pauses: list[float] = []
    store, items = Store(), [str(number) for number in range(61)]
    group = GroupCommit(store.run)
    outcomes, threads = submit(group, *items)
    monkeypatch.setattr("gateway_project.db.group_commit.time.sleep", pauses.append)
    store.gate.set()
    for thread in threads:
        thread.join(60)
    assert outcomes == {item: item.upper() for item in items}
    assert [len(batch) for batch in store.batches] == [1, 60]
    assert len(pauses) == 3  # 59 callers in groups of at most sixteen; thirds would be twenty


# --- Locked partitions ---------------------------------------------------------------------------------------------------


class Locks:
    """Commits texts, of which the first letter is the partition, in shared batches and in those of locked partitions."""

    def __init__(self, locked: str, **limits: float) -> None:
        self.locked = set(locked)
        self.unlocked = threading.Event()
        self.batches: list[list[str]] = []  # without those in which everything was skipped
        self.isolated: list[list[str]] = []
        self.reruns: list[str] = []
        self.skipped: list[str] = []
        self.failure: Exception | None = None
        group = GroupCommit[str, str](self.run, run_isolated=self.run_isolated, partition=lambda item: item[0])
        self.group = limited(group, **limits)

    def run(self, items: list[str], is_rerun: bool) -> list:
        if self.failure and not is_rerun:
            raise self.failure
        self.reruns += items if is_rerun else []
        if not self.locked.issuperset(item[0] for item in items):
            self.batches.append(items)
        self.skipped += [item for item in items if item[0] in self.locked]
        return [Skipped() if item[0] in self.locked else item.upper() for item in items]

    def run_isolated(self, items: list[str], is_rerun: bool) -> list:
        self.isolated.append(items)
        assert self.unlocked.wait(60)
        if items[0][0] in self.locked:
            raise StaysLocked from TimeoutError(items[0])
        self.reruns += items if is_rerun else []
        return [item.upper() for item in items]

    def unlock(self) -> None:
        self.locked.clear()
        self.unlocked.set()

    def wait(self, *items: str) -> tuple[dict, list[threading.Thread]]:
        """Submit items of locked partitions, one after another, each when the one before it waits."""
        outcomes: dict = {}
        threads = []
        for item in items:
            threads.append(threading.Thread(target=self.submit, args=(item, outcomes)))
            threads[-1].start()
            until(lambda: self.waits(item))  # noqa: B023
        return outcomes, threads

    def waits(self, item: str) -> bool:
        is_queued = any(ticket.item == item for ticket in self.group._waiting) and item[0] in self.group._isolated
        return is_queued or [item] in self.isolated or self.skipped.count(item) > 3

    def submit(self, item: str, outcomes: dict) -> None:
        try:
            outcomes[item] = self.group.submit(item)
        except BaseException as error:
            outcomes[item] = error


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_items_of_a_locked_partition_wait_in_order_while_others_are_committed():
    locks = Locks("a")
    outcomes, threads = locks.wait("a1", "a2", "a3")
    assert [locks.group.submit(item) for item in ("b1", "c1", "b2")] == ["B1", "C1", "B2"]
    assert outcomes == {}
    locks.unlock()
    join(threads)
    assert outcomes == {"a1": "A1", "a2": "A2", "a3": "A3"}
    assert locks.isolated == [["a1"], ["a2", "a3"]]
    assert locks.batches == [["b1"], ["c1"], ["b2"]]


def test_an_item_that_is_skipped_keeps_its_place():
    locks = Locks("a")
    locks.group._isolated_max = 0  # so that it is never isolated
    run, gate = locks.run, threading.Event()

    def run_and_unlock(items: list[str], is_rerun: bool) -> list:
        outcomes = run(items, is_rerun)
        if items == ["a1"]:
            assert gate.wait(60)
            locks.locked.clear()
        return outcomes

    locks.group._run = run_and_unlock
    outcomes: dict = {}
    threads = [threading.Thread(target=locks.submit, args=(item, outcomes)) for item in ("a1", "a2")]
    threads[0].start()
    until(lambda: locks.skipped == ["a1"])
    threads[1].start()
    until(lambda: [ticket.item for ticket in locks.group._waiting] == ["a2"])
    gate.set()
    join(threads)
    assert locks.batches == [["a1", "a2"]]


def test_a_partition_returns_to_the_shared_batches_when_none_of_its_items_waits():
    locks = Locks("a", timeout_seconds=1)  # only with a fault does anybody wait so long
    _, threads = locks.wait("a1")
    locks.unlock()
    join(threads)
    assert locks.group.submit("a2") == "A2"
    assert (locks.isolated, locks.batches) == ([["a1"]], [["a2"]])


def test_a_partition_that_is_locked_for_a_moment_is_not_isolate():
    locks = Locks("a")
    run = locks.run

    def run_and_unlock(items: list[str], is_rerun: bool) -> list:
        outcomes = run(items, is_rerun)
        locks.locked.clear()
        return outcomes

    locks.group._run = run_and_unlock
    assert locks.group.submit("a1") == "A1"
    assert (locks.isolated, locks.batches) == ([], [["a1"]])


def test_all_who_wait_for_a_partition_that_stays_locked_get_the_cause():
    locks = Locks("a", refused_seconds=0)
    outcomes, threads = locks.wait("a1", "a2", "a3")
    locks.unlocked.set()
    join(threads)
    assert [str(outcomes[item]) for item in ("a1", "a2", "a3")] == ["a1"] * 3
    assert {type(outcome) for outcome in outcomes.values()} == {TimeoutError}
    assert locks.isolated == [["a1"]]
    locks.locked.clear()
    assert locks.group.submit("a4") == "A4"


def test_a_partition_that_stayed_locked_is_refused_at_once_for_a_time(monkeypatch):
    locks = Locks("a", refused_seconds=60)
    _, threads = locks.wait("a1")
    locks.unlocked.set()
    join(threads)
    with pytest.raises(WaitTimedOut):
        locks.group.submit("a2")
    assert locks.group.submit("b1") == "B1"
    assert locks.isolated == [["a1"]]
    locks.locked.clear()
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert locks.group.submit("a3") == "A3"


def test_a_partition_that_stayed_locked_is_tried_again_without_waiting():
    locks = Locks("a", refused_seconds=0)
    _, threads = locks.wait("a1")
    locks.unlocked.set()
    join(threads)
    with pytest.raises(WaitTimedOut):
        locks.group.submit("a2")
    assert locks.skipped.count("a2") == 2
    assert locks.isolated == [["a1"]]  # where it would wait
    locks.locked.clear()
    assert locks.group.submit("a3") == "A3"
    assert locks.isolated == [["a1"]]


def test_a_partition_that_was_tried_and_committed_waits_for_its_rows_again():
    locks = Locks("a", refused_seconds=0)
    _, threads = locks.wait("a1")
    locks.unlocked.set()
    join(threads)
    locks.locked.clear()
    assert locks.group.submit("a2") == "A2"
    locks.locked.add("a")
    locks.unlocked.clear()
    outcomes, threads = locks.wait("a3")
    locks.unlock()
    join(threads)
    assert outcomes == {"a3": "A3"}
    assert locks.isolated == [["a1"], ["a3"]]


def test_one_item_of_a_partition_that_stayed_locked_is_tried_at_a_time(monkeypatch):
    locks = Locks("a", refused_seconds=60)
    _, threads = locks.wait("a1")
    locks.unlocked.set()
    join(threads)
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    for item in ("a2", "a3"):
        with pytest.raises(WaitTimedOut):
            locks.group.submit(item)
    assert (locks.skipped.count("a2"), locks.skipped.count("a3")) == (2, 0)


def test_a_partition_that_was_tried_until_its_time_was_over_is_refused_at_once():
    locks = Locks("ab", isolated_max=1, timeout_seconds=0.1, refused_seconds=60)
    locks.group._isolated.add("a")  # there is no room
    with pytest.raises(WaitTimedOut):
        locks.group.submit("b1")
    with pytest.raises(WaitTimedOut):
        locks.group.submit("b2")
    assert "b2" not in locks.skipped


def test_more_locked_partitions_than_can_be_isolate_are_tried_again_in_shared_batches():
    locks = Locks("ab", isolated_max=1, timeout_seconds=60)
    outcomes, threads = locks.wait("a1", "b1")
    assert locks.group.submit("c1") == "C1"
    assert outcomes == {}
    locks.unlock()
    join(threads)
    assert outcomes == {"a1": "A1", "b1": "B1"}
    assert locks.isolated[0] == ["a1"]


def test_an_item_that_is_tried_again_and_again_times_out():
    locks = Locks("ab", isolated_max=1, timeout_seconds=0.1)
    locks.group._isolated.add("a")  # there is no room
    with pytest.raises(WaitTimedOut):
        locks.group.submit("b1")
    assert locks.group.submit("c1") == "C1"
    assert locks.batches == [["c1"]]


def test_only_so_many_items_wait_for_a_locked_partition():
    locks = Locks("a", waiting_max=2)
    outcomes, threads = locks.wait("a1", "a2", "a3")
    with pytest.raises(WaitTimedOut):
        locks.group.submit("a4")
    assert locks.group.submit("b1") == "B1"
    locks.unlock()
    join(threads)
    assert outcomes == {"a1": "A1", "a2": "A2", "a3": "A3"}


def test_an_item_that_is_skipped_in_a_rerun_is_still_rerun_isolated():
    locks = Locks("a")
    locks.failure = OutcomeUnknown()
    outcomes, threads = locks.wait("a1")
    locks.failure = None
    locks.unlock()
    join(threads)
    assert outcomes == {"a1": "A1"}
    assert set(locks.reruns) == {"a1"}
    assert locks.isolated == [["a1"]]
    assert locks.reruns[-1] == "a1"


def test_an_interrupted_caller_does_not_block_its_isolated_partition(monkeypatch):
    interrupter, locks = Interrupter(monkeypatch, "a2"), Locks("a")
    outcomes, threads = locks.wait("a1", "a2", "a3")
    interrupter.now.set()
    until(lambda: len(locks.group._waiting) == 1)
    locks.unlock()
    threads[0].join(60)
    threads[2].join(60)
    assert isinstance(outcomes.pop("a2"), Interrupt)
    assert outcomes == {"a1": "A1", "a3": "A3"}
    assert locks.isolated == [["a1"], ["a3"]]


# --- All locked -------------------------------------------------------------------------------------------------------------


class Outage:
    """Commits texts, unless what all need is locked. Counts the batches and the probes."""

    def __init__(self, **limits: float) -> None:
        self.is_locked = True
        self.batches: list[list[str]] = []
        self.probes = 0
        self.begun, self.ends = threading.Event(), threading.Event()
        self.group = limited(GroupCommit[str, str](self.run, probe=self.probe), **limits)

    def run(self, items: list[str], is_rerun: bool) -> list:
        self.batches.append(items)
        self.begun.set()
        assert self.ends.wait(60)
        if self.is_locked:
            raise Unavailable from TimeoutError(items[0])
        return [item.upper() for item in items]

    def probe(self) -> None:
        self.probes += 1
        if self.is_locked:
            raise TimeoutError("locked still")


def test_after_one_wait_in_vain_all_who_wait_get_the_cause_and_no_batch_runs():
    outage = Outage(refused_seconds=60)
    outcomes, threads = submit(outage.group, "a", "b", "c")
    outage.ends.set()
    join(threads)
    assert {item: (type(outcome), str(outcome)) for item, outcome in outcomes.items()} == dict.fromkeys(
        "abc", (TimeoutError, "a")
    )
    with pytest.raises(WaitTimedOut) as refusal:
        outage.group.submit("d")
    assert str(refusal.value.__cause__) == "a"
    assert (outage.batches, outage.probes) == ([["a"]], 0)


def test_all_are_refused_without_a_batch_until_a_probe_succeeds():
    outage = Outage(refused_seconds=0)
    outage.ends.set()
    with pytest.raises(TimeoutError):
        outage.group.submit("a")
    for item in "bc":
        with pytest.raises(TimeoutError, match="locked still"):
            outage.group.submit(item)
    assert (outage.batches, outage.probes) == ([["a"]], 2)
    outage.is_locked = False
    assert [outage.group.submit(item) for item in "de"] == ["D", "E"]
    assert (outage.batches, outage.probes) == ([["a"], ["d"], ["e"]], 3)


def test_one_caller_at_a_time_probes(monkeypatch):
    outage = Outage(refused_seconds=60)
    outage.ends.set()
    with pytest.raises(TimeoutError):
        outage.group.submit("a")
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with pytest.raises(TimeoutError, match="locked still"):
        outage.group.submit("b")
    with pytest.raises(WaitTimedOut):
        outage.group.submit("c")
    assert outage.probes == 1


# --- Greenlets ---


@pytest.fixture
def greenlets(monkeypatch):
    monkeypatch.setattr(group_commit, "_ticket_class", _GreenletTicket)


def test_greenlets_share_batches_and_get_an_outcome_each(greenlets):
    batches = []

    def run(items: list[str], is_rerun: bool) -> list[Any]:
        batches.append(items)
        gevent.sleep(0.01)
        return [item.upper() for item in items]

    group: GroupCommit[str, str] = GroupCommit(run)
    waiting = [gevent.spawn(group.submit, item) for item in "abcde"]
    assert [each.get(timeout=10) for each in waiting] == list("ABCDE")
    assert batches == [["a"], ["b", "c", "d", "e"]]


def test_a_greenlet_that_is_woken_before_it_waits_does_not_wait():
    ticket = _GreenletTicket("a")
    ticket.wake()
    ticket.wake()
    assert ticket.wait(60) is True
    assert ticket.wait(0.01) is False  # each wake ends one wait


def test_a_greenlet_waits_again_when_it_was_woken_too_late():
    ticket = _GreenletTicket("a")

    def wait() -> list[bool]:
        with gevent.Timeout(0.05, False):
            ticket.wait(60)
        ticket.wake()  # nobody waits
        return [ticket.wait(60), ticket.wait(0.2)]

    assert gevent.spawn(wait).get(timeout=10) == [True, False]


def test_a_greenlet_that_gives_up_is_not_woken_elsewhere():
    ticket = _GreenletTicket("a")

    def wait() -> tuple[bool, float]:
        with gevent.Timeout(0.05, False):
            ticket.wait(60)
        began_at = time.monotonic()
        gevent.sleep(0.1)
        return ticket.wait(0), time.monotonic() - began_at

    waiting = gevent.spawn(wait)
    gevent.sleep(0.08)
    ticket.wake()
    was_woken, slept_seconds = waiting.get(timeout=10)
    assert was_woken
    assert slept_seconds >= 0.1
