"""Windows of spending limits: FIXED counts all days, RECURRING those of its period. A new limit applies at once."""

from datetime import UTC, date, datetime, time, timedelta

import pytest
from django.db import IntegrityError, transaction

from billing import money
from gateway_project import errors
from gateway_project.db import pipelined_transaction
from keys import lifecycle
from keys.limits import spending
from keys.limits.spending import SpendingChange
from keys.models import ApiKey, SpendingDay
from keys.spending_limit import SpendingLimit, SpendingPeriod
from tests import factories, stepped_clock, usage

CENT = money.NANOS_PER_CENT
NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)  # a Wednesday
TODAY = NOW.date()


def spend(key, day, cents):
    usage.reserve(key, day=day, amount_nanos=2 * cents * CENT)
    usage.commit(key, day=day, held_nanos=2 * cents * CENT, spent_nanos=cents * CENT, prompt_tokens=3, completion_tokens=4)


@pytest.fixture(autouse=True)
def _stopped_clock(db):
    stepped_clock.make()
    stepped_clock.step(NOW)


@pytest.fixture
def key(alice):
    """A key that spent 1, 2, 4 ... cents on successive days, so that a sum tells which days were counted."""
    key, _ = factories.make_key(alice)
    for cents, day in [
        (1, TODAY),
        (2, date(2026, 11, 16)),  # Monday
        (4, date(2026, 11, 15)),  # Sunday of the week before
        (8, date(2026, 11, 1)),
        (16, date(2026, 10, 31)),
        (32, date(2020, 2, 29)),
    ]:
        spend(key, day, cents)
    return key


def spent_cents(key, now=NOW):
    stepped_clock.step(now)
    return spending.read_window(key).spent_nanos // CENT


def refused(key, need_nanos, now=NOW):
    stepped_clock.step(now)
    window = spending.read_window(key)
    with pytest.raises(errors.MoneyRefused) as refusal:
        spending.require_available(window, need_nanos)
    return refusal.value


@pytest.mark.parametrize(
    ("type", "period", "cents", "resets_at"),
    [
        ("FIXED", None, 63, None),
        ("RECURRING", "DAILY", 1, datetime(2026, 11, 19, tzinfo=UTC)),
        ("RECURRING", "WEEKLY", 3, datetime(2026, 11, 23, tzinfo=UTC)),
        ("RECURRING", "MONTHLY", 15, datetime(2026, 12, 1, tzinfo=UTC)),
    ],
)
def test_the_window_counts_the_days_of_its_limit(key, type, period, cents, resets_at):
    lifecycle.set_spending_limit(key, SpendingLimit(100, type, period))
    window = spending.read_window(key)
    assert (window.limit_nanos, window.spent_nanos, window.held_nanos) == (100 * CENT, cents * CENT, 0)
    assert window.resets_at == resets_at
    assert window.available_nanos == window.unspent_nanos == (100 - cents) * CENT


@pytest.mark.parametrize(
    ("period", "last_moment", "next_moment", "before"),
    [
        ("DAILY", datetime(2026, 11, 18, 23, 59, 59, 999999, tzinfo=UTC), datetime(2026, 11, 19, tzinfo=UTC), 1),
        ("WEEKLY", datetime(2026, 11, 22, 23, 59, 59, 999999, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC), 3),
        ("MONTHLY", datetime(2026, 11, 30, 23, 59, 59, 999999, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC), 15),
    ],
)
def test_a_recurring_limit_restarts_at_midnight_without_a_write(key, period, last_moment, next_moment, before):
    lifecycle.set_spending_limit(key, SpendingLimit(100, "RECURRING", period))
    rows = list(SpendingDay.objects.order_by("day").values())
    assert (spent_cents(key, last_moment), spent_cents(key, next_moment)) == (before, 0)
    assert list(SpendingDay.objects.order_by("day").values()) == rows


PERIODS = SpendingPeriod.values


