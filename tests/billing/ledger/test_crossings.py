"""An alert is written with what it is about: once each time that a balance falls below its threshold."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from billing import locks
from billing.ledger import writer
from billing.models import Account, AccountAlert
from tests import factories, usage

CENT = 10_000_000


def with_threshold(threshold_cents, **fields):
    account = factories.make_account(**fields)
    Account.objects.filter(pk=account.pk).update(warning_threshold_cents=threshold_cents)
    account.refresh_from_db()
    return account


def balances_warned_of(account):
    alerts = AccountAlert.objects.filter(account=account, kind="BALANCE_LOW")
    return [each.data["balance_nanos"] for each in alerts.order_by("-data__balance_nanos")]


@pytest.mark.django_db
def test_a_new_account_is_warned_below_five_dollars():
    account = factories.make_account(cents=501)
    usage.spend(account, CENT)
    assert balances_warned_of(account) == []
    usage.spend(account, 1)
    assert balances_warned_of(account) == [500 * CENT - 1]
    [alert] = AccountAlert.objects.all()
    assert alert.data == {"threshold_nanos": 500 * CENT, "balance_nanos": 500 * CENT - 1}


@pytest.mark.django_db
def test_a_balance_that_stays_low_is_told_once_and_again_after_it_was_not_low():
    account = with_threshold(10, cents=11)
    for _ in range(3):
        usage.spend(account, 2 * CENT)
    factories.credit(account, 4)  # 9 cents: still low
    usage.spend(account, CENT)
    assert balances_warned_of(account) == [9 * CENT]
    factories.credit(account, 2)  # 10 cents: not below
    assert len(balances_warned_of(account)) == 1
    usage.spend(account, CENT)
    assert len(balances_warned_of(account)) == 2


@pytest.mark.django_db
def test_a_refund_that_takes_the_balance_below_is_told():
    account = with_threshold(10)
    usage.buy(account, 12, "one")
    usage.refund(account, 12, "one")
    usage.refund(account, 12, "one")  # the same: booked once
    assert balances_warned_of(account) == [0]


@pytest.mark.django_db
@pytest.mark.parametrize("cents", [None, 1])
def test_without_a_threshold_or_above_it_nothing_is_told(cents):
    account = with_threshold(cents, cents=11)
    usage.spend(account, 10 * CENT)
    assert AccountAlert.objects.count() == 0


@pytest.mark.django_db
def test_a_warning_is_undone_with_what_it_is_about():
    account = with_threshold(10, cents=11)
    with transaction.atomic():
        usage.spend(account, 5 * CENT)
        assert len(balances_warned_of(account)) == 1
        transaction.set_rollback(True)
    assert balances_warned_of(account) == []


@pytest.mark.django_db(transaction=True)
def test_of_many_debits_and_credits_at_once_each_crossing_is_told_once():
    """What the book says is compared with what was told: both count the entries that took the balance below."""
    account = with_threshold(50, cents=60)
    begun = threading.Barrier(8)

    def move(place):
        begun.wait()
        try:
            for step in range(12):
                with transaction.atomic():
                    locked = locks.lock_account(account.pk)
                    if (place + step) % 2:
                        usage.debit(locked, min(7 * CENT, locked.balance_nanos), f"{place}-{step}")
                    else:
                        writer.credit_purchase(locked, amount_cents=7, processor="stripe", payment_id=f"{place}-{step}")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(move, range(8)))
    low = [
        entry.balance_after_nanos
        for entry in account.entries.all()
        if entry.balance_after_nanos < 50 * CENT <= entry.balance_after_nanos - entry.amount_nanos
    ]
    assert low
    assert sorted(balances_warned_of(account)) == sorted(low)
