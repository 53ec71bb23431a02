"""Deletes rows that an account has stored, and whose bytes are counted on its own row, a batch of an account at a time."""

import logging
from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models import F, QuerySet, Sum

from billing import locks
from billing.models import Account
from gateway_project.db import pool

logger = logging.getLogger("gateway.stored_rows")

_BATCH_ROWS = 500  # that are deleted in a transaction


class Counted:
    """Rows of one kind. ``size`` is their column of bytes, ``counter`` that of the account, ``kind`` their name in the log."""

    def __init__(self, *, size: str, counter: str, kind: str) -> None:
        self._size = size
        self._counter = counter
        self._kind = kind

    def delete(self, account_id: UUID, rows: QuerySet[Any]) -> int:
        with transaction.atomic():
            locks.lock_account(account_id)
            freed_bytes = rows.aggregate(bytes=Sum(self._size))["bytes"] or 0
            Account.objects.filter(pk=account_id).update(**{self._counter: F(self._counter) - freed_bytes})
            return rows.delete()[0]

    def delete_all(self, rows: QuerySet[Any]) -> int:
        """Delete rows of all accounts, a batch at a time. Return how many. Leaves locked accounts to the next call."""
        deleted, locked_ids = 0, set[UUID]()
        while found := _by_account(rows, except_of=locked_ids):
            for account_id, ids in sorted(found.items()):
                try:
                    deleted += self.delete(account_id, rows.filter(pk__in=ids))  # a row that was written since may stay
                except OperationalError as error:
                    if not pool.is_lock_timeout(error):
                        raise
                    locked_ids.add(account_id)
                    facts = {"account": str(account_id)}
                    logger.warning("account %s is locked by another session: its %s stay", account_id, self._kind, extra=facts)
        return deleted


def _by_account(rows: QuerySet[Any], *, except_of: Collection[UUID]) -> dict[UUID, list[Any]]:
    found: dict[UUID, list[Any]] = {}
    first = rows.exclude(account_id__in=except_of).order_by("expires_at").values_list("account_id", "pk")[:_BATCH_ROWS]
    for account_id, row_id in first:
        found.setdefault(account_id, []).append(row_id)
    return found
