"""What is left of each credit: refunds and corrections take back no more, and credits are used first in, first out."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, invariant, rule

from billing import locks, money
from billing.ledger import credits, movements, writer
from billing.models import Account, LedgerEntry
from gateway_project import identifiers
from gateway_project.db import pipelined_transaction
from tests import factories, plans, state_machines, usage

amounts_nanos = st.lists(st.integers(0, 50), max_size=8)


@given(amounts_nanos, st.integers(-60, 500))
def test_unused_parts_are_what_is_left_when_usage_takes_the_oldest_credits_first(credited, balance):
    balance = min(balance, sum(credited))
    used = sum(credited) - max(balance, 0)
    expected = []
    for nanos in credited:  # usage as it happens: the oldest credit that has something left pays
        taken = min(nanos, used)
        used -= taken
        expected.append(nanos - taken)
    assert credits.unused_parts(credited, balance) == expected


class CreditsStateMachine(state_machines.StateMachine):
    """Credits, usage, refunds and corrections in any order, against a queue of lots from which usage takes the oldest."""

    entries: Bundle[LedgerEntry] = Bundle("entries")

    def __init__(self) -> None:
        super().__init__()
        self.account = factories.make_account("machine", is_new=True)
        self.staff = factories.make_user(f"{identifiers.short_uuid7()}@example.org".lower())
        self.lots: dict[Any, int] = {}  # what was credited and not taken back, by entry, oldest first
        self.used = 0
        self.corrected: set[Any] = set()

    def credited(self, entry: LedgerEntry) -> LedgerEntry:
        self.lots[entry.pk] = entry.amount_nanos
        return entry

    @rule(target=entries, cents=st.integers(1, 3))
    def buy(self, cents: int) -> LedgerEntry:
        return self.credited(usage.buy(self.account, cents, identifiers.short_uuid7()).entry)

    @rule(target=entries, cents=st.integers(1, 3))
    def grant(self, cents: int) -> LedgerEntry:
        reference = identifiers.short_uuid7()
        booked = writer.grant_support_credit(self.account.pk, amount_cents=cents, reason="machine", reference=reference)
        return self.credited(booked.entry)

    @rule(share=st.integers(1, 3))
    def use(self, share: int) -> None:
        """Use a third, half or all of the balance."""
        balance_nanos = Account.objects.get(pk=self.account.pk).balance_nanos
        if balance_nanos > 0:
            usage.spend(self.account, balance_nanos // share)
            self.used += balance_nanos // share

    @rule(entry=entries, nanos=st.integers(1, money.nanos(3) + 1))
    def refund(self, entry: LedgerEntry, nanos: int) -> None:
        self.take_back(entry, nanos, identifiers.short_uuid7())

    @rule(entry=entries, nanos=st.one_of(st.none(), st.integers(1, money.nanos(3) + 1)))
    def correct(self, entry: LedgerEntry, nanos: int | None) -> None:
        """By some amount, or by all that is left."""
        nanos = nanos or self.lots[entry.pk]
        if entry.pk in self.corrected or not nanos:
            return
        if self.take_back(entry, nanos, None):
            self.corrected.add(entry.pk)
            with transaction.atomic(), pytest.raises(writer.ReferenceReused):
                self.book(entry, nanos + 1, None)

    def take_back(self, entry: LedgerEntry, nanos: int, reference: str | None) -> bool:
        fits = nanos <= self.lots[entry.pk]
        if not fits:
            with pytest.raises(IntegrityError, match="does not fit"), transaction.atomic():
                self.book(entry, nanos, reference)
            return False
        assert self.book(entry, nanos, reference).is_new
        assert not self.book(entry, nanos, reference).is_new  # sent twice
        self.lots[entry.pk] -= nanos
        return True

    def book(self, entry: LedgerEntry, nanos: int, reference: str | None) -> writer.BookedEntry:
        with transaction.atomic():
            account = locks.lock_account(self.account.pk)
            if reference is None:
                return writer.correct_credit(account, entry, amount_nanos=nanos, reason="typo", issued_by=self.staff)
            return writer.refund_credit(
                account, entry, amount_nanos=nanos, reference=reference, reason="returned", issued_by=self.staff
            )

    @invariant()
    def what_is_left_is_what_the_queue_has(self) -> None:
        used, unused = self.used, {}
        for pk, nanos in self.lots.items():
            taken = min(nanos, used)
            used -= taken
            unused[pk] = nanos - taken
        account = Account.objects.get(pk=self.account.pk)
        found = credits.read_credits(account)
        assert {credit.entry.pk: credit.unused_nanos for credit in found} == unused
        assert {credit.entry.pk: credit.left_nanos for credit in found} == self.lots
        assert {credit.entry.pk for credit in found if credit.is_corrected} == self.corrected
        assert sum(credit.unused_nanos for credit in found) == max(account.balance_nanos, 0)

    def finish(self) -> None:
        usage.check_deferred()
        assert usage.violations() == []


def test_what_is_left_of_credits_equals_a_queue_of_them_after_any_steps(db):
    with transaction.atomic():
        state_machines.run(CreditsStateMachine, runs=12, steps=25)


def test_credits_are_read_with_one_query_by_the_index_that_leaves_usage_out(bob, django_assert_num_queries):
    for number in range(3):
        usage.buy(bob, 100, f"pi_{number}")
    with transaction.atomic():
        account = locks.lock_account(bob.pk)
        use: Any = {"cost_nanos": 1, "model": "demo/echo", "prompt_tokens": 3, "completion_tokens": 4, "settlement": "reported"}
        debits = [writer.debit_usage(account, reference=f"used {number}", **use) for number in range(2_000)]
        pipelined_transaction.execute(movements.write_statement(entries=debits))
    bob.refresh_from_db()
    with django_assert_num_queries(1) as queries:
        found = credits.read_credits(bob)
    assert [credit.unused_nanos for credit in found] == [money.nanos(100) - 2_000, money.nanos(100), money.nanos(100)]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE billing_ledgerentry")
    with plans.without_scans():
        assert "entries_beside_usage" in plans.plan_of(queries[0]["sql"])
