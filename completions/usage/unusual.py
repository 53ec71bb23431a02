"""Alerts of keys that spend far more in an hour than they use to.

The usual hour of a key is the amount that USUAL_SHARE of its hours with spending stayed within, over USUAL_TIME; with fewer
than HOURS_MIN of them it has none. An hour is unusual if the key spends FLOOR_NANOS in it, and the account's factor times its
usual hour. After an alert of a key there is none for QUIET_TIME. The id of an alert is made of key and hour, and each cell has
a lock: a task that dies, or runs twice, neither loses nor repeats one.
"""

from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID, uuid5

from django.db import transaction

from billing import money
from billing.models import AccountAlert
from gateway_project.db import cell, pool
from gateway_project.web import hosts

FLOOR_NANOS = money.nanos(500)
USUAL_TIME = timedelta(days=28)
USUAL_SHARE = "0.95"
HOURS_MIN = 24
QUIET_TIME = timedelta(hours=24)
_Kind = AccountAlert.Kind


def tell() -> int:
    """Write the alerts of this hour and of the one before, whose sums may have come late. Return how many."""
    with transaction.atomic():
        cell.take_turn(f"completions.usage.unusual {cell.current()}")
        now = pool.database_time()
        values = {"floor": FLOOR_NANOS, "share": USUAL_SHARE, "hours_min": HOURS_MIN, "kind": _Kind.KEY_HOUR_UNUSUAL}
        values |= {"hour_before": now - timedelta(hours=1), "quiet_since": now - QUIET_TIME, "days": USUAL_TIME.days}
        values["dearer_max"] = USUAL_TIME // timedelta(hours=1) // 20  # hours that may be dearer than what is usual
        alerts = [_alert(*row) for row in cell.execute(_UNUSUAL, values)]
        return len(AccountAlert.objects.bulk_create(alerts, batch_size=1_000))


def _alert(
    account_id: UUID, key_id: str, key_name: str, hour: datetime, factor: int, spent_nanos: int, usual_nanos: int
) -> AccountAlert:
    key_url, requests_url = hosts.mailed_page("key", "", key_id), hosts.mailed_page("requests", "")
    day = urlencode({"key": key_id, "since": hour.date(), "until": hour.date()})
    data = {
        **{"key_id": key_id, "key_name": key_name, "starts_at": hour.isoformat(), "factor": factor},
        **{"spent_nanos": spent_nanos, "usual_nanos": usual_nanos},
        **{"key_url": key_url or None, "requests_url": f"{requests_url}?{day}" if requests_url else None},
    }
    id = uuid5(account_id, f"unusual hour {key_id} {hour.isoformat()}")
    return AccountAlert(pk=id, account_id=account_id, kind=_Kind.KEY_HOUR_UNUSUAL, data=data)


# An index over the hours finds those who spend as much as the floor, and each hour of theirs is a seek in another. Most of
# them do so always: as soon as a few of their last hours were dear, too, more than 1 of 20 were, and the others are not read.
_UNUSUAL = """
    WITH spent AS MATERIALIZED (
        SELECT account_id, key_id, hour, sum(cost_nanos)::bigint AS spent_nanos FROM completions_usagehour
        WHERE hour >= date_trunc('hour', %(hour_before)s::timestamptz, 'UTC')
        GROUP BY account_id, key_id, hour HAVING sum(cost_nanos) >= %(floor)s
    ), asked AS MATERIALIZED (
        SELECT spent.*, key.name, unusual_hour_factor AS factor
        FROM spent JOIN billing_account AS account ON account.id = account_id JOIN keys_apikey AS key ON key.id = key_id
        WHERE is_active AND unusual_hour_factor IS NOT NULL AND NOT EXISTS (
            SELECT FROM billing_accountwarning AS told
            WHERE told.account_id = spent.account_id AND told.created_at > %(quiet_since)s AND kind = %(kind)s
                AND data ->> 'key_id' = key_id
        )
    ), dear AS MATERIALIZED (
        SELECT * FROM asked WHERE %(dearer_max)s >= (
            SELECT count(*) FROM (
                SELECT FROM generate_series(hour - interval '1 hour', hour - interval '7 days', interval '-1 hour') AS earlier
                CROSS JOIN LATERAL (
                    SELECT sum(cost_nanos) AS cost_nanos FROM completions_usagehour
                    WHERE account_id = asked.account_id AND hour = earlier AND key_id = asked.key_id
                ) AS summed WHERE cost_nanos * factor > spent_nanos LIMIT %(dearer_max)s + 1
            ) AS dearer
        )
    )
    SELECT DISTINCT ON (account_id, key_id) account_id, key_id, name, hour, factor, spent_nanos, usual_nanos
    FROM dear CROSS JOIN LATERAL (
        SELECT percentile_disc(%(share)s::float) WITHIN GROUP (ORDER BY cost_nanos) AS usual_nanos, count(*) AS hours
        FROM generate_series(dear.hour - make_interval(days => %(days)s), dear.hour - interval '1 hour', '1 hour') AS earlier
        CROSS JOIN LATERAL (
            SELECT sum(cost_nanos)::bigint AS cost_nanos FROM completions_usagehour
            WHERE account_id = dear.account_id AND hour = earlier AND key_id = dear.key_id
        ) AS summed WHERE cost_nanos > 0
    ) AS usual
    WHERE hours >= %(hours_min)s AND spent_nanos >= factor * usual_nanos
    ORDER BY account_id, key_id, hour
"""
