"""The sweeper resolves the holds of dead processes once, and leaves those of running completions alone."""

import io
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing import locks
from billing.models import Account, Hold
from completions import tasks
from completions.charging.recovery import sweeper
from completions.models import Completion
from completions.pricing.usage import Usage
from keys.models import ApiKey, SpendingDay
from tests import factories
from tests.completions import settlements
from tests.completions.admitted import admit, at_once, expire
from tests.completions.rows import assert_charged, assert_released
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.plans import plan_of, repeat_completion
from tests.waiting import meanwhile

pytestmark = pytest.mark.usefixtures("echo_model")


@pytest.fixture
def key(alice: Account) -> ApiKey:
    return factories.make_key(alice, tokens_per_minute=1_000)[0]


def test_an_expired_hold_is_released_everywhere(alice, key):
    admitted = admit(key)
    alice.refresh_from_db()
    assert alice.held_nanos == 49 * 500 + 100 * 1_500 == SpendingDay.objects.get(key=key).held_nanos
    expire(admitted)
    assert tasks.release_expired_holds() == 1
    assert_released(alice, "expired")
    key.refresh_from_db()
    assert key.tokens_full_at - admitted.completion.created_at < timedelta(
        seconds=3
    )  # not the 6 seconds in which 102 of 1,000 tokens per minute become available again


def test_finding_abandoned_completions_reads_open_holds_only(key):
    repeat_completion(admit(key).completion.id)
    with CaptureQueriesContext(connection) as queries:
        assert sweeper._abandoned() == []
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE billing_hold")  # it may have pages of holds that other tests rolled back
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")  # preferred where rows are few
    plan = plan_of(queries[-1]["sql"])
    assert "Index Scan using open_holds_by_" in plan
    assert "Index Scan using completions_completion_pkey on completions_completion" in plan


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_the_command_sweeps_and_reports(alice, key, arguments):
    expire(admit(key))
    printed = io.StringIO()
    call_command("sweep_holds", *arguments, stdout=printed)
    assert_released(alice, "expired")
    report = '{"resolved": 1}' if arguments else "1 holds of processes that died are resolved."
    assert printed.getvalue() == f"{report}\n"


def test_the_sweeper_ignores_a_running_hold(alice, key):
    admitted = admit(key)
    assert tasks.release_expired_holds() == 0
    alice.refresh_from_db()
    assert alice.held_nanos == 174_500
    assert Hold.objects.get().state == Hold.State.HELD
    assert Completion.objects.get(pk=admitted.completion.id).settlement is None
    assert_ledger_is_consistent()


def test_a_hold_outlives_the_last_deadline_of_its_request(alice, key, settings):
    admitted = admit(key)
    hold = Hold.objects.get()
    assert hold.expires_at - admitted.completion.created_at > timedelta(seconds=settings.UPSTREAM_TOTAL_SECONDS + 60)


def test_sweeping_again_changes_nothing(alice, key):
    expire(admit(key))
    assert [tasks.release_expired_holds() for _ in range(3)] == [1, 0, 0]
    assert_released(alice, "expired")


def test_a_release_after_the_expiry_does_nothing(alice, key):
    admitted = admit(key)
    expire(admitted)
    tasks.release_expired_holds()
    assert settlements.release(admitted) is False
    assert_released(alice, "expired")


def test_a_settlement_before_the_sweep_stands(alice, key):
    admitted = admit(key)
    expire(admitted)
    assert settlements.settle(admitted, Usage(10, 10), Completion.Settlement.REPORTED) == 20_000
    assert tasks.release_expired_holds() == 0
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")


def test_settling_twice_charges_once(alice, key):
    admitted = admit(key)
    usage = Usage(10, 10)
    assert settlements.settle(admitted, usage, Completion.Settlement.REPORTED) == 20_000
    assert settlements.settle(admitted, Usage(50, 50), Completion.Settlement.ESTIMATED) is None
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")


def test_a_hold_of_yesterday_is_released_on_yesterdays_row(alice, key):
    admitted = admit(key)
    SpendingDay.objects.filter(key=key).update(day=admitted.completion.created_at.date() - timedelta(days=1))
    Completion.objects.update(spending_day=admitted.completion.created_at.date() - timedelta(days=1))
    expire(admitted)
    tasks.release_expired_holds()
    assert_released(alice, "expired")


# --- Concurrently ------------------------------------------------------------------------------------------------


@fault(
    "Worker",
    "Several sweepers run at once",
    "Each hold is released once",
)
@pytest.mark.django_db(transaction=True)
def test_concurrent_sweepers_release_each_hold_once(alice, key):
    expire(*[admit(key) for _ in range(5)])
    released = at_once(tasks.release_expired_holds, tasks.release_expired_holds)
    assert sum(released) == 5
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (10_000_000_000, 0)
    assert set(Hold.objects.values_list("state", flat=True)) == {Hold.State.EXPIRED}
    assert_ledger_is_consistent()


@fault(
    "Worker",
    "The sweeper resolves a hold while its request settles it",
    "One of them takes effect",
)
@pytest.mark.django_db(transaction=True)
def test_a_concurrent_sweeper_and_settlement_resolve_a_hold_once(alice, key):
    admitted = [admit(key) for _ in range(4)]
    expire(*admitted)

    def settle_all() -> int:
        settled = [settlements.settle(each, Usage(10, 10), Completion.Settlement.REPORTED) for each in admitted]
        return len([nanos for nanos in settled if nanos is not None])

    released, settled = at_once(tasks.release_expired_holds, settle_all)
    assert released + settled == 4
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (10_000_000_000 - settled * 20_000, 0)
    assert_ledger_is_consistent()


@fault(
    "Worker",
    "The row of an account is locked while the sweeper runs",
    "The holds of other accounts are released",
)
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("impatient")
def test_a_locked_account_does_not_delay_other_holds(alice, key, charlie):
    expire(admit(key), admit(factories.make_key(charlie)[0]))
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        assert tasks.release_expired_holds() == 1
        assert Hold.objects.get(account=charlie).state == Hold.State.EXPIRED
    assert tasks.release_expired_holds() == 1
    assert_released(alice, "expired")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("impatient")
def test_a_locked_account_is_reported_once_in_a_run_and_without_a_traceback(alice, key, caplog):
    expire(*[admit(key) for _ in range(3)])
    caplog.clear()
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        assert tasks.release_expired_holds() == 0
    [report] = [record for record in caplog.records if record.name == "gateway.sweeper"]
    assert str(alice.pk) in report.getMessage()
    assert report.exc_info is None
    assert tasks.release_expired_holds() == 3
