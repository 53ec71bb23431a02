"""Each violation, made with the constraints removed, is found by its own invariants and by no others."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from celery.signals import task_prerun
from django.db import OperationalError, connection, transaction
from django.db.models import F

from billing import audit as billing_audit
from billing import facts, locks, money, tasks
from billing.ledger import audit, holds, writer
from billing.models import Account, CreditRequest, Hold, LedgerEntry, LedgerRoot, ManualEntry, Membership, Payment, User
from billing.proof import roots
from gateway_project import errors
from gateway_project.celery import app
from gateway_project.db import pool
from gateway_project.monitoring import collector
from gateway_project.monitoring.models import TaskRun
from tests import factories, usage
from tests.billing import guards
from tests.cases import raising, undone
from tests.completions.tamperings import TAMPERINGS

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def busy(alice: Account) -> Account:
    """Give Alice's account credits, two settled completions, an open hold and a released one."""
    usage.spend(alice, 5)
    usage.spend(alice, 7)
    usage.place(alice, 9, reference="open")
    usage.release(alice, usage.place(alice, 11, reference="released"))
    usage.check_deferred()
    return alice


@pytest.fixture
def _unguarded(busy: Account) -> None:
    """Remove all triggers and constraints for the test's transaction."""
    guards.remove("billing_account", "billing_ledgerentry", "billing_hold", "billing_manualentry")


def found(account_id: Any = None) -> set[str]:
    """Return the invariants that are violated, except those about the guards that the test itself removed."""
    return {violation.invariant.name for violation in usage.violations(account_id) if violation.invariant.kind != "unguarded"}


def entries(**which: Any) -> Any:
    return LedgerEntry.objects.filter(**which)


def skip_a_seq(account: Account) -> None:
    entries(seq=3).update(seq=4)
    Account.objects.filter(pk=account.pk).update(last_seq=4)


def miscount_in_the_middle(account: Account) -> None:
    entries(seq=2).update(balance_after_nanos=F("balance_after_nanos") + 1)


def begin_with_money_from_nowhere(account: Account) -> None:
    entries(seq=1).update(amount_nanos=F("amount_nanos") - 1)


def forget_an_entry(account: Account) -> None:
    Account.objects.filter(pk=account.pk).update(last_seq=2)


def have_money_without_entries(account: Account) -> None:
    Account.objects.create(name="Rich from birth", balance_nanos=7)


def call_a_credit_a_debit(account: Account) -> None:
    entries(seq=1).update(type="REFUND_DEBIT")


def invent_a_type(account: Account) -> None:
    entries(seq=1).update(type="GIFT")


def book_a_reference_twice(account: Account) -> None:
    other = factories.make_account("Other", cents=5)
    other.entries.update(reference=account.entries.get(seq=1).reference)


def forget_the_model(account: Account) -> None:
    entries(seq=2).update(metadata={"tokens": 7})


def miscount_tokens(account: Account) -> None:
    entry = entries(seq=2).get()
    entries(seq=2).update(metadata={**entry.metadata, "tokens": 8})


def take_back(account: Account, **changes: Any) -> None:
    """Correct the account's credit by one nanodollar, and change the correction."""
    staff = factories.make_user("staff@example.org")
    with transaction.atomic():
        locked = locks.lock_account(account.pk)
        booked = writer.correct_credit(locked, entries(seq=1).get(), amount_nanos=1, reason="typo", issued_by=staff)
    entries(pk=booked.entry.pk).update(**changes)


def take_back_of_nothing(account: Account) -> None:
    take_back(account, reference="refund:1", metadata={"entryId": str(UUID(int=1))})


def take_back_of_usage(account: Account) -> None:
    take_back(account, reference="refund:1", metadata={"entryId": str(entries(seq=2).get().pk)})


