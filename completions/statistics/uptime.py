"""How many requests for each model, and attempts at each provider, were answered in each hour and on each UTC day.

The status page reads these rows: the completions themselves become too many to be read for each view. A request counts as it
does in ``measurements``: not if a provider refused what it asked for, and as failed if open circuits kept it out. Of
the failures of an hour those of one account count at most as often as those of all others together, or once: no account alone
makes a model fail.
"""

from datetime import datetime, timedelta

from completions.models import Completion, UptimeSums
from completions.statistics.measurements import WITH_OURS
from gateway_project.db import cell

DAYS = 90
# Longer than _FIRST_TIME: the sums of a day are made of its hours, which must all be there.
_HOURS_KEPT_TIME = timedelta(days=10)
_FIRST_TIME = timedelta(days=8)  # as far as the first run looks back
_OPEN_TIME = timedelta(hours=2)  # completions of these hours may end yet


def sum_up(now: datetime) -> None:
    """Sum up anew the hours since the last run, and their days; delete old ones. Safe at any time and concurrently."""
    last = UptimeSums.objects.filter(is_day=False).order_by("-since").values_list("since", flat=True).first()
    since = max(last or now - _FIRST_TIME, now - _FIRST_TIME) - _OPEN_TIME
    since = since.replace(minute=0, second=0, microsecond=0)
    cell.execute(_SUM_UP_HOURS, [Completion.least_id(since)])
    cell.execute(_SUM_UP_DAYS, [since.replace(hour=0)])
    UptimeSums.objects.filter(is_day=False, since__lt=now - _HOURS_KEPT_TIME).delete()
    UptimeSums.objects.filter(is_day=True, since__lt=now - timedelta(days=DAYS + 1)).delete()


_ANSWERED = "settlement IN ('reported', 'estimated', 'partial')"
_WRITE = """
    ON CONFLICT (is_day, since, kind, subject) DO UPDATE SET answered = EXCLUDED.answered, failed = EXCLUDED.failed
"""

# By the time in their ids.
_SUM_UP_HOURS = f"""
    WITH recent AS (
        SELECT date_trunc('hour', to_timestamp(('x' || substr(id, 10, 12))::bit(48)::bigint / 1000.0), 'UTC') AS hour,
            account_id, model_id, provider_id, {WITH_OURS} AS failed_attempts, settlement, {_ANSWERED} AS is_answered
        FROM completions_completion WHERE id >= %s AND settlement IS NOT NULL AND own_key_fee IS NULL
    ), outcomes AS (
        SELECT hour, 'model' AS kind, model_id AS subject, account_id, is_answered FROM recent
        WHERE is_answered OR (settlement = 'released' AND failed_attempts IS NOT NULL
            AND coalesce(failed_attempts -> -1 ->> 'status', '') NOT IN ('400', '413', '422'))
        UNION ALL
        SELECT hour, 'provider', provider_id, account_id, true FROM recent WHERE is_answered
        UNION ALL
        SELECT hour, 'provider', failure ->> 'provider', account_id, false
        FROM recent CROSS JOIN jsonb_array_elements(failed_attempts) AS failure
        WHERE failure ->> 'provider' IS NOT NULL AND coalesce(failure ->> 'status', '') NOT IN ('400', '413', '422')
    ), of_accounts AS (
        SELECT hour, kind, subject,
            count(*) FILTER (WHERE is_answered) AS answered, count(*) FILTER (WHERE NOT is_answered) AS failed
        FROM outcomes GROUP BY hour, kind, subject, account_id
    ), bounded AS (
        SELECT *, least(failed, greatest(1, sum(failed) OVER (PARTITION BY hour, kind, subject) - failed)) AS counted
        FROM of_accounts
    )
    INSERT INTO completions_uptimesums (is_day, since, kind, subject, answered, failed)
    SELECT false, hour, kind, subject, sum(answered), sum(counted)
    FROM bounded GROUP BY 2, 3, 4 ORDER BY 2, 3, 4
    {_WRITE}
"""  # noqa: S608  SQL of this module

_SUM_UP_DAYS = f"""
    INSERT INTO completions_uptimesums (is_day, since, kind, subject, answered, failed)
    SELECT true, date_trunc('day', since, 'UTC'), kind, subject, sum(answered), sum(failed)
    FROM completions_uptimesums WHERE NOT is_day AND since >= %s GROUP BY 2, 3, 4 ORDER BY 2, 3, 4
    {_WRITE}
"""  # noqa: S608  SQL of this module