def windows_on(keys, day):
    """Return the first day of each key's window, and when it resets, for a request at noon of ``day``."""
    stepped_clock.step(datetime.combine(day, time(12), UTC))
    return {key.spending_period: (window.first_day, window.resets_at) for key in keys for window in [spending.read_window(key)]}


def midnight(year, month, day):
    return datetime(year, month, day, tzinfo=UTC)


@pytest.fixture
def limited(alice):
    """Return a key for each period."""
    return [factories.make_key(alice, limit_cents=1, type="RECURRING", period=period)[0] for period in PERIODS]


@pytest.mark.parametrize("day", range(16, 23))  # Monday to Sunday
def test_a_week_is_from_monday_to_sunday(limited, day):
    assert windows_on(limited, date(2026, 11, day))["WEEKLY"] == (date(2026, 11, 16), midnight(2026, 11, 23))


def test_a_week_may_span_two_years(limited):
    week = (date(2026, 12, 28), midnight(2027, 1, 4))  # ISO week 53
    assert windows_on(limited, date(2027, 1, 3))["WEEKLY"] == windows_on(limited, date(2026, 12, 31))["WEEKLY"] == week


@pytest.mark.parametrize(
    ("today", "resets_at"),
    [
        (date(2026, 1, 1), midnight(2026, 2, 1)),
        (date(2026, 1, 31), midnight(2026, 2, 1)),
        (date(2026, 2, 28), midnight(2026, 3, 1)),
        (date(2028, 2, 28), midnight(2028, 3, 1)),
        (date(2028, 2, 29), midnight(2028, 3, 1)),
        (date(2026, 4, 30), midnight(2026, 5, 1)),
        (date(2026, 12, 1), midnight(2027, 1, 1)),
        (date(2026, 12, 31), midnight(2027, 1, 1)),
    ],
)
def test_a_month_is_a_calendar_month(limited, today, resets_at):
    assert windows_on(limited, today)["MONTHLY"] == (today.replace(day=1), resets_at)


@pytest.mark.parametrize(
    ("today", "tomorrow"),
    [
        (date(2026, 11, 21), midnight(2026, 11, 22)),
        (date(2026, 12, 31), midnight(2027, 1, 1)),
        (date(2028, 2, 28), midnight(2028, 2, 29)),
        (date(2027, 2, 28), midnight(2027, 3, 1)),
    ],
)
def test_a_day_is_a_utc_day(limited, today, tomorrow):
    assert windows_on(limited, today)["DAILY"] == (today, tomorrow)


def test_a_fixed_limit_counts_every_day_and_never_resets(alice):
    fixed, _ = factories.make_key(alice, limit_cents=1, type="FIXED")
    assert windows_on([fixed], date(2026, 11, 21)) == {None: (date.min, None)}


def test_each_day_is_in_one_window_and_the_next_window_begins_where_it_ends(limited):
    before = windows_on(limited, date(2027, 12, 27))
    for days in range(1, 100):  # over a leap day
        today = date(2027, 12, 27) + timedelta(days=days)
        now = windows_on(limited, today)
        for period in PERIODS:
            first_day, resets_at = now[period]
            assert first_day <= today < resets_at.date()
            assert now[period] == before[period] or datetime.combine(first_day, time.min, UTC) == before[period][1]
        before = now


def test_a_key_without_a_limit_has_no_window(key):
    assert spending.read_window(key) is None


