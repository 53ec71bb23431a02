"""Which UTC days a spending limit counts. Pure."""

from datetime import UTC, date, datetime, time, timedelta

from keys.models import SpendingPeriod


def first_day(period: str | None, today: date) -> date:
    """The first day of the window that ``today`` is in. No period (a FIXED limit): since ever."""
    match period:
        case SpendingPeriod.DAILY:
            return today
        case SpendingPeriod.WEEKLY:
            return today - timedelta(days=today.weekday())
        case SpendingPeriod.MONTHLY:
            return today.replace(day=1)
    return date.min


def resets_at(period: str | None, today: date) -> datetime | None:
    """When the window that ``today`` is in ends, 00:00 UTC; None for a FIXED limit."""
    match period:
        case SpendingPeriod.DAILY:
            return _midnight(today + timedelta(days=1))
        case SpendingPeriod.WEEKLY:
            return _midnight(first_day(period, today) + timedelta(days=7))
        case SpendingPeriod.MONTHLY:
            return _midnight((today.replace(day=28) + timedelta(days=4)).replace(day=1))
    return None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
