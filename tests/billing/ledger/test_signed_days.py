"""The nightly audit checks what was booked since, signs off days that have ended, and reads signed ones again."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from billing import tasks
from billing.ledger import audit, signed_days
from billing.models import AuditedDay, AuditedLedger, LedgerEntry
from completions.models import UsageHour
from completions.tasks import sum_up_usage
from gateway_project.db import pool
from tests import chat
from tests.billing import guards

DAY = timedelta(days=1)


@pytest.fixture
def now(api, echo_model):
    """Send two completions that are charged. Return noon of the day, as a day is signed two hours after its end."""
    chat.ask(api)
    chat.ask(api)
    sum_up_usage()
    return pool.database_time().replace(hour=12)


def verify(now):
    return {violation.invariant.name for violation in signed_days.verify(now)}


def break_entry():
    """Change the tokens that an entry says, past the triggers."""
    guards.remove("billing_ledgerentry")
    entry = LedgerEntry.objects.filter(type="USAGE_DEBIT").latest("seq")
    LedgerEntry.objects.filter(pk=entry.pk).update(metadata={**entry.metadata, "tokens": 1})
    guards.forge_hashes()
    return {"usage_says_what_was_used", "triggers_stand_guard", "constraints_stand_guard"}


def test_a_day_is_signed_when_it_has_ended_and_what_began_on_it(now, alice):
    midnight = (now + DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    assert verify(midnight + timedelta(hours=1)) == set()
    assert not AuditedDay.objects.exists()
    assert verify(midnight + timedelta(hours=2)) == set()
    assert list(AuditedDay.objects.values_list("day", flat=True)) == [now.date()]
    last = LedgerEntry.objects.filter(account=alice).latest("seq")
    signed = AuditedLedger.objects.get(account=alice)
    assert (signed.last_seq, signed.balance_nanos) == (last.seq, last.balance_after_nanos)
    assert signed.debited_nanos == -sum(LedgerEntry.objects.filter(type="USAGE_DEBIT").values_list("amount_nanos", flat=True))


def test_what_is_booked_after_a_signed_day_is_checked(now, api, settings):
    settings.AUDIT_REPEAT_DAYS = 0
    signed_days.verify(now + 2 * DAY)
    chat.ask(api)
    sum_up_usage()
    assert verify(now + 2 * DAY) == set()
    assert break_entry() == verify(now + 2 * DAY)


def test_what_was_committed_after_its_day_was_signed_belongs_to_the_next(now, api, alice, settings):
    settings.AUDIT_REPEAT_DAYS = 0
    signed_days.verify(now + 2 * DAY)
    chat.ask(api)
    sum_up_usage()
    assert verify(now + 4 * DAY) == set()
    days = AuditedLedger.objects.filter(account=alice).order_by("day").values_list("day", "last_seq")
    last_seq = LedgerEntry.objects.filter(account=alice).latest("seq").seq
    assert list(days) == [(now.date(), last_seq - 1), ((now + 2 * DAY).date(), last_seq)]
    assert audit.verify() == []


def test_a_day_with_a_violation_is_not_signed_and_found_again(now):
    expected = break_entry()
    assert verify(now + 2 * DAY) == expected
    assert not AuditedDay.objects.exists()
    assert verify(now + 3 * DAY) == expected


def test_what_is_changed_in_a_signed_day_is_found_when_it_is_read_again(now, settings):
    settings.AUDIT_REPEAT_DAYS = 0
    signed_days.verify(now + 2 * DAY)
    guarded = break_entry() - {"usage_says_what_was_used"}
    assert verify(now + 2 * DAY) == guarded
    settings.AUDIT_REPEAT_DAYS = 1
    found = {"usage_says_what_was_used", "signed_entries_are_as_signed", *guarded}
    assert verify(now + 2 * DAY) == found
    assert {violation.invariant.name for violation in audit.verify()} == found


def test_updates_that_postgresql_counted_have_everything_checked(now, settings):
    settings.AUDIT_REPEAT_DAYS = 0
    signed_days.verify(now + 2 * DAY)
    AuditedDay.objects.update(rows_changed=-1)
    guarded = break_entry()
    assert verify(now + 2 * DAY) == {"signed_entries_are_as_signed", *guarded}


def test_each_signed_day_is_read_again_within_its_time(now, settings):
    settings.AUDIT_REPEAT_DAYS = 2
    signed_days.verify(now + 5 * DAY)
    AuditedDay.objects.update(checked_at=now - 2 * DAY)
    for waiting in (2, 0):
        verify(now + 5 * DAY)
        assert AuditedDay.objects.filter(checked_at=now - 2 * DAY).count() == waiting


def test_a_day_proves_every_day_before_it(now, alice):
    signed_days.verify(now + 4 * DAY)
    digests = list(AuditedDay.objects.order_by("day").values_list("digest", flat=True))
    assert len(set(digests)) == 4
    AuditedLedger.objects.filter(account=alice).update(balance_nanos=1)
    found = {violation.invariant.name for violation in audit.verify()}
    assert found == {"signed_ledgers_stand", "signed_days_are_as_signed"}


def test_an_entry_that_was_signed_is_missed_when_it_is_gone(now, alice):
    signed_days.verify(now + 2 * DAY)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM billing_ledgerentry WHERE seq = (SELECT max(seq) FROM billing_ledgerentry)")
        cursor.execute("SET LOCAL session_replication_role = origin")
        assert "signed_ledgers_stand" in verify(now + 2 * DAY)
        transaction.set_rollback(True)


def test_the_task_returns_the_number_of_violations(now):
    assert tasks.verify_ledger() == 0
    break_entry()
    assert tasks.verify_ledger() == 3


def test_a_day_that_is_read_again_has_the_usage_of_what_was_committed_late(now, api, settings):
    signed_days.verify(now + 2 * DAY)
    chat.ask(api, user="u")
    sum_up_usage()
    signed_days.verify(now + 4 * DAY)
    settings.AUDIT_REPEAT_DAYS = 1
    assert verify(now + 4 * DAY) == set()
    UsageHour.objects.update(cost_nanos=F("cost_nanos") + 1)
    assert verify(now + 4 * DAY) == {"usage_sums_to_the_ledger"}


class Explaining:
    """A cursor that explains the statement of all questions instead of running it."""

    def __init__(self, cursor):
        self._cursor, self.plan = cursor, []

    def execute(self, sql, params=None):
        is_of_questions = "UNION ALL SELECT" in sql and "ARRAY[" in sql
        self._cursor.execute(f"EXPLAIN {sql}" if is_of_questions else sql, params)
        if is_of_questions:
            self.plan = [line for (line,) in self._cursor.fetchall()]
            raise InterruptedError

    def __getattr__(self, name):
        return getattr(self._cursor, name)


def test_no_question_compares_rows_with_a_list_of_the_days_entries(now):
    """PostgreSQL hashes such a list while it fits into its memory. Of a busier day, it compares each row with each entry."""
    with connection.cursor() as cursor:
        explaining: Any = Explaining(cursor)
        with pytest.raises(InterruptedError):
            audit.check(explaining, audit.Scope(since=now.date(), until=now.date() + DAY))
    assert "CTE Scan on entry" in "".join(explaining.plan)
    assert [line for line in explaining.plan if "(ANY (" in line and "SubPlan" in line] == []