def test_a_changed_limit_counts_what_was_really_spent(key):
    limits = [(100, "FIXED", None), (2, "RECURRING", "DAILY"), (2, "RECURRING", "WEEKLY"), (40, "FIXED", None)]
    seen = []
    for limit_cents, type, period in limits:
        lifecycle.set_spending_limit(key, SpendingLimit(limit_cents, type, period))
        window = spending.read_window(key)
        seen.append((window.spent_nanos // CENT, window.available_nanos // CENT))
    assert seen == [(63, 37), (1, 1), (3, 0), (63, 0)]
    lifecycle.set_spending_limit(key, SpendingLimit())
    assert spending.read_window(key) is None


def test_reserved_money_is_neither_available_nor_spent(key):
    lifecycle.set_spending_limit(key, SpendingLimit(10, "RECURRING", "DAILY"))
    usage.reserve(key, day=TODAY, amount_nanos=6 * CENT)
    window = spending.read_window(key)
    assert (window.spent_nanos, window.held_nanos) == (1 * CENT, 6 * CENT)
    assert (window.unspent_nanos, window.available_nanos) == (9 * CENT, 3 * CENT)
    usage.give_back(key, day=TODAY, held_nanos=6 * CENT)
    assert spending.read_window(key).available_nanos == 9 * CENT


def test_a_completion_counts_on_the_day_it_was_admitted(key):
    lifecycle.set_spending_limit(key, SpendingLimit(10, "RECURRING", "DAILY"))
    usage.reserve(key, day=TODAY, amount_nanos=6 * CENT)
    tomorrow = NOW + timedelta(days=1)
    usage.commit(key, day=TODAY, held_nanos=6 * CENT, spent_nanos=5 * CENT, prompt_tokens=1, completion_tokens=1)
    assert (spent_cents(key), spent_cents(key, tomorrow)) == (6, 0)


def test_a_completion_of_an_earlier_window_does_not_change_this_one(key):
    lifecycle.set_spending_limit(key, SpendingLimit(63, "RECURRING", "WEEKLY"))
    window = spending.read_window(key)
    before = (window.spent_nanos, window.held_nanos)
    window.settle(SpendingChange(key.pk, date(2026, 11, 15), 5, spent_nanos=3))  # on Sunday
    assert (window.spent_nanos, window.held_nanos) == before
    window.settle(SpendingChange(key.pk, date(2026, 11, 16), 5, spent_nanos=3))
    assert (window.spent_nanos, window.held_nanos) == (before[0] + 3, before[1] - 5)


def test_settling_counts_the_completion_and_its_tokens(key):
    row = SpendingDay.objects.get(day=TODAY)
    assert (row.spent_nanos, row.held_nanos, row.completions, row.prompt_tokens, row.completion_tokens) == (CENT, 0, 1, 3, 4)
    spend(key, TODAY, 1)
    row.refresh_from_db()
    assert (row.spent_nanos, row.completions, row.prompt_tokens, row.completion_tokens) == (2 * CENT, 2, 6, 8)


def test_a_day_changes_once_by_what_is_resolved_and_placed_on_it(alice):
    key = factories.make_key(alice)[0]
    for _ in range(3):
        usage.reserve(key, day=TODAY, amount_nanos=6)
    settled = [SpendingChange(key.pk, TODAY, 6, spent_nanos=spent, completions=1, prompt_tokens=1) for spent in (1, 2)]
    yesterday = TODAY - timedelta(days=1)
    reserved = [SpendingChange(key.pk, day, nanos) for day, nanos in ((TODAY, 10), (TODAY, 20), (yesterday, 40))]
    statements = spending.change_spending_statements(settled, reserved)
    for statement in statements:
        pipelined_transaction.execute(statement)
    assert len(statements) == 2
    columns = ("day", "held_nanos", "open_holds", "spent_nanos", "completions", "prompt_tokens")
    days = [(yesterday, 40, 1, 0, 0, 0), (TODAY, 36, 3, 3, 2, 2)]
    assert list(key.spending_days.order_by("day").values_list(*columns)) == days


def test_the_days_of_another_key_do_not_count(key, alice):
    other, _ = factories.make_key(alice, limit_cents=10, type="FIXED")
    assert spending.read_window(other).spent_nanos == 0


def test_a_limit_held_by_running_requests_is_refused_as_tied_up(key):
    lifecycle.set_spending_limit(key, SpendingLimit(10, "RECURRING", "DAILY"))
    usage.reserve(key, day=TODAY, amount_nanos=6 * CENT)
    refusal = refused(key, 9 * CENT)
    assert type(refusal) is errors.TiedUp
    assert (refusal.status, refusal.code) == (429, "rate_limit_exceeded")
    assert refusal.headers == {"Retry-After": "1", "retry-after-ms": "1000"}


def test_a_recurring_limit_with_too_little_left_says_when_it_resets(key):
    lifecycle.set_spending_limit(key, SpendingLimit(10, "RECURRING", "DAILY"))
    refusal = refused(key, 9 * CENT + 1)
    assert type(refusal) is errors.SpendingLimitReached
    assert (refusal.status, refusal.code, refusal.limit_source) == (402, "insufficient_quota", "key")
    assert (refusal.headers, refusal.details["resets_at"]) == ({"x-should-retry": "false"}, "2026-11-19T00:00:00.000Z")
    assert refusal.message == (
        "This request may cost up to $0.090000001, but the key's spending limit of $0.10 has only $0.09 left."
    )


def test_a_fixed_limit_that_is_reached_never_resets(key):
    lifecycle.set_spending_limit(key, SpendingLimit(63, "FIXED"))
    refusal = refused(key, 1)
    assert type(refusal) is errors.SpendingLimitReached
    assert refusal.headers == {"x-should-retry": "false"}
    assert "resets_at" not in refusal.details


def test_a_raise_is_the_limit_until_its_moment_and_ends_by_itself(key):
    lifecycle.set_spending_limit(key, SpendingLimit(2, "RECURRING", "DAILY"))
    ends = NOW + timedelta(hours=1)
    lifecycle.raise_spending_limit(key, limit_cents=5, until=ends)
    stepped_clock.step(ends - timedelta(microseconds=1))
    raised = spending.read_window(key)
    assert (raised.limit_nanos, raised.available_nanos, raised.resets_at) == (
        5 * CENT,
        4 * CENT,
        datetime(2026, 11, 19, tzinfo=UTC),
    )
    spend(key, TODAY, 3)
    assert "$0.02 is reached" in str(refused(key, 1, ends))


def test_a_new_limit_ends_a_raise(key):
    lifecycle.set_spending_limit(key, SpendingLimit(2, "FIXED"))
    lifecycle.raise_spending_limit(key, limit_cents=500, until=NOW + timedelta(days=1))
    lifecycle.set_spending_limit(key, SpendingLimit(100, "FIXED"))
    assert spending.read_window(key).limit_nanos == 100 * CENT


@pytest.mark.parametrize(("limit_cents", "raised_cents"), [(None, 5), (5, 5), (5, 4), (5, money.CENTS_MAX + 1)])
def test_a_raise_is_above_the_limit_and_ends(key, limit_cents, raised_cents):
    lifecycle.set_spending_limit(key, SpendingLimit(limit_cents, limit_cents and "FIXED"))
    with pytest.raises(ValueError, match="above"):
        lifecycle.raise_spending_limit(key, limit_cents=raised_cents, until=NOW)
    with pytest.raises(IntegrityError, match="a_raise_is_above_the_limit_and_ends"), transaction.atomic():
        ApiKey.objects.filter(pk=key.pk).update(raised_limit_cents=raised_cents, raised_until=NOW)


@pytest.mark.parametrize("half", [{"raised_limit_cents": 9}, {"raised_until": NOW}])
def test_a_raise_has_an_amount_and_an_end(key, half):
    lifecycle.set_spending_limit(key, SpendingLimit(5, "FIXED"))
    with pytest.raises(IntegrityError, match="a_raise_is_above_the_limit_and_ends"), transaction.atomic():
        ApiKey.objects.filter(pk=key.pk).update(**half)


def test_sums_of_a_key_that_a_batch_could_not_lock_make_no_window(alice):
    locked, skipped = (factories.make_key(alice, limit_cents=1, type="FIXED")[0] for _ in range(2))
    sums = pipelined_transaction.execute(spending.select_spending_statement([locked.id, skipped.id]))
    assert len(sums) == 2
    assert spending.build_windows([locked], sums) == {locked.id: spending.read_window(locked)}
