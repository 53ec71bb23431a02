"""The audit finds exactly the admissions that exceeded the spending limit of their time."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from billing.ledger import audit
from billing.models import Account, Hold
from completions.models import Completion, Price, Route
from gateway_project import identifiers
from keys import lifecycle
from keys.limits import spending
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.billing import guards
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent

CENT = 10_000_000
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
A_MOMENT = timedelta(microseconds=1)


@pytest.fixture(autouse=True)
def _dear(db: None) -> None:
    """A model of which two replies cost nearly a cent."""
    factories.make_model("demo/dear", output="1500")


@pytest.fixture
def key(alice: Account) -> ApiKey:
    return factories.make_key(alice)[0]


def ask(secret: str, model_id: str = "demo/dear") -> int:
    return chat.ask(client_for(secret), model=model_id, max_tokens=3).status_code


def findings(account_id: Any = None) -> list[dict[str, Any]]:
    violations = audit.verify(account_id)
    return [row for each in violations if each.invariant.name == "admissions_fit_their_limits" for row in each.rows]


def found(account_id: Any = None) -> list[str]:
    return sorted(row["completion_id"] for row in findings(account_id))


# --- Admissions of the gateway -----------------------------------------------------------------------------------

LIMITS = [("FIXED", None), ("RECURRING", "DAILY"), ("RECURRING", "WEEKLY"), ("RECURRING", "MONTHLY")]


@pytest.mark.parametrize(("type", "period"), LIMITS)
def test_an_admission_records_the_limit_that_it_fitted(alice, type, period):
    key, secret = factories.make_key(alice, limit_cents=1, type=type, period=period)
    assert [ask(secret) for _ in range(3)] == [200, 200, 402]
    for completion in Completion.objects.all():
        since = spending.read_window(key).first_day if period else None
        assert (completion.limit_nanos, completion.limit_since) == (CENT, since)
    usage.check_deferred()
    assert_ledger_is_consistent()


def test_an_admission_without_a_limit_records_none(alice):
    _, secret = factories.make_key(alice)
    assert ask(secret) == 200
    completion = Completion.objects.get()
    assert (completion.limit_nanos, completion.limit_since) == (None, None)


def test_a_limit_changed_within_its_window_is_no_violation(alice):
    key, secret = factories.make_key(alice, limit_cents=3, type="FIXED")
    factories.make_model("demo/free", input="0", output="0")
    assert [ask(secret) for _ in range(3)] == [200] * 3
    lifecycle.set_spending_limit(key, SpendingLimit(1, "RECURRING", "MONTHLY"))
    assert ask(secret) == 402
    assert ask(secret, "demo/free") == 200  # a free completion fits a limit that is exceeded already
    lifecycle.set_spending_limit(key, SpendingLimit(4, "RECURRING", "DAILY"))
    assert ask(secret) == 200
    lifecycle.set_spending_limit(key, SpendingLimit())
    assert ask(secret) == 200
    limits = Completion.objects.order_by("created_at").values_list("limit_nanos", flat=True)
    assert list(limits) == [3 * CENT] * 3 + [CENT, 4 * CENT, None]
    assert_ledger_is_consistent()


# --- Planted rows ------------------------------------------------------------------------------------------------


@pytest.fixture
def ran(db: None) -> Callable[..., str]:
    guards.remove("billing_account", "billing_ledgerentry", "billing_hold", "completions_completion")
    return _ran


def _ran(
    key: ApiKey, at: datetime, *, held: int = 10, cost: int | None = 10, limit: int | None = None, since: date | None = None
) -> str:
    """Insert a completion admitted at this time, without admission. Without a cost it is still running."""
    completion_id = identifiers.short_uuid7()
    is_settled = cost is not None
    Hold.objects.create(
        reference=completion_id,
        account_id=key.account_id,
        amount_nanos=held,
        state="SETTLED" if is_settled else "HELD",
        settled_nanos=cost,
        expires_at=usage.TOMORROW,
        resolved_at=at if is_settled else None,
    )
    price = Price.objects.get(model="demo/dear")
    Completion.objects.create(
        id=completion_id,
        account_id=key.account_id,
        key=key,
        model_id=price.model_id,
        price=price,
        provider=Route.objects.get(model=price.model_id).provider,
        is_stream=False,
        spending_day=at.date(),
        counted_tokens=1,
        settlement="reported" if is_settled else None,
        cost_nanos=cost,
        limit_nanos=limit,
        limit_since=since,
        created_at=at,
        finished_at=at if is_settled else None,
    )
    return completion_id


def test_a_limit_covers_earlier_spending_and_the_own_hold(key, ran):
    ran(key, MONDAY, cost=4)
    ran(key, MONDAY + A_MOMENT, held=6, cost=1, limit=10)
    assert found() == []
    exceeding = ran(key, MONDAY + 2 * A_MOMENT, held=6, cost=0, limit=10)
    assert findings() == [
        {
            "account_id": key.account_id,
            "completion_id": exceeding,
            "key_id": key.pk,
            "limit_nanos": 10,
            "limit_since": None,
            "held_nanos": 6,
            "used_nanos": 5,
        }
    ]


def test_a_raised_cost_is_found_at_later_admissions(key, ran):
    first = ran(key, MONDAY, cost=4, limit=20)
    second = ran(key, MONDAY + A_MOMENT, cost=4, limit=20)
    assert found() == []
    Completion.objects.filter(pk=first).update(cost_nanos=11)
    assert found() == [second]


def test_a_running_completion_counts_with_its_hold(key, ran):
    ran(key, MONDAY, held=5, cost=None, limit=14)
    assert found() == []
    exceeding = ran(key, MONDAY + A_MOMENT, cost=None, limit=14)
    assert found() == [exceeding]


def test_completions_of_one_batch_fit_the_limit_together(key, ran):
    for _ in range(3):
        ran(key, MONDAY, limit=30)
    assert found() == []
    ran(key, MONDAY, limit=30)
    assert len(found()) == 1


def test_later_completions_and_other_keys_do_not_count(alice, key, ran):
    other, _ = factories.make_key(alice)
    ran(other, MONDAY - A_MOMENT, cost=9)
    ran(key, MONDAY, limit=10)
    ran(key, MONDAY + A_MOMENT)
    assert found() == []


@pytest.mark.parametrize(
    ("since", "before"),
    [
        (MONDAY.date(), MONDAY - A_MOMENT),
        (MONDAY.date() - timedelta(days=15), MONDAY - timedelta(days=15) - A_MOMENT),  # a month, and its first day is idle
    ],
)
def test_a_window_counts_from_the_first_moment_of_its_first_day(key, ran, since, before):
    opening = datetime(since.year, since.month, since.day, tzinfo=UTC)
    ran(key, before - timedelta(days=40), cost=7)
    ran(key, before, cost=8)
    ran(key, MONDAY + A_MOMENT, limit=10, since=since)
    assert found() == []
    ran(key, opening, cost=1)
    assert len(found()) == 1


def test_without_a_first_day_all_days_count(key, ran):
    ran(key, MONDAY - timedelta(days=400), cost=1)
    exceeding = ran(key, MONDAY, limit=10)
    assert found() == [exceeding]


def test_each_admission_is_checked_in_its_own_window(key, ran):
    tuesday = MONDAY + timedelta(days=1)
    ran(key, MONDAY, cost=8, limit=100, since=date(2026, 11, 1))
    ran(key, tuesday, cost=2, limit=10, since=tuesday.date())  # daily since today
    ran(key, tuesday + A_MOMENT, cost=2, limit=20, since=MONDAY.date())  # weekly since now
    assert found() == []
    daily = ran(key, tuesday + 2 * A_MOMENT, limit=13, since=tuesday.date())
    weekly = ran(key, tuesday + 3 * A_MOMENT, limit=31, since=MONDAY.date())
    assert found() == sorted([daily, weekly])


def test_one_account_can_be_audited(key, charlie, ran):
    other, _ = factories.make_key(charlie)
    ran(other, MONDAY, cost=8, since=MONDAY.date(), limit=10)
    exceeding = ran(key, MONDAY, limit=9)
    assert (found(charlie.pk), found(key.account_id)) == ([], [exceeding])