def take_back_more_than_was_credited(account: Account) -> None:
    take_back(account)
    credited_nanos = entries(seq=1).get().amount_nanos
    usage.refund(account, credited_nanos // money.NANOS_PER_CENT, "all of it, too")
    entries(reference="refund:all of it, too").update(metadata={"entryId": str(entries(seq=1).get().pk)})


def correct_under_another_name(account: Account) -> None:
    take_back(account, reference=f"correction:{UUID(int=1)}")


def hold_more_than_the_holds(account: Account) -> None:
    Account.objects.filter(pk=account.pk).update(held_nanos=10)


def hold_without_holds(account: Account) -> None:
    Account.objects.filter(pk=factories.make_account("Other").pk).update(held_nanos=1)


def count_a_hold_that_was_released(account: Account) -> None:
    Account.objects.filter(pk=account.pk).update(open_holds=2)


def settle_more_than_was_held(account: Account) -> None:
    Hold.objects.filter(settled_nanos=5).update(amount_nanos=4)


def hold_less_than_nothing(account: Account) -> None:
    Hold.objects.filter(pk="released").update(amount_nanos=-1)


def release_at_a_price(account: Account) -> None:
    Hold.objects.filter(pk="released").update(settled_nanos=1)


def resolve_at_no_time(account: Account) -> None:
    Hold.objects.filter(pk="released").update(resolved_at=None)


def settle_without_a_debit(account: Account) -> None:
    Hold.objects.filter(pk="released").update(state="SETTLED", settled_nanos=11)


def debit_another_amount_than_was_settled(account: Account) -> None:
    Hold.objects.filter(settled_nanos=5).update(settled_nanos=4)


def debit_without_a_hold(account: Account) -> None:
    Account.objects.get(pk=account.pk)
    usage.debit(Account.objects.get(pk=account.pk), 3, "never admitted")


def debit_what_was_released(account: Account) -> None:
    usage.debit(Account.objects.get(pk=account.pk), 3, "released")


def run_back_in_time(account: Account) -> None:
    entries(seq=2).update(created_at=LONG_AGO)


def overdraw_by_usage(account: Account) -> None:
    bare = factories.make_account("Bare", cents=1)
    usage.spend(bare, 10_000_000)
    hold = usage.place(Account.objects.get(pk=bare.pk), 0)
    Hold.objects.filter(pk=hold.pk).update(amount_nanos=7)
    Account.objects.filter(pk=bare.pk).update(held_nanos=7)
    usage.settle(bare, Hold.objects.get(pk=hold.pk), 7)


def overdraw_after_an_old_refund(account: Account) -> None:
    bare = factories.make_account("Bare", cents=2)
    usage.refund(bare, 1, "long before")
    usage.spend(Account.objects.get(pk=bare.pk), 10_000_000)
    hold = usage.place(Account.objects.get(pk=bare.pk), 0)
    Hold.objects.filter(pk=hold.pk).update(amount_nanos=7)
    Account.objects.filter(pk=bare.pk).update(held_nanos=7)
    usage.settle(bare, Hold.objects.get(pk=hold.pk), 7)


def hold_more_than_the_balance(account: Account) -> None:
    bare = factories.make_account("Bare", cents=1)
    usage.place(bare, 10_000_000, reference="the last cent")
    Hold.objects.filter(pk="the last cent").update(amount_nanos=10_000_001)
    Account.objects.filter(pk=bare.pk).update(held_nanos=10_000_001)


def leave_a_hold_open(account: Account) -> None:
    Hold.objects.filter(pk="open").update(expires_at=LONG_AGO)


def raise_a_credit_with_the_chain(account: Account) -> None:
    """Make the credit a dollar more, and every balance after it."""
    entries(seq=1).update(amount_nanos=F("amount_nanos") + 1_000_000_000)
    entries().update(balance_after_nanos=F("balance_after_nanos") + 1_000_000_000)
    Account.objects.filter(pk=account.pk).update(balance_nanos=F("balance_nanos") + 1_000_000_000)


def credit_without_a_source(account: Account) -> None:
    ManualEntry.objects.filter(account=account, entry__seq=1).delete()


def approve_another_amount(account: Account) -> None:
    asker, approver = factories.make_user("asker@example.org"), factories.make_user("approver@example.org")
    booked = writer.grant_support_credit(account.pk, amount_cents=500, reason="sorry", reference="form", issued_by=asker)
    CreditRequest.objects.create(
        reference="form",
        account=account,
        amount_cents=400,
        reason="sorry",
        requested_by=asker,
        decision="APPROVED",
        decided_by=approver,
        decided_at=booked.entry.created_at,
        entry=booked.entry,
    )


def swap_members(account: Account) -> None:
    factories.make_account("Mallory", owner=factories.make_user("mallory@example.org"))
    guards.remove("billing_membership")
    for user, owned in (("mallory@example.org", "Alice"), ("alice@example.org", "Mallory")):
        member = Membership.objects.get(account__name=owned, user__email__in=("alice@example.org", "mallory@example.org"))
        Membership.objects.filter(pk=member.pk).update(user=User.objects.get(email=user))


def pay_without_a_credit(account: Account) -> None:
    pay(account, credit=entries(seq=2).get(), debited_cents=0)


def take_back_what_is_not_booked(account: Account) -> None:
    pay(account, credit=usage.buy(account, 100, "pi_1").entry, debited_cents=40)


def pay(account: Account, *, credit: LedgerEntry, debited_cents: int) -> None:
    """Write a paid payment of a dollar that says that this entry credits it."""
    Payment.objects.create(
        account=account,
        amount_cents=100,
        processor="stripe",
        is_live=False,
        intent_id="pi_1",
        status=Payment.Status.PAID,
        credit=credit,
        receipt_number=1,
        paid_at=credit.created_at,
        debited_cents=debited_cents,
    )


def change_a_hash(account: Account) -> None:
    entries(seq=2).update(hash=bytes(32))


def empty_a_hash(account: Account) -> None:
    entries(seq=3).update(hash=None)


def change_what_was_signed(account: Account) -> None:
    roots.sign_hour(pool.database_time())
    entries(seq=3).update(spender="another")


def make_a_root_anew(account: Account) -> None:
    for hours in (0, 1):
        roots.sign_hour(pool.database_time() + timedelta(hours=hours))
    guards.remove("billing_ledgerroot")
    LedgerRoot.objects.filter(pk=1).update(statement="another")


BREAKS: list[tuple[Callable[[Account], None], set[str]]] = [
    (skip_a_seq, {"seq_has_no_gaps"}),
    (change_a_hash, {"hashes_chain"}),
    (empty_a_hash, {"hashes_chain"}),
    (change_what_was_signed, {"signed_heads_stand"}),
    (make_a_root_anew, {"roots_follow_each_other"}),
    (miscount_in_the_middle, {"balances_chain"}),
    # While the chain and its end are right, the sum cannot be wrong.
    (
        begin_with_money_from_nowhere,
        {"balances_chain", "entries_sum_to_the_balance", "manual_entries_are_booked_as_recorded"},
    ),
    (forget_an_entry, {"accounts_say_what_their_last_entry_says"}),
    (have_money_without_entries, {"accounts_say_what_their_last_entry_says", "entries_sum_to_the_balance"}),
    (call_a_credit_a_debit, {"credits_add_and_debits_take", "manual_entries_are_booked_as_recorded"}),
    (invent_a_type, {"credits_add_and_debits_take", "manual_entries_are_booked_as_recorded"}),
    (book_a_reference_twice, {"a_reference_is_booked_once", "manual_entries_are_booked_as_recorded"}),
    (forget_the_model, {"usage_says_what_was_used"}),
    (miscount_tokens, {"usage_says_what_was_used"}),
    (take_back_of_nothing, {"refunds_fit_their_credit", "manual_entries_are_booked_as_recorded"}),
    (take_back_of_usage, {"refunds_fit_their_credit", "manual_entries_are_booked_as_recorded"}),
    (take_back_more_than_was_credited, {"refunds_fit_their_credit", "manual_entries_are_booked_as_recorded"}),
    (correct_under_another_name, {"corrections_name_their_credit", "manual_entries_are_booked_as_recorded"}),
    (hold_more_than_the_holds, {"open_holds_sum_to_what_is_held"}),
    (hold_without_holds, {"open_holds_sum_to_what_is_held"}),
    (count_a_hold_that_was_released, {"accounts_count_their_open_holds"}),
    (settle_more_than_was_held, {"no_more_is_settled_than_was_held"}),
    (hold_less_than_nothing, {"no_more_is_settled_than_was_held"}),
    (release_at_a_price, {"holds_are_in_one_state"}),
    (resolve_at_no_time, {"holds_are_in_one_state"}),
    (settle_without_a_debit, {"settled_holds_are_debited"}),
    (debit_another_amount_than_was_settled, {"settled_holds_are_debited"}),
    (debit_without_a_hold, {"debits_were_held"}),
    (debit_what_was_released, {"debits_were_held"}),
    (run_back_in_time, {"times_do_not_run_back"}),
    (overdraw_by_usage, {"only_a_refund_overdraws"}),
    (overdraw_after_an_old_refund, {"only_a_refund_overdraws"}),
    (hold_more_than_the_balance, {"only_a_refund_overdraws"}),
    (pay_without_a_credit, {"payments_are_booked_as_paid"}),
    (take_back_what_is_not_booked, {"payments_are_booked_as_paid"}),
    (raise_a_credit_with_the_chain, {"manual_entries_are_booked_as_recorded"}),
    (credit_without_a_source, {"entries_have_a_source"}),
    (approve_another_amount, {"approved_credits_are_booked"}),
    (swap_members, {"members_are_those_who_joined"}),
    (leave_a_hold_open, {"holds_do_not_outlive_their_expiry"}),
]


def test_a_consistent_ledger_has_no_violations(busy, charlie):
    assert usage.violations() == []
    assert usage.violations(busy.pk) == []


@pytest.mark.usefixtures("_unguarded")
@pytest.mark.one_cell
def test_a_violation_is_found_by_its_invariant_alone(busy, subtests):
    for break_it, names in BREAKS:
        with subtests.test(break_it.__name__), undone():
            assert found() == set()
            break_it(Account.objects.get(pk=busy.pk))
            if "hashes_chain" not in names:
                guards.forge_hashes()
            assert found() == names


def test_every_invariant_of_billing_has_a_planted_violation():
    asked = {name for _, names in BREAKS for name in names} | {"triggers_stand_guard", "constraints_stand_guard"}
    asked |= {"signed_ledgers_stand", "signed_entries_are_as_signed", "signed_days_are_as_signed"}  # test_signed_days
    asked |= {"accounts_are_where_the_directory_says", "references_lead_to_their_accounts", "the_last_signed_day_is_there"}
    asked |= {name for _, names in TAMPERINGS.values() for name in names}
    assert {invariant.name for invariant in billing_audit.INVARIANTS} <= asked


@pytest.mark.django_db
def test_a_refund_may_overdraw_what_was_admitted_before_it():
    refunded = factories.make_account("Refunded", cents=10_800)
    placed = [usage.place(refunded, money.nanos(900)) for _ in range(12)]
    usage.refund(refunded, 10_800, "re_1")
    assert usage.violations() == []
    for number, hold in enumerate(placed, start=1):
        usage.settle(refunded, hold, money.nanos(900))
        assert usage.numbers(refunded)["balance"] == money.nanos(-900 * number)
    assert usage.violations() == []
    refunded.refresh_from_db()
    with pytest.raises(errors.InsufficientQuota):
        holds.require_available(refunded, 0)


@pytest.mark.usefixtures("_unguarded")
def test_invariants_that_share_a_query_count_and_show_their_own_rows(busy):
    skip_a_seq(busy)
    entries(seq=2).update(balance_after_nanos=F("balance_after_nanos") + 1)
    guards.forge_hashes()
    gaps, chain = [each for each in audit.verify() if each.invariant.shared is billing_audit.ENTRIES_IN_ORDER]
    assert (gaps.invariant.name, gaps.count, [row["seq"] for row in gaps.rows]) == ("seq_has_no_gaps", 1, [4])
    assert (chain.invariant.name, chain.count, [row["seq"] for row in chain.rows]) == ("balances_chain", 2, [2, 4])


@pytest.mark.usefixtures("_unguarded")
@pytest.mark.parametrize(
    "break_it",
    [skip_a_seq, miscount_in_the_middle, hold_more_than_the_holds, settle_without_a_debit, credit_without_a_source],
)
def test_one_account_can_be_checked(busy, charlie, break_it):
    break_it(busy)
    guards.forge_hashes()
    assert found(charlie.pk) == set()
    assert len(found(busy.pk)) == 1


@pytest.mark.usefixtures("_unguarded")
def test_a_violation_shows_its_rows(busy):
    hold_more_than_the_holds(busy)
    violation = next(each for each in usage.violations() if each.invariant.name == "open_holds_sum_to_what_is_held")
    assert violation.count == 1
    assert violation.rows == [{"account_id": busy.pk, "held_nanos": 10, "sum_nanos": 9}]
    assert str(violation) == (
        "untrue: open_holds_sum_to_what_is_held: 1 rows against: What an account holds is the sum of its open holds."
    )


@pytest.mark.usefixtures("_unguarded")
def test_a_violation_of_many_rows_counts_all_and_shows_some(busy):
    Hold.objects.bulk_create(
        Hold(reference=f"late-{i}", account=busy, amount_nanos=0, expires_at=LONG_AGO) for i in range(audit.ROWS_SHOWN_MAX + 1)
    )
    (violation,) = [each for each in usage.violations() if each.invariant.kind == "overdue"]
    assert (violation.count, len(violation.rows)) == (audit.ROWS_SHOWN_MAX + 1, audit.ROWS_SHOWN_MAX)


def test_a_hold_that_just_expired_is_not_overdue(alice):
    usage.place(alice, 5, expires_at=datetime.now(UTC) - timedelta(minutes=14))
    assert usage.violations() == []
    usage.place(alice, 5, expires_at=datetime.now(UTC) - timedelta(minutes=16))
    assert [violation.invariant.kind for violation in usage.violations()] == ["overdue"]


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("ALTER TABLE billing_ledgerentry DISABLE TRIGGER entries_are_never_truncated", "disabled"),
        ("ALTER TABLE billing_ledgerentry ENABLE REPLICA TRIGGER entries_are_never_changed", "for replicas only"),
        ("DROP TRIGGER holds_resolve_once ON billing_hold", "missing"),
        ("ALTER FUNCTION billing_check_chain RENAME TO billing_check_nothing", "missing"),
    ],
)
def test_a_missing_trigger_is_reported(db, statement, state):
    with connection.cursor() as cursor:
        cursor.execute(statement)
    (violation,) = audit.verify()
    assert (violation.invariant.name, violation.invariant.kind) == ("triggers_stand_guard", "unguarded")
    assert [row["state"] for row in violation.rows] == [state]


