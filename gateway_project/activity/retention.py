"""Deletes acts that are older than the operator keeps them. What moves money has a record of its own, which stays."""

from datetime import datetime, timedelta

from django.conf import settings

from gateway_project.db import cell

_BATCH_ROWS = 5_000  # in one transaction


def delete_old(now: datetime) -> int:
    """Delete the acts that are older than RETENTION_ACTIVITY_DAYS, in small transactions. Return how many."""
    kept_days, total = settings.RETENTION_ACTIVITY_DAYS, 0
    if kept_days is None:
        return 0
    while True:
        [(deleted,)] = cell.execute("SELECT activity_delete_old(%s, %s)", [now - timedelta(days=kept_days), _BATCH_ROWS])
        total += int(deleted)
        if deleted < _BATCH_ROWS:
            return total
