"""Moves an account to another cell, with its ledger checked before and after. Its requests wait: a second for 50,000 rows."""

from collections.abc import Callable
from uuid import UUID

from django.db import connection, transaction

from billing import locks
from billing.ledger import archived_days, audit, signed_days
from billing.models import Account
from gateway_project.activity import log
from gateway_project.cells import directory, moving
from gateway_project.db import cell

# Rows and sums that change only under the lock of the account: they are the same on both sides.
_DIGEST = f"""
    SELECT account::text, (
        SELECT {signed_days.DIGEST} FROM (
            SELECT {signed_days.PART} AS part, {signed_days.PART_DIGEST} AS part_digest
            FROM billing_ledgerentry AS entry WHERE account_id = account.id GROUP BY part
        ) AS parts
    ), (
        SELECT sum(hashtextextended((to_jsonb(hold) - 'expires_at')::text, 0)) FROM billing_hold AS hold
        WHERE account_id = account.id
    ), (
        SELECT sum(hashtextextended(concat_ws(' ', id, amount_cents, status, refunded_cents, disputed_cents, debited_cents), 0))
        FROM billing_payment WHERE account_id = account.id
    ),
    (SELECT sum(cost_nanos) FROM completions_completion WHERE account_id = account.id)
    FROM billing_account AS account WHERE id = %s
"""  # noqa: S608  constants of this code


class MoveRefused(Exception):
    """The account cannot be moved. The message says why."""


def move(account_id: UUID, target: int, progress: Callable[[str], None]) -> int:
    """Move an account of the current cell to another one. Return how many rows moved.

    Raises MoveRefused, moving.NotAllowed, or the database's errors: then it is where it was.
    """
    source = cell.current()
    moving.require_permission()
    _require_consistent(account_id)  # before requests wait
    with transaction.atomic():
        account = _lock(account_id)
        with connection.cursor() as cursor:
            kept = archived_days.read_kept(cursor)
        since = max(kept.details_since, kept.usage_since)
        if account.created_at.date() < since:  # the other cell would miss these details
            raise MoveRefused(f"what it used before {since} is archived or dropped in this cell")
        rows = moving.move(account_id, source, target, digest_sql=_DIGEST, progress=progress)
        with cell.use(target):
            _require_consistent(account_id)
            summary = f"Moved from cell {source} to cell {target}, with {account.last_seq} entries of the ledger."
            log.record(None, log.Act.MOVED, account, summary)
    cell.enter(directory.remember(account_id, target))
    return rows


def _lock(account_id: UUID) -> Account:
    """Lock the account as requests do, then its usage mark, so that no usage is summed up; last against new rows of it."""
    locks.lock_account(account_id)
    cell.execute("SELECT 1 FROM completions_usagemark WHERE account_id = %s FOR UPDATE", [account_id])
    return Account.objects.select_for_update(of=("self",)).get(pk=account_id)


def _require_consistent(account_id: UUID) -> None:
    with audit.snapshot() as cursor:
        violations = audit.check(cursor, audit.Scope(account_id))
    if violations:
        raise MoveRefused(f"its ledger in cell {cell.current()} is not consistent: {'; '.join(map(str, violations))}")
