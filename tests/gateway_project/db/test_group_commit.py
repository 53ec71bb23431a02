"""Concurrent callers share a transaction, and nobody's fault is another's."""

import threading
import time
from collections.abc import Callable

import pytest

from gateway_project.db.group_commit import GroupCommit, OutcomeUnknown, WaitTimedOut, _Ticket


class Store:
    """Commits batches of texts: the first when the test lets it, the others at once."""

    def __init__(self, commit: Callable[[list[str], bool], list] | None = None) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.batches: list[list[str]] = []
        self._commit = commit or (lambda items, is_rerun: [item.upper() for item in items])

    def run(self, items: list[str], is_rerun: bool) -> list:
        self.batches.append(items)
        if len(self.batches) == 1:
            self.entered.set()
            assert self.gate.wait(10)
        return self._commit(items, is_rerun)


def submit(group: GroupCommit, *items: str) -> tuple[dict, list[threading.Thread]]:
    """Each item from a thread of its own, in this order. What each was told, when the threads have ended."""
    told: dict = {}

    def one(item: str) -> None:
        try:
            told[item] = group.submit(item)
        except BaseException as error:
            told[item] = error

    threads = []
    for item in items:
        threads.append(threading.Thread(target=one, args=(item,)))
        threads[-1].start()
        while not (group._has_leader and (len(threads) == 1 or len(group._waiting) == len(threads) - 1)):
            threading.Event().wait(0.001)
    return told, threads


def after(store: Store, group: GroupCommit, *items: str) -> dict:
    told, threads = submit(group, *items)
    assert store.entered.wait(10)
    store.gate.set()
    for thread in threads:
        thread.join(10)
    return told


def test_a_lone_caller_is_a_batch_of_one():
    store = Store()
    store.gate.set()
    assert GroupCommit(store.run).submit("a") == "A"
    assert store.batches == [["a"]]


def test_those_who_come_while_a_batch_is_committed_are_the_next_in_their_order():
    store = Store()
    assert after(store, GroupCommit(store.run), "a", "b", "c", "d") == {"a": "A", "b": "B", "c": "C", "d": "D"}
    assert store.batches == [["a"], ["b", "c", "d"]]


def test_a_batch_has_a_bound():
    store = Store()
    told = after(store, GroupCommit(store.run, batch_max=2), "a", "b", "c", "d")
    assert set(told.values()) == {"A", "B", "C", "D"}
    assert store.batches == [["a"], ["b", "c"], ["d"]]


def test_a_refusal_is_raised_to_its_own_caller():
    store = Store(lambda items, is_rerun: [ValueError(item) if item == "c" else item for item in items])
    told = after(store, GroupCommit(store.run), "a", "b", "c", "d")
    assert isinstance(told.pop("c"), ValueError)
    assert told == {"a": "a", "b": "b", "d": "d"}
    assert store.batches == [["a"], ["b", "c", "d"]]


def test_one_poisoned_item_fails_alone():
    def commit(items: list[str], is_rerun: bool) -> list:
        if "c" in items:
            raise ValueError("poisoned")
        return items

    store = Store(commit)
    told = after(store, GroupCommit(store.run), "a", "b", "c", "d")
    assert isinstance(told.pop("c"), ValueError)
    assert told == {"a": "a", "b": "b", "d": "d"}
    assert store.batches == [["a"], ["b", "c", "d"], ["b"], ["c"], ["d"]]


def test_after_a_lost_connection_the_batch_is_run_again_once():
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


def test_a_store_that_stays_lost_is_said_to_everybody():
    def commit(items: list[str], is_rerun: bool) -> list:
        raise OutcomeUnknown

    store = Store(commit)
    told = after(store, GroupCommit(store.run), "a", "b", "c")
    assert [type(told[item]) for item in "abc"] == [OutcomeUnknown] * 3
    assert store.batches == [["a"], ["a"], ["b", "c"], ["b", "c"]]


