"""Random operations on one account, whose results must equal those of a small model."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, invariant, rule

from billing import money
from billing.ledger import writer
from billing.models import Hold
from gateway_project import errors, identifiers
from tests import factories, state_machines, usage

cents = st.integers(1, 5)
nanos = st.one_of(st.integers(0, 3), st.integers(0, money.nanos(5)))


class LedgerStateMachine(state_machines.StateMachine):
    """A state machine whose rules run the real code, each in its own transaction with the deferred checks of a commit."""

    holds: Bundle[Hold] = Bundle("holds")
    payments: Bundle[tuple[str, int]] = Bundle("payments")

    def __init__(self) -> None:
        super().__init__()
        self.account = factories.make_account("machine", is_new=True)
        self.balance = 0
        self.amounts: list[int] = []
        self.open: dict[str, int] = {}
        self.resolved: dict[str, tuple[str, int | None]] = {}

    def entered(self, amount: int) -> None:
        self.balance += amount
        self.amounts.append(amount)

    def available(self) -> int:
        return self.balance - sum(self.open.values())

    @rule(target=payments, cents=cents)
    def buy(self, cents: int) -> Any:
        payment_id = identifiers.short_uuid7()
        usage.buy(self.account, cents, payment_id)
        self.entered(money.nanos(cents))
        return payment_id, cents

    @rule(payment=payments)
    def buy_again(self, payment: tuple[str, int]) -> None:
        usage.buy(self.account, payment[1], payment[0])

    @rule(payment=payments, cents=cents)
    def claim_another_amount(self, payment: tuple[str, int], cents: int) -> None:
        if cents != payment[1]:
            with pytest.raises(writer.ReferenceReused):
                usage.buy(self.account, cents, payment[0])

    @rule(payment=consumes(payments))
    def refund(self, payment: tuple[str, int]) -> None:
        for _ in range(2):
            usage.refund(self.account, payment[1], payment[0])
        self.entered(-money.nanos(payment[1]))

    @rule(cents=cents)
    def grant(self, cents: int) -> None:
        reference = identifiers.short_uuid7()
        for _ in range(2):
            writer.grant_support_credit(self.account.pk, amount_cents=cents, reason="machine", reference=reference)
        self.entered(money.nanos(cents))

    @rule(target=holds, nanos=nanos)
    def place(self, nanos: int) -> Any:
        return self.try_to_place(nanos)

    @rule(target=holds, share=st.integers(1, 3), more=st.integers(0, 1))
    def place_a_fraction(self, share: int, more: int) -> Any:
        """Hold all, a half or a third of the available balance; or a nanodollar more, which is refused."""
        return self.try_to_place(max(self.available(), 0) // share + more)

    def try_to_place(self, nanos: int) -> Hold:
        reference = identifiers.short_uuid7()
        if nanos > self.available():
            refusal = errors.TiedUp if nanos <= self.balance else errors.InsufficientQuota
            with pytest.raises(refusal):
                usage.place(self.account, nanos, reference=reference)
            return Hold(reference=reference)
        self.open[reference] = nanos
        return usage.place(self.account, nanos, reference=reference)

    def resolve(self, hold: Hold, outcome: Hold | None, state: str, settled: int | None) -> None:
        if hold.pk in self.open:
            assert (outcome.state, outcome.settled_nanos) == (state, settled)
            self.resolved[hold.pk] = (state, settled)
            del self.open[hold.pk]
            if settled is not None:
                self.entered(-settled)
        else:
            assert outcome is None

    def was_placed(self, hold: Hold) -> bool:
        return hold.pk in self.open or hold.pk in self.resolved

    @rule(hold=holds, nanos=nanos)
    def settle(self, hold: Hold, nanos: int) -> None:
        self.try_to_settle(hold, nanos)

    @rule(hold=holds, more=st.integers(0, 1))
    def settle_all(self, hold: Hold, more: int) -> None:
        """Settle the whole hold; or a nanodollar more, which is refused."""
        self.try_to_settle(hold, self.open.get(hold.pk, 0) + more)

    def try_to_settle(self, hold: Hold, nanos: int) -> None:
        if self.was_placed(hold):
            settled = min(nanos, self.open.get(hold.pk, 0))
            self.resolve(hold, usage.settle(self.account, hold, nanos), "SETTLED", settled)

    @rule(hold=holds)
    def release(self, hold: Hold) -> None:
        if self.was_placed(hold):
            self.resolve(hold, usage.release(self.account, hold), "RELEASED", None)

    @rule(hold=holds)
    def expire(self, hold: Hold) -> None:
        if self.was_placed(hold):
            self.resolve(hold, usage.expire(self.account, hold), "EXPIRED", None)

    @invariant()
    def the_rows_are_the_model(self) -> None:
        usage.check_deferred()
        rows = usage.numbers(self.account)
        assert (rows["balance"], rows["held"], rows["seq"]) == (self.balance, sum(self.open.values()), len(self.amounts))
        assert [amount for _, amount, _ in rows["entries"]] == self.amounts
        placed = {pk: ("HELD", None) for pk in self.open} | self.resolved
        assert {pk: (state, settled) for pk, state, _, settled in rows["holds"]} == placed

    def finish(self) -> None:
        assert usage.violations() == []


def test_the_ledger_equals_its_model_after_any_steps(db):
    with transaction.atomic():
        state_machines.run(LedgerStateMachine, runs=12, steps=30)
