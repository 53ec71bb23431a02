"""A completion whose account moves to another cell before its settlement is charged there, once."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection

from billing import locks
from billing.ledger import audit, moves
from billing.models import Account, LedgerEntry
from completions.charging.recovery import drains, outbox, owed, record
from completions.charging.recovery.drains import Outcome
from completions.charging.recovery.owed import Readmission
from completions.models import Completion
from completions.pricing.usage import Usage
from gateway_project import errors, identifiers
from gateway_project.cells import directory
from gateway_project.db import cell, pool
from gateway_project.db.group_commit import Skipped
from keys.budgets import monthly
from keys.budgets.runs import AskedRun
from keys.models import ApiKey, BudgetMonth, Run
from tests import cells, factories
from tests.completions import settlements
from tests.completions.admitted import admit
from tests.completions.charging.recovery.outbox_files import _outbox, forget, store

__all__ = ["_outbox"]

OTHER = 2 if cells.NUMBER == 1 else 1


@pytest.fixture
def other(db: None) -> Iterator[int]:
    with cells.added(2):
        yield OTHER


@pytest.fixture
def key(alice: Account) -> ApiKey:
    return factories.make_key(alice)[0]


def _move(account: Account, target: int) -> int:
    """Move the account as another process does, so that this one believes it where it was. Return where."""
    source = cell.current()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    with cell.use(source):
        moves.move(account.pk, target, lambda line: None)
    directory.remember(account.pk, source)
    return source


def _assert_charged_once(completion_id: str, number: int, former: int) -> None:
    with cell.use(number):
        assert Completion.objects.get(pk=completion_id).settlement == "reported"
        assert LedgerEntry.objects.filter(type="USAGE_DEBIT", reference=completion_id).count() == 1
        assert audit.verify() == []
    with cell.use(former):
        assert not Completion.objects.exists()
        assert not LedgerEntry.objects.exists()
        assert audit.verify() == []


def test_what_runs_is_charged_in_the_new_cell(other: int, alice: Account, key: ApiKey) -> None:
    admitted = admit(key)
    former = _move(alice, other)
    assert settlements.settle(admitted, Usage(1, 1), Completion.Settlement.REPORTED) is not None
    _assert_charged_once(admitted.completion.id, other, former)


def test_a_run_and_a_month_that_hold_money_count_its_charge_in_the_new_cell(other: int, alice: Account, key: ApiKey) -> None:
    budget = monthly.set_budget(alice, amount_cents=100, action="STOP")
    asked = AskedRun("nightly", 10**9, pool.database_time() + timedelta(hours=1))
    admitted = admit(key, asked)
    former = _move(alice, other)
    with cell.use(other):
        assert min(Run.objects.get().held_nanos, BudgetMonth.objects.get().held_nanos) > 0
    charged_nanos = settlements.settle(admitted, Usage(1, 1), Completion.Settlement.REPORTED)
    admit(key, asked)
    with cell.use(other):
        run, month = Run.objects.get(), BudgetMonth.objects.get(budget=budget)
        assert (run.spent_nanos, month.spent_nanos, run.requests) == (charged_nanos, charged_nanos, 2)
        assert run.held_nanos == month.held_nanos > 0
        assert (run.budget_nanos, run.deadline) == (asked.budget_nanos, asked.deadline)
        assert audit.verify() == []
    with cell.use(former):
        assert not any(model.objects.exists() for model in (Run, BudgetMonth, Completion))


def test_what_waits_on_disk_is_charged_in_the_new_cell(other: int, alice: Account, key: ApiKey) -> None:
    completion_id = store(admit(key))
    former = _move(alice, other)
    assert drains.drain() == {Outcome.RESOLVED: 1}
    _assert_charged_once(completion_id, other, former)


def test_what_the_database_forgot_is_admitted_again_in_the_new_cell(other: int, alice: Account, key: ApiKey) -> None:
    completion_id = store(forget(lambda: admit(key)))
    former = _move(alice, other)
    assert drains.drain() == {Outcome.RESOLVED: 1}
    _assert_charged_once(completion_id, other, former)


def test_what_moved_just_now_waits_instead_of_being_a_dead_letter(other: int, alice: Account, key: ApiKey) -> None:
    admitted = admit(key)
    completion_id = store(admitted)
    loaded = record.load(outbox.waiting_files()[0], None)
    former = _move(alice, other)
    with cell.use(former):
        assert isinstance(owed._wait(Readmission(loaded.completion, 1, loaded)), Skipped)
    assert drains.drain() == {Outcome.RESOLVED: 1}
    _assert_charged_once(completion_id, other, former)


def test_who_locks_an_account_that_moved_is_told_to_try_again(other: int, alice: Account) -> None:
    former = _move(alice, other)
    with cell.use(former):
        with pytest.raises(errors.ServiceUnavailable, match="moved"):
            locks.lock_account(alice.pk)
        with pytest.raises(Account.DoesNotExist):
            locks.lock_account(identifiers.uuid7())
