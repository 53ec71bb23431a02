"""Rows that an account has stored, and whose bytes are counted on its own row."""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models import F, QuerySet, Sum

from billing import locks
from billing.models import Account
from gateway_project.db import pool

logger = logging.getLogger("gateway.stored_rows")

_BATCH_ROWS = 500  # that are deleted in a transaction
_EVICTED_MAX = 10_000  # rows of an account in a transaction; so many take more than the largest reply or response


@dataclass(frozen=True)
class Counted:
    """Rows of one kind. ``size`` is their column of bytes, ``counter`` that of the account, ``kind`` their name in the log."""

    table: str
    key: str
    size: str
    counter: str
    kind: str

    def count_sql(self, rows: str, sign: str) -> str:
        """SQL that adds the bytes of ``rows`` to what their accounts count, or takes them away, by the sign."""
        return f"""
        UPDATE billing_account SET {self.counter} = {self.counter} {sign} counted.bytes
        FROM (
            SELECT account_id, sum({self.size}) AS bytes FROM {rows} GROUP BY account_id HAVING sum({self.size}) > 0
        ) AS counted
        WHERE id = counted.account_id
        """  # noqa: S608  names of this code

    def oldest_sql(self) -> str:
        """SQL that selects the oldest rows of each account in ``excess`` that have as many bytes together as it says."""
        return f"""
        SELECT stored.* FROM excess CROSS JOIN LATERAL (
            SELECT {self.key}, {self.size},
                sum({self.size}) OVER (ORDER BY expires_at, {self.key}) - {self.size} AS freed_before
            FROM (
                SELECT {self.key}, {self.size}, expires_at FROM {self.table}
                WHERE account_id = excess.account_id AND {self.size} > 0 ORDER BY expires_at, {self.key} LIMIT {_EVICTED_MAX}
            ) AS candidate
        ) AS stored
        WHERE freed_before < bytes
        """  # noqa: S608  names of this code

    def delete(self, account_id: UUID, rows: QuerySet[Any]) -> int:
        with transaction.atomic():
            locks.lock_account(account_id)
            freed_bytes = rows.aggregate(bytes=Sum(self.size))["bytes"] or 0
            Account.objects.filter(pk=account_id).update(**{self.counter: F(self.counter) - freed_bytes})
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
                    logger.warning("account %s is locked by another session: its %s stay", account_id, self.kind, extra=facts)
        return deleted


def _by_account(rows: QuerySet[Any], *, except_of: Collection[UUID]) -> dict[UUID, list[Any]]:
    found: dict[UUID, list[Any]] = {}
    first = rows.exclude(account_id__in=except_of).order_by("expires_at").values_list("account_id", "pk")[:_BATCH_ROWS]
    for account_id, row_id in first:
        found.setdefault(account_id, []).append(row_id)
    return found