def test_who_waited_too_long_for_a_turn_is_told_and_never_committed():
    store = Store()
    group = GroupCommit(store.run, timeout_seconds=0.05)
    told, threads = submit(group, "a", "b")
    threads[1].join(10)
    store.gate.set()
    threads[0].join(10)
    assert told["a"] == "A"
    assert isinstance(told["b"], WaitTimedOut)
    assert store.batches == [["a"]]


def test_what_is_committed_after_its_caller_left_stands():
    second = threading.Event()

    def commit(items: list[str], is_rerun: bool) -> list:
        if items != ["a"]:
            assert second.wait(10)
        return [item.upper() for item in items]

    store = Store(commit)
    group = GroupCommit(store.run, timeout_seconds=0.2)
    told, threads = submit(group, "a", "b", "c")
    store.gate.set()
    threads[2].join(10)  # c waits for the batch that b leads
    second.set()
    threads[1].join(10)
    assert isinstance(told["c"], WaitTimedOut)
    assert told["b"] == "B"
    assert store.batches == [["a"], ["b", "c"]]


@pytest.mark.parametrize("failure", [KeyError, OutcomeUnknown])
def test_what_failed_is_not_tried_again_for_who_has_left(failure):
    failures, left = [failure], threading.Event()

    def commit(items: list[str], is_rerun: bool) -> list:
        if items != ["a"] and failures:
            assert left.wait(10)
            raise failures.pop()
        return [item.upper() for item in items]

    store = Store(commit)
    group = GroupCommit(store.run, timeout_seconds=0.2)
    told, threads = submit(group, "a", "b", "c", "d")
    store.gate.set()
    for thread in threads[2:]:
        thread.join(10)  # c and d wait for the batch that b leads
    left.set()
    threads[1].join(10)
    assert told.pop("b") == "B"
    assert all(isinstance(told[item], WaitTimedOut) for item in "cd")
    assert store.batches == [["a"], ["b", "c", "d"], ["b"]]


def test_the_group_serves_on_after_every_kind_of_failure():
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


# --- An alarm of the caller's own --------------------------------------------------------------------------------


class Alarm(BaseException):
    """What an event loop raises in who waits, wherever it waits."""


