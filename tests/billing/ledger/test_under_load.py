"""Concurrent operations with real threads and real commits, then the audit."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Q

from billing import money
from billing.ledger import writer
from billing.models import Account, Hold, LedgerEntry
from gateway_project import errors
from tests import factories, usage
from tests.waiting import somebody_waits, until

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what ``work(0)`` to ``work(count - 1)`` return or raise, each in its own thread and database connection."""
    outcomes: list[Any] = [None] * count
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            outcomes[number] = work(number)
        except Exception as error:
            outcomes[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_of_twenty_concurrent_holds_exactly_the_covered_ones_are_placed():
    account = factories.make_account("Alice", cents=10)
    outcomes = at_once(20, lambda number: usage.place(account, money.nanos(1)))
    assert Counter(map(type, outcomes)) == {Hold: 10, errors.TiedUp: 10}
    numbers = usage.numbers(account)
    assert (numbers["balance"], numbers["held"], len(numbers["holds"])) == (money.nanos(10), money.nanos(10), 10)
    assert usage.violations() == []

    held = [outcome for outcome in outcomes if isinstance(outcome, Hold)]
    at_once(10, lambda number: usage.settle(account, held[number], money.nanos(1)))
    assert (usage.numbers(account)["balance"], usage.numbers(account)["held"]) == (0, 0)
    assert Counter(map(type, at_once(5, lambda number: usage.place(account, 1)))) == {errors.InsufficientQuota: 5}
    assert usage.violations() == []


def test_placing_a_hold_waits_for_concurrent_holds_and_counts_them():
    account = factories.make_account("Alice", cents=10)
    first = threading.Event()

    def work(number: int) -> Any:
        if number == 0:
            with transaction.atomic():
                usage.place(account, money.nanos(10), reference="all of it")
                first.set()
                until(somebody_waits)
            return None
        assert first.wait(60)
        return usage.place(account, 1)

    assert [type(outcome) for outcome in at_once(2, work)] == [type(None), errors.TiedUp]
    assert usage.numbers(account)["holds"] == [("all of it", "HELD", money.nanos(10), None)]


def test_concurrent_grants_with_one_reference_credit_once():
    account = factories.make_account("Bob")
    outcomes = at_once(
        10, lambda number: writer.grant_support_credit(account.pk, amount_cents=500, reason="sorry", reference="ticket-1")
    )
    assert len({booked.entry.pk for booked in outcomes}) == 1
    assert [booked.is_new for booked in outcomes].count(True) == 1
    assert usage.numbers(account)["entries"] == [("SUPPORT_CREDIT", money.nanos(500), "support:ticket-1")]
    assert usage.violations() == []


def test_a_hold_resolved_concurrently_is_resolved_once():
    account = factories.make_account("Alice", cents=1000)
    ways = [lambda account, hold: usage.settle(account, hold, 7), usage.release, usage.expire]
    for _ in range(5):
        hold = usage.place(account, 10)
        outcomes = at_once(9, lambda number: ways[number % 3](account, hold))  # noqa: B023  ends within the iteration
        assert Counter(map(type, outcomes)) == {Hold: 1, type(None): 8}
    assert usage.numbers(account)["held"] == 0
    assert usage.violations() == []


def test_a_payment_claimed_concurrently_is_booked_for_one_account():
    accounts = [factories.make_account(f"Claimant {number}") for number in range(6)]
    outcomes = at_once(6, lambda number: usage.buy(accounts[number], 500, "pi_1"))
    assert Counter(map(type, outcomes)) == {writer.BookedEntry: 1, writer.ReferenceReused: 5}
    assert LedgerEntry.objects.count() == 1
    assert usage.violations() == []


def test_the_ledger_is_consistent_after_concurrent_operations():
    accounts = [factories.make_account(name, cents=50) for name in ("Alice", "Bob", "Charlie")]

    def work(number: int) -> str:
        dice = random.Random(number)
        for step in range(25):
            account, cost = dice.choice(accounts), dice.randrange(0, money.nanos(20))
            settle_half = partial(usage.settle, nanos=cost // 2)
            resolutions: list[Callable[..., Any]] = [usage.release, usage.expire, settle_half]
            resolve = dice.choice(resolutions)
            with suppress(errors.TiedUp, errors.InsufficientQuota):
                assert resolve(account, usage.place(account, cost)) is not None
            usage.buy(accounts[step % 3], step + 1, f"pi_{step}")  # every thread books the same payments
        return "done"

    assert at_once(8, work) == ["done"] * 8
    assert usage.violations() == []
    purchases = LedgerEntry.objects.filter(type="CREDIT_PURCHASE")
    assert sorted(purchases.values_list("amount_nanos", flat=True)) == [money.nanos(cents) for cents in range(1, 26)]
    assert not Account.objects.filter(Q(balance_nanos__lt=0) | ~Q(held_nanos=0)).exists()
