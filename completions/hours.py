"""What the completions of each hour cost in all, and how soon their streams began, in one row for each hour.

Pages that show days read these rows: the completions themselves become too many to be read for each view.
"""

from datetime import datetime, timedelta

from django.db import connection

from completions.models import Completion, CompletionHour

KEPT_TIME = timedelta(days=60)
_FIRST_TIME = timedelta(days=8)  # as far as pages look back
_OPEN_TIME = timedelta(hours=2)  # completions of these hours may end yet


def sum_up(now: datetime) -> int:
    """Sum up anew the hours since the last run whose completions may not all have ended then. Return how many hours.

    Safe at any time and concurrently. Rows older than KEPT_TIME are deleted.
    """
    CompletionHour.objects.filter(hour__lt=now - KEPT_TIME).delete()
    last = CompletionHour.objects.order_by("-hour").values_list("hour", flat=True).first()
    since = max(last or now - _FIRST_TIME, now - _FIRST_TIME) - _OPEN_TIME
    since = since.replace(minute=0, second=0, microsecond=0)
    with connection.cursor() as cursor:
        cursor.execute(_SUM_UP, [Completion.least_id(since)])
        number: int = cursor.rowcount
        return number


# By the time in their ids, which the primary key sorts by, so that an hour is read whole and no other index is needed.
_SUM_UP = """
    INSERT INTO completions_completionhour (hour, completions, cost_nanos, first_token_p50_ms, first_token_p99_ms)
    SELECT date_trunc('hour', to_timestamp(('x' || substr(id, 10, 12))::bit(48)::bigint / 1000.0), 'UTC'),
        count(*), coalesce(sum(cost_nanos), 0),
        percentile_disc(0.5) WITHIN GROUP (ORDER BY first_token_ms),
        percentile_disc(0.99) WITHIN GROUP (ORDER BY first_token_ms)
    FROM completions_completion WHERE id >= %s GROUP BY 1 ORDER BY 1
    ON CONFLICT (hour) DO UPDATE SET completions = EXCLUDED.completions, cost_nanos = EXCLUDED.cost_nanos,
        first_token_p50_ms = EXCLUDED.first_token_p50_ms, first_token_p99_ms = EXCLUDED.first_token_p99_ms
"""
