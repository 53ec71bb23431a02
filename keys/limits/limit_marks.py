"""Alerts of keys that come near their spending limit, or have spent it.

A mark is passed by one settlement: less was spent of the window before it, as much or more after it. So nothing must be
remembered. A limit that is set below what is spent already passes no mark: who sets it sees that.
"""

from billing.ledger.movements import NewAlert
from billing.models import AccountAlert
from keys.limits.spending import SpendingWindow
from keys.models import ApiKey

MARKS = ((80, AccountAlert.Kind.KEY_NEAR_LIMIT.value), (100, AccountAlert.Kind.KEY_AT_LIMIT.value))  # percents


def find_passed(key: ApiKey, window: SpendingWindow, spent_before_nanos: int) -> list[NewAlert]:
    """Return an alert for each mark that a settlement passed, in the window as it is after it. The key is locked."""
    if window.spent_nanos * 100 < window.limit_nanos * MARKS[0][0]:
        return []
    return [
        _warn(key, window, kind, percent)
        for percent, kind in MARKS
        if spent_before_nanos * 100 < window.limit_nanos * percent <= window.spent_nanos * 100
    ]


def _warn(key: ApiKey, window: SpendingWindow, kind: str, percent: int) -> NewAlert:
    data = {
        "key_id": key.pk,
        "key_name": key.name,
        "percent": percent,
        "limit_nanos": window.limit_nanos,
        "spent_nanos": window.spent_nanos,
        "period": key.spending_period,
        "resets_at": window.resets_at.isoformat() if window.resets_at else None,
    }
    return NewAlert(key.account_id, kind, data)
