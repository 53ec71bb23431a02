"""Holds reserve money within the available balance, and are resolved once."""

import pytest
from django.db import connection

from billing import locks, tasks
from billing.models import Account, Hold
from gateway_project import errors
from gateway_project.text import dollars
from tests import usage
from tests.waiting import meanwhile

DOLLAR = dollars.NANOS_PER_DOLLAR


def test_a_hold_reserves_money_and_books_nothing(alice):
    hold = usage.place(alice, 3 * DOLLAR, reference="one")
    assert (hold.state, hold.settled_nanos, hold.resolved_at) == ("HELD", None, None)
    numbers = usage.numbers(alice)
    assert (numbers["balance"], numbers["held"], numbers["seq"]) == (10 * DOLLAR, 3 * DOLLAR, 1)


def test_the_whole_balance_can_be_held_to_the_nanodollar(alice):
    usage.place(alice, 10 * DOLLAR)
    with pytest.raises(errors.TiedUp):
        usage.place(alice, 1)
    assert Hold.objects.count() == 1


def test_funds_held_by_running_requests_are_refused_as_tied_up(alice):
    usage.place(alice, 6 * DOLLAR)
    before = usage.numbers(alice)
    with pytest.raises(errors.TiedUp) as refusal:
        usage.place(alice, 5 * DOLLAR)
    assert (refusal.value.status, refusal.value.code) == (429, "rate_limit_exceeded")
    assert refusal.value.headers == {"Retry-After": "1", "retry-after-ms": "1000"}
    assert usage.numbers(alice) == before


def test_an_exactly_sufficient_balance_is_tied_up(alice):
    usage.place(alice, 1)
    with pytest.raises(errors.TiedUp):
        usage.place(alice, 10 * DOLLAR)


def test_an_insufficient_balance_is_refused_with_both_amounts(alice):
    before = usage.numbers(alice)
    with pytest.raises(errors.InsufficientQuota, match=r"up to \$10\.000000001 and the balance is \$10\.00") as refusal:
        usage.place(alice, 10 * DOLLAR + 1)
    assert (refusal.value.status, refusal.value.code) == (402, "insufficient_quota")
    assert refusal.value.headers == {"x-should-retry": "false"}
    assert usage.numbers(alice) == before


def test_nothing_can_be_held_below_zero(bob):
    usage.refund(bob, 1, "re_1")
    with pytest.raises(errors.InsufficientQuota):
        usage.place(bob, 0)
    assert not Hold.objects.exists()


def test_settling_charges_the_cost_and_frees_the_rest(alice):
    hold = usage.place(alice, 3 * DOLLAR)
    settled = usage.settle(alice, hold, DOLLAR)
    assert (settled.state, settled.settled_nanos) == ("SETTLED", DOLLAR)
    numbers = usage.numbers(alice)
    assert (numbers["balance"], numbers["held"], numbers["seq"]) == (9 * DOLLAR, 0, 2)
    assert numbers["holds"] == [(hold.pk, "SETTLED", 3 * DOLLAR, DOLLAR)]
    assert numbers["entries"][-1] == ("USAGE_DEBIT", -DOLLAR, hold.pk)
    assert Hold.objects.get().resolved_at is not None


def test_no_more_is_settled_than_was_held(alice):
    hold = usage.place(alice, 3 * DOLLAR)
    assert usage.settle(alice, hold, 4 * DOLLAR).settled_nanos == 3 * DOLLAR
    assert usage.numbers(alice)["balance"] == 7 * DOLLAR


@pytest.mark.parametrize(("resolve", "state"), [(usage.release, "RELEASED"), (usage.expire, "EXPIRED")])
def test_releasing_frees_the_hold_and_books_nothing(alice, resolve, state):
    hold = usage.place(alice, 3 * DOLLAR)
    assert resolve(alice, hold) is not None
    numbers = usage.numbers(alice)
    assert (numbers["balance"], numbers["held"], numbers["seq"]) == (10 * DOLLAR, 0, 1)
    assert numbers["holds"] == [(hold.pk, state, 3 * DOLLAR, None)]


RESOLUTIONS = {
    "settle": lambda account, hold: usage.settle(account, hold, DOLLAR),
    "release": usage.release,
    "expire": usage.expire,
}


@pytest.mark.parametrize("second", RESOLUTIONS)
@pytest.mark.parametrize("first", RESOLUTIONS)
def test_resolving_twice_changes_nothing(alice, first, second):
    hold = usage.place(alice, 3 * DOLLAR)
    other = usage.place(alice, 2 * DOLLAR)
    RESOLUTIONS[first](alice, hold)
    before = usage.numbers(alice)
    assert RESOLUTIONS[second](alice, hold) is None
    assert usage.numbers(alice) == before
    assert before["held"] == other.amount_nanos


def test_an_empty_account_can_hold_zero(bob):
    hold = usage.place(bob, 0)
    assert usage.settle(bob, hold, 0).settled_nanos == 0
    assert usage.numbers(bob)["entries"] == [("USAGE_DEBIT", 0, hold.pk)]


def test_a_wrong_number_of_open_holds_is_corrected(alice, charlie, caplog):
    usage.place(alice, 5)
    usage.release(alice, usage.place(alice, 5))
    usage.place(charlie, 5)
    Account.objects.filter(pk=alice.pk).update(open_holds=7)
    assert tasks.correct_open_holds() == 1
    assert dict(Account.objects.values_list("pk", "open_holds")) == {alice.pk: 1, charlie.pk: 1}
    assert str(alice.pk) in caplog.text
    assert tasks.correct_open_holds() == 0


@pytest.mark.django_db(transaction=True)
def test_a_locked_account_keeps_no_other_accounts_number_from_being_corrected(alice, charlie, caplog, monkeypatch):
    Account.objects.update(open_holds=7)
    monkeypatch.setitem(connection.settings_dict["SESSION"], "lock_timeout", "300ms")  # also of connections of other threads
    connection.close()
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        assert tasks.correct_open_holds() == 1
    connection.close()
    assert dict(Account.objects.values_list("pk", "open_holds")) == {alice.pk: 7, charlie.pk: 0}
    assert f"account {alice.pk} is locked by another session" in caplog.text
    assert tasks.correct_open_holds() == 1
