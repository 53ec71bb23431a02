"""What is written for usage: holds, entries, and the rows of their accounts."""

from django.db import connection, transaction

from billing import locks
from billing.ledger import holds, movements, writer
from billing.ledger.movements import NewHold
from billing.models import Account, Hold
from gateway_project.db import pipelined_transaction
from tests import usage


def test_an_account_counts_each_hold_of_a_batch(alice, charlie):
    placed = [
        NewHold(name, account.pk, 5, usage.TOMORROW) for name, account in (("one", alice), ("two", charlie), ("three", alice))
    ]
    with transaction.atomic():
        pipelined_transaction.execute(movements.write_statement(placed=placed))
    counts = Account.objects.values_list("open_holds", "held_nanos")
    assert [counts.get(pk=account.pk) for account in (alice, charlie)] == [(2, 10), (1, 5)]


def test_an_account_changes_once_for_all_that_is_written(alice, charlie):
    usage.place(alice, 7, reference="one")
    before, updated = usage.numbers(alice), _updated_accounts()
    with transaction.atomic():
        account = locks.lock_account(alice.pk)
        hold = Hold.objects.get(pk="one")
        holds.resolve(account, hold, Hold.State.SETTLED, cost_nanos=3)
        entry = writer.debit_usage(
            account,
            cost_nanos=3,
            reference="one",
            model="demo/echo",
            settlement="reported",
            prompt_tokens=1,
            completion_tokens=2,
        )
        placed = [NewHold(name, each.pk, 5, usage.TOMORROW) for name, each in (("two", alice), ("three", charlie))]
        pipelined_transaction.execute(movements.write_statement([hold], placed, [entry]))
    after = usage.numbers(alice)
    assert (after["balance"], after["seq"]) == (before["balance"] - 3, before["seq"] + 1)
    assert list(Account.objects.filter(held_nanos=5, open_holds=1).order_by("pk")) == sorted(
        [alice, charlie], key=lambda each: each.pk
    )
    assert dict(Hold.objects.values_list("pk", "state")) == {"one": "SETTLED", "two": "HELD", "three": "HELD"}
    assert _updated_accounts() - updated == 2
    assert usage.violations() == []


def _updated_accounts() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_get_xact_tuples_updated('billing_account'::regclass)")
        return cursor.fetchone()[0]
