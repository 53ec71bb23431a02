"""The total cost of the completions of each hour, and how soon their streams began, in one row for each hour.

``usage.sums`` adds each completion once, when it has ended, to its hour and to the number of streams that began as soon: so
no completion is read twice, however many there are. Here the times are read from these numbers.
"""

from datetime import datetime, timedelta
from functools import partial

from completions.models import CompletionHour, FirstTokenHour
from gateway_project.db import cell, everywhere

KEPT_TIME = timedelta(days=60)
_OPEN_TIME = timedelta(hours=2)  # the sums of what ended earlier have been added, unless their task is late


def sum_up(now: datetime) -> int:
    """Write the times of hours that are new or whose sums came late; delete old ones. Safe at any time. Return how many."""
    FirstTokenHour.objects.filter(hour__lt=now - KEPT_TIME).delete()
    CompletionHour.objects.filter(hour__lt=now - KEPT_TIME).delete()
    return len(cell.execute(_SUM_UP, [now - _OPEN_TIME]))


def read(since: datetime) -> dict[datetime, CompletionHour]:
    """Return the sums of all cells by hour, of those later than ``since``. Of times, the mean by the number of completions."""
    rows: dict[datetime, list[CompletionHour]] = {}
    for hour in everywhere.gather(lambda: CompletionHour.objects.filter(hour__gt=since), may_miss=True):
        rows.setdefault(hour.hour, []).append(hour)
    merge = partial(everywhere.merge, sums=("completions", "cost_nanos"), means=("first_token_p50_ms", "first_token_p99_ms"))
    return {
        hour: each[0] if len(each) == 1 else CompletionHour(hour=hour, **merge(each, "completions"))
        for hour, each in rows.items()
    }


# The first step of milliseconds up to which half of the streams have begun, and the same for 99 %.
_SUM_UP = """
    UPDATE completions_completionhour AS total SET first_token_p50_ms = p50, first_token_p99_ms = p99
    FROM (
        SELECT hour, min(milliseconds) FILTER (WHERE begun >= 0.5 * streams) AS p50,
            min(milliseconds) FILTER (WHERE begun >= 0.99 * streams) AS p99
        FROM (
            SELECT hour, milliseconds, sum(streams) OVER (PARTITION BY hour ORDER BY milliseconds) AS begun,
                sum(streams) OVER (PARTITION BY hour) AS streams
            FROM completions_firsttokenhour
            WHERE hour IN (
                SELECT hour FROM completions_completionhour WHERE hour > %s OR first_token_p50_ms IS NULL
            )
        ) AS steps GROUP BY hour
    ) AS times
    WHERE total.hour = times.hour RETURNING 1
"""
