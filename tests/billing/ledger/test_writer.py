"""``ledger`` writes an entry together with the new balance, once for each reference."""

from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from billing import locks, money
from billing.ledger import writer
from billing.models import Account, LedgerEntry
from tests import factories, usage


def grant(account, cents=500, reference="ticket-1", **fields):
    return writer.grant_support_credit(account.pk, amount_cents=cents, reason="sorry", reference=reference, **fields)


def test_a_grant_records_issuer_and_reason(bob):
    staff = factories.make_user("staff@example.org")
    booked = grant(bob, issued_by=staff)
    entry = booked.entry
    assert booked.is_new
    assert (entry.type, entry.amount_nanos, entry.balance_after_nanos, entry.seq) == (
        "SUPPORT_CREDIT",
        5_000_000_000,
        5_000_000_000,
        1,
    )
    assert (entry.metadata, entry.issued_by, entry.reference) == ({"reason": "sorry"}, staff, "support:ticket-1")
    assert usage.numbers(bob)["balance"] == 5_000_000_000


def test_a_double_submit_credits_once(bob):
    first, second = grant(bob), grant(bob)
    assert first.entry == second.entry
    assert (first.is_new, second.is_new) == (True, False)
    assert usage.numbers(bob)["entries"] == [("SUPPORT_CREDIT", 5_000_000_000, "support:ticket-1")]
    assert usage.numbers(bob)["balance"] == 5_000_000_000


@pytest.mark.parametrize(("whose", "cents"), [("charlie", 500), ("bob", 501)])
def test_a_reference_cannot_be_reused_for_something_else(request, bob, whose, cents):
    grant(bob)
    account = request.getfixturevalue(whose)
    before = usage.numbers(account)
    with pytest.raises(writer.ReferenceReused, match="support:ticket-1"):
        grant(account, cents=cents)
    assert usage.numbers(account) == before


@pytest.mark.parametrize("cents", [0, -1])
def test_an_amount_is_positive(alice, cents):
    before = usage.numbers(alice)
    with pytest.raises(ValueError, match="have the wrong sign"):
        grant(alice, cents=cents)
    with pytest.raises(ValueError, match="have the wrong sign"):
        usage.buy(alice, cents, "pi_1")
    with pytest.raises(ValueError, match="have the wrong sign"):
        usage.refund(alice, cents, "re_1")
    assert usage.numbers(alice) == before


def test_a_payment_is_booked_once_with_its_id(bob):
    first, second = usage.buy(bob, 2_000, "pi_1"), usage.buy(bob, 2_000, "pi_1")
    assert first.entry == second.entry
    assert (first.is_new, second.is_new) == (True, False)
    assert first.entry.metadata == {"stripePaymentId": "pi_1"}
    assert usage.numbers(bob)["entries"] == [("CREDIT_PURCHASE", 20_000_000_000, "pay:stripe:pi_1")]


def test_only_a_refund_may_push_a_balance_below_zero(bob):
    usage.buy(bob, 100, "pi_1")
    usage.spend(bob, money.nanos(60))
    entry = usage.refund(bob, 100, "re_1").entry
    assert (entry.type, entry.amount_nanos, entry.balance_after_nanos) == ("REFUND_DEBIT", -money.nanos(100), -money.nanos(60))
    assert entry.metadata == {"reason": "returned"}
    assert usage.refund(bob, 100, "re_1") == writer.BookedEntry(entry, is_new=False)
    assert usage.numbers(bob)["balance"] == -money.nanos(60)


def test_a_usage_debit_keeps_the_exact_cost_and_what_was_used(alice):
    entry = usage.spend(alice, 195_001)
    assert (entry.type, entry.amount_nanos, entry.balance_after_nanos) == ("USAGE_DEBIT", -195_001, money.nanos(1000) - 195_001)
    assert entry.metadata == {
        "model": "demo/echo",
        "tokens": 7,
        "completionId": entry.reference,
        "promptTokens": 3,
        "completionTokens": 4,
        "costInDollars": "0.000195001",
        "settlement": "reported",
    }


def test_a_free_completion_has_an_entry(bob):
    entry = usage.spend(bob, 0)
    assert (entry.seq, entry.amount_nanos, entry.balance_after_nanos) == (1, 0, 0)


def test_entries_count_without_gaps_per_account(alice, bob):
    for _ in range(3):
        usage.spend(alice, 5)
    grant(bob)
    assert list(alice.entries.order_by("seq").values_list("seq", flat=True)) == [1, 2, 3, 4]
    assert list(bob.entries.values_list("seq", flat=True)) == [1]


def test_the_given_account_object_is_kept_up_to_date(alice):
    with transaction.atomic():
        account = locks.lock_account(alice.pk)
        usage.debit(account, 7, "a")
        usage.debit(account, 8, "b")
        assert (account.balance_nanos, account.last_seq) == (money.nanos(1000) - 15, 3)
    assert Account.objects.get(pk=alice.pk).balance_nanos == account.balance_nanos


def test_the_account_is_locked_before_its_balance_is_written(bob):
    with CaptureQueriesContext(connection) as captured:
        grant(bob)
    statements = [query["sql"] for query in captured]

    def place(begins: str, contains: str = "") -> int:
        return next(i for i, sql in enumerate(statements) if sql.strip().startswith(begins) and contains in sql)

    locked = place('SELECT "billing_account"', 'FOR NO KEY UPDATE OF "billing_account"')
    assert locked < place('SELECT "billing_ledgerentry"') < place("WITH", "UPDATE billing_account")


@pytest.mark.django_db(transaction=True)
def test_rows_are_locked_in_a_transaction_only():
    account = factories.make_account("Alone")
    with pytest.raises(TransactionManagementError):
        locks.lock_account(account.pk)


def test_an_unknown_account_is_not_credited(db):
    with pytest.raises(Account.DoesNotExist):
        writer.grant_support_credit(
            UUID("01a1fe11-ce4c-7482-b873-7c7878d7577c"), amount_cents=1, reason="nobody", reference="r"
        )
    assert not LedgerEntry.objects.exists()