class Bells:
    """Rings an alarm in the wait of whoever has this item, when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, item: str) -> None:
        self.now = threading.Event()
        wait = _Ticket.wait

        def waiting(ticket: _Ticket, seconds: float) -> bool:
            if ticket.item != item:
                return wait(ticket, seconds)
            assert self.now.wait(10)
            raise Alarm

        monkeypatch.setattr(_Ticket, "wait", waiting)


def test_who_is_called_away_while_it_waits_is_never_committed(monkeypatch):
    bells, store = Bells(monkeypatch, "b"), Store()
    group = GroupCommit(store.run)
    told, threads = submit(group, "a", "b", "c")
    bells.now.set()
    threads[1].join(10)
    store.gate.set()
    for thread in threads:
        thread.join(10)
    assert isinstance(told.pop("b"), Alarm)
    assert told == {"a": "A", "c": "C"}
    assert store.batches == [["a"], ["c"]]


def test_when_who_is_to_lead_is_called_away_somebody_else_leads(monkeypatch):
    bells, store = Bells(monkeypatch, "b"), Store()
    group = GroupCommit(store.run)
    told, threads = submit(group, "a", "b", "c", "d")
    store.gate.set()
    threads[0].join(10)  # b leads from now on, and does not know it yet
    bells.now.set()
    for thread in threads:
        thread.join(10)
    assert isinstance(told.pop("b"), Alarm)
    assert told == {"a": "A", "c": "C", "d": "D"}
    assert store.batches == [["a"], ["c", "d"]]
    assert group.submit("e") == "E"


def test_who_gives_up_in_the_moment_in_which_it_is_made_to_lead_leads(monkeypatch):
    wait = _Ticket.wait

    def waiting(ticket: _Ticket, seconds: float) -> bool:
        if ticket.item != "b":
            return wait(ticket, seconds)
        while not ticket.is_leader:
            time.sleep(0.001)
        return False

    monkeypatch.setattr(_Ticket, "wait", waiting)
    store = Store()
    assert after(store, GroupCommit(store.run), "a", "b", "c") == {"a": "A", "b": "B", "c": "C"}
    assert store.batches == [["a"], ["b", "c"]]


def test_when_the_last_one_is_called_away_the_group_still_serves(monkeypatch):
    bells, store = Bells(monkeypatch, "b"), Store()
    group = GroupCommit(store.run)
    told, threads = submit(group, "a", "b")
    store.gate.set()
    threads[0].join(10)
    bells.now.set()
    threads[1].join(10)
    assert isinstance(told["b"], Alarm)
    assert group.submit("c") == "C"
    assert store.batches == [["a"], ["c"]]


def test_who_is_called_away_when_it_was_committed_leaves_the_others_their_turn(monkeypatch):
    bells, store = Bells(monkeypatch, "c"), Store()
    group = GroupCommit(store.run)
    told, threads = submit(group, "a", "b", "c")
    store.gate.set()
    for thread in threads[:2]:
        thread.join(10)  # c is done, and does not know it yet
    bells.now.set()
    threads[2].join(10)
    assert isinstance(told.pop("c"), Alarm)
    assert told == {"a": "A", "b": "B"}
    assert group.submit("d") == "D"


def test_an_alarm_in_who_leads_leaves_the_others_their_turn():
    def commit(items: list[str], is_rerun: bool) -> list:
        if items == ["a"]:
            raise Alarm
        return [item.upper() for item in items]

    store = Store(commit)
    told = after(store, GroupCommit(store.run), "a", "b", "c")
    assert isinstance(told.pop("a"), Alarm)
    assert told == {"b": "B", "c": "C"}
    assert store.batches == [["a"], ["b", "c"]]


def test_the_next_batch_is_begun_before_all_of_the_last_one_are_woken(monkeypatch):
    begun, blinks = threading.Event(), []

    def commit(items: list[str], is_rerun: bool) -> list:
        if items == ["f"]:
            begun.set()
        return items

    def blink(seconds: float) -> None:
        blinks.append(begun.wait(10))

    store = Store(commit)
    group = GroupCommit(store.run, batch_max=4)
    told, threads = submit(group, *"abcdef")
    monkeypatch.setattr("gateway_project.db.group_commit.time.sleep", blink)
    store.gate.set()
    for thread in threads:
        thread.join(10)
    assert told == {item: item for item in "abcdef"}
    assert store.batches == [["a"], [*"bcde"], ["f"]]
    assert blinks == [True, True]  # b leads, and wakes three: one, and one, and one, and others have a turn in between


def test_an_alarm_in_who_wakes_the_others_leaves_none_asleep(monkeypatch):
    def blink(seconds: float) -> None:
        raise Alarm

    store = Store()
    monkeypatch.setattr("gateway_project.db.group_commit.time.sleep", blink)
    told = after(store, GroupCommit(store.run, timeout_seconds=60), *"abcdef")
    assert isinstance(told.pop("b"), Alarm)
    assert told == {item: item.upper() for item in "acdef"}


def test_of_a_large_batch_a_few_are_woken_at_a_time(monkeypatch):
    blinks: list[float] = []
    store, items = Store(), [str(number) for number in range(61)]
    group = GroupCommit(store.run)
    told, threads = submit(group, *items)
    monkeypatch.setattr("gateway_project.db.group_commit.time.sleep", blinks.append)
    store.gate.set()
    for thread in threads:
        thread.join(10)
    assert told == {item: item.upper() for item in items}
    assert [len(batch) for batch in store.batches] == [1, 60]
    assert len(blinks) == 3  # 59 in sixteens; thirds would be 20