def constraints(table: str) -> set[str]:
    """Return the table's keys, foreign keys and checks. In PostgreSQL 18 every NOT NULL is a constraint, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(%s) AND contype IN ('p', 'u', 'f', 'c')", [table]
        )
        return {name for (name,) in cursor.fetchall()}


@pytest.mark.parametrize("model", [Account, LedgerEntry, Hold])
def test_every_missing_constraint_is_reported(db, model):
    table = model._meta.db_table
    names = constraints(table)
    assert names
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}" CASCADE')
    (violation,) = audit.verify()
    assert (violation.invariant.name, violation.invariant.kind) == ("constraints_stand_guard", "unguarded")
    assert {row["state"] for row in violation.rows} == {"missing"}
    assert {row["constraint_name"] for row in violation.rows if row["table_name"] == table} == names


@pytest.mark.parametrize(
    ("statements", "name", "state"),
    [
        (
            "ALTER TABLE billing_ledgerentry DROP CONSTRAINT billing_ledgerentry_reference_key",
            "billing_ledgerentry_reference_key",
            "missing",
        ),
        (
            "ALTER TABLE billing_hold RENAME CONSTRAINT no_more_is_settled_than_was_held TO whatever",
            "no_more_is_settled_than_was_held",
            "missing",
        ),
        (
            "ALTER TABLE billing_hold DROP CONSTRAINT a_hold_is_never_negative,"
            " ADD CONSTRAINT a_hold_is_never_negative CHECK (amount_nanos >= 0) NOT VALID",
            "a_hold_is_never_negative",
            "not validated",
        ),
        (
            "ALTER TABLE billing_hold DISABLE TRIGGER ALL, ENABLE TRIGGER USER",
            "billing_hold_account_id_56c002f9_fk_billing_account_id",
            "disabled",
        ),
    ],
)
def test_an_unenforced_constraint_is_reported(db, statements, name, state):
    with connection.cursor() as cursor:
        cursor.execute(statements)
    (violation,) = audit.verify()
    assert violation.invariant.name == "constraints_stand_guard"
    assert [(row["constraint_name"], row["state"]) for row in violation.rows] == [(name, state)]


@pytest.mark.django_db(transaction=True)
def test_the_audit_reads_one_snapshot_and_cannot_write():
    factories.make_account("Alice", cents=1000)
    seen = []

    def look(line: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW transaction_isolation")
            seen.append(cursor.fetchone())
            cursor.execute("SHOW transaction_read_only")
            seen.append(cursor.fetchone())

    assert audit.verify(progress=look) == []
    assert seen == [("repeatable read",), ("on",)] * len(audit.invariants())
    factories.make_account("Bob", cents=1)  # the same connection can write again afterwards


def test_progress_names_every_invariant_in_turn(db):
    lines: list[str] = []
    audit.verify(progress=lines.append)
    asked = audit.invariants()
    assert lines == [f"{number}/{len(asked)} {invariant.name}" for number, invariant in enumerate(asked, start=1)]
    assert len({invariant.name for invariant in asked}) == len(asked)


def test_the_nightly_task_finds_nothing_in_a_consistent_ledger(alice, caplog):
    began_at = pool.database_time()
    assert tasks.verify_ledger.name == "billing.tasks.verify_ledger"
    assert tasks.verify_ledger() == 0
    run = TaskRun.objects.get()
    assert (run.name, run.result) == ("billing.tasks.verify_ledger", 0)
    assert run.finished_at >= began_at
    assert caplog.records == []


def test_an_audit_that_fails_is_not_recorded(db, monkeypatch):
    monkeypatch.setattr("billing.tasks.signed_days.verify", raising(OperationalError))
    with pytest.raises(OperationalError):
        tasks.verify_ledger()
    assert not TaskRun.objects.exists()


def test_an_audit_that_meets_an_outage_runs_again(transactional_db):
    begun, done = [], []

    def begin(**task: Any) -> None:
        begun.append(task["task_id"])
        if len(begun) == 3:  # the database is back
            connection.settings_dict = {**connection.settings_dict, "HOST": host, "PORT": port}

    def audit_in_an_outage() -> None:
        connection.settings_dict = {**connection.settings_dict, "HOST": "127.0.0.1", "PORT": "1"}
        done.append(tasks.verify_ledger.apply())
        connection.close()

    host, port = (connection.settings_dict[name] for name in ("HOST", "PORT"))
    task_prerun.connect(begin, weak=False, dispatch_uid="outage")
    try:
        thread = threading.Thread(target=audit_in_an_outage)
        thread.start()
        thread.join()
    finally:
        task_prerun.disconnect(dispatch_uid="outage")
    assert len(begun) == 3
    assert TaskRun.objects.filter(name=tasks.verify_ledger.name).exists()


@pytest.mark.parametrize(("name", "hour"), [("verify-ledger", 3), ("sync-catalog", 4)])
def test_daily_tasks_run_at_their_hour_whenever_beat_started(monkeypatch, name, hour):
    schedule = app.conf.beat_schedule[name]["schedule"]
    its_time = LONG_AGO + timedelta(days=1, hours=hour)
    for began_at in (its_time - timedelta(hours=23), its_time - timedelta(minutes=2)):
        monkeypatch.setattr(schedule, "nowfun", lambda: its_time - timedelta(minutes=1))
        assert schedule.is_due(began_at) == (False, 60)
        monkeypatch.setattr(schedule, "nowfun", lambda: its_time)
        assert schedule.is_due(began_at) == (True, 86_400)


def test_the_nightly_task_logs_what_it_finds_and_shows_it_as_a_metric(alice, caplog):
    guards.remove("billing_account", "billing_ledgerentry", "billing_hold")
    hold_more_than_the_holds(alice)
    assert tasks.verify_ledger() == 3
    [shown] = [collector.read(fact) for fact in facts.FACTS if fact.name == "gateway_ledger_violations"]
    assert [sample.value for sample in shown.samples] == [TaskRun.objects.get().result] == [3]
    assert [(record.levelname, record.getMessage().split(":")[1].strip()) for record in caplog.records] == [
        ("ERROR", "open_holds_sum_to_what_is_held"),
        ("ERROR", "triggers_stand_guard"),
        ("ERROR", "constraints_stand_guard"),
    ]
    assert str(alice.pk) in caplog.text
