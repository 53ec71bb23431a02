"""The SQL that writes an alert when a key's spending limit, a run or a monthly budget reaches 80 % or 100 % of its amount.

A charge passes a mark if less was spent before it, and as much or more after it. Its transaction writes the alert. A request
that is refused because too little is left passes 100 %, too: the history of refusals writes that alert. The id of an alert is
made of what it tells. So the first of both writes it, and nothing repeats it. An amount set below what is spent passes no mark.
"""

from typing import Any

from billing.models import AccountAlert
from keys.limits.allowance import NEAR_PERCENT
from keys.limits.spending import SpendingWindow
from keys.models import ApiKey


def tell(changed: str, tables: str, told: str, facts: str, near: str, at: str) -> str:
    """Return SQL that writes an alert for each of the ``changed`` which passed a mark and has a row in ``tables``.

    ``more_nanos`` took it past: they were spent, or refused (``needed_nanos``). Rows in order, so that no two writers deadlock.
    """
    return f"""
        WITH changed AS ({changed})
        INSERT INTO billing_accountwarning (id, account_id, kind, data)
        SELECT md5(concat_ws(' ', {told}, mark))::uuid, account_id, kind, jsonb_build_object({facts},
            'percent', least(mark, floor(spent_nanos * 100::numeric / amount_nanos)), 'spent_nanos', spent_nanos)
            || jsonb_strip_nulls(jsonb_build_object('needed_nanos', needed_nanos))
        FROM changed JOIN {tables} CROSS JOIN (VALUES ({NEAR_PERCENT}, '{near}'), (100, '{at}')) AS marks (mark, kind)
        WHERE (spent_nanos + coalesce(needed_nanos, 0)) * 100::numeric >= amount_nanos * mark::numeric
            AND (spent_nanos + coalesce(needed_nanos, 0) - more_nanos) * 100::numeric < amount_nanos * mark::numeric
        ORDER BY 1 ON CONFLICT DO NOTHING
        """  # noqa: S608  constants of this code


# ``counted_id`` is that of a run or a budget. Amounts are above 0: a limit of $0 passes no mark.
CHANGED = """SELECT * FROM json_to_recordset($1::json) AS change (key_id text, counted_id text, first_day text,
    resets_at timestamp, amount_nanos bigint, spent_nanos bigint, more_nanos bigint, needed_nanos bigint)"""
RESETS_AT = """'resets_at', to_char(resets_at, 'YYYY-MM-DD"T00:00:00+00:00"')"""
TELL_KEYS = tell(
    CHANGED,
    "keys_apikey AS key ON key.id = key_id",
    "'key', key_id, first_day, amount_nanos",
    f"'key_id', key_id, 'key_name', name, 'limit_nanos', amount_nanos, 'period', spending_period, {RESETS_AT}",
    *(AccountAlert.Kind.KEY_NEAR_LIMIT, AccountAlert.Kind.KEY_AT_LIMIT),
)


def find_passed(key: ApiKey, window: SpendingWindow, spent_before_nanos: int) -> list[dict[str, Any]]:
    """Return what ``TELL_KEYS`` takes if a settlement passed a mark, in the window as it is after it. The key is locked."""
    amount_nanos, spent_nanos = window.limit_nanos, window.spent_nanos
    is_near = spent_before_nanos * 100 < amount_nanos * NEAR_PERCENT <= spent_nanos * 100
    if not (is_near or spent_before_nanos < amount_nanos <= spent_nanos):
        return []
    place = {"key_id": key.pk, "first_day": window.first_day, "resets_at": window.resets_at}
    more_nanos = spent_nanos - spent_before_nanos
    return [{**place, "amount_nanos": amount_nanos, "spent_nanos": spent_nanos, "more_nanos": more_nanos}]
