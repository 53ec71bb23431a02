"""Drops sums of usage by hour, and those of labels by day, after ``RETENTION_USAGE_DAYS``.

First it writes the day since which they are kept: the audit compares no sums before that day with the ledger.
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from billing.ledger.archived_days import USAGE
from billing.models import Account, RetentionMark
from gateway_project.db import cell

_BATCH_ROWS = 5_000


def drop_old(now: datetime) -> int:
    """Delete what is older. Return how many rows. Safe to interrupt and to repeat."""
    if settings.RETENTION_USAGE_DAYS is None:
        return 0
    since = now.date() - timedelta(days=settings.RETENTION_USAGE_DAYS)
    RetentionMark.objects.get_or_create(what=USAGE, defaults={"since": since})
    RetentionMark.objects.filter(what=USAGE, since__lt=since).update(since=since)
    values = {"since": since, "most": _BATCH_ROWS}
    return sum(
        _delete_all(statement, {**values, "account": account_id})
        for account_id in Account.objects.order_by("pk").values_list("pk", flat=True).iterator()
        for statement in (_DELETE_HOURS, _DELETE_LABELS)
    )


def _delete_all(statement: str, values: dict[str, Any]) -> int:
    deleted = 0
    while True:
        number = len(cell.execute(statement, values))
        deleted += number
        if number < _BATCH_ROWS:
            return deleted


_DELETE_HOURS = """
    DELETE FROM completions_usagehour WHERE id = ANY(ARRAY(
        SELECT id FROM completions_usagehour
        WHERE account_id = %(account)s AND hour < %(since)s::timestamp AT TIME ZONE 'UTC' LIMIT %(most)s
    )) RETURNING 1
"""
_DELETE_LABELS = """
    DELETE FROM completions_labelday WHERE id = ANY(ARRAY(
        SELECT id FROM completions_labelday WHERE account_id = %(account)s AND day < %(since)s LIMIT %(most)s
    )) RETURNING 1
"""
