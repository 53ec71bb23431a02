"""Which UTC days a limit counts: every weekday, the ends of months, leap years."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys import periods
from keys.models import SpendingPeriod

days = st.dates(date(1970, 1, 1), date(2200, 12, 31))
PERIODS = SpendingPeriod.values


def midnight(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


@pytest.mark.parametrize("day", range(16, 23))  # Monday to Sunday
def test_a_week_is_from_monday_to_sunday(day):
    assert periods.first_day("WEEKLY", date(2026, 11, day)) == date(2026, 11, 16)
    assert periods.resets_at("WEEKLY", date(2026, 11, day)) == midnight(2026, 11, 23)


def test_a_week_may_span_two_years():
    assert periods.first_day("WEEKLY", date(2027, 1, 3)) == date(2026, 12, 28)  # in ISO week 53
    assert periods.resets_at("WEEKLY", date(2026, 12, 31)) == midnight(2027, 1, 4)


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
def test_a_month_is_a_calendar_month(today, resets_at):
    assert periods.first_day("MONTHLY", today) == today.replace(day=1)
    assert periods.resets_at("MONTHLY", today) == resets_at


@pytest.mark.parametrize(
    ("today", "tomorrow"),
    [
        (date(2026, 11, 21), midnight(2026, 11, 22)),
        (date(2026, 12, 31), midnight(2027, 1, 1)),
        (date(2028, 2, 28), midnight(2028, 2, 29)),
        (date(2027, 2, 28), midnight(2027, 3, 1)),
    ],
)
def test_a_day_is_a_day(today, tomorrow):
    assert periods.first_day("DAILY", today) == today
    assert periods.resets_at("DAILY", today) == tomorrow


def test_a_fixed_limit_counts_everything_ever_and_never_resets():
    assert periods.first_day(None, date(2026, 11, 21)) == date.min
    assert periods.resets_at(None, date(2026, 11, 21)) is None


@given(period=st.sampled_from(PERIODS), today=days)
def test_today_is_in_its_window_and_the_next_one_begins_where_it_ends(period, today):
    first, end = periods.first_day(period, today), periods.resets_at(period, today)
    assert first <= today < end.date()
    assert end == datetime.combine(end.date(), datetime.min.time(), UTC)
    assert periods.first_day(period, end.date()) == end.date()
    for day in (first, end.date() - timedelta(days=1)):
        assert (periods.first_day(period, day), periods.resets_at(period, day)) == (first, end)
