"""Money reserved for usage: a hold is placed at admission, and settled, released or expired exactly once.

``require_available``, ``place`` and ``resolve`` decide. The caller has locked the rows; these functions keep the rows up to
date, so that a batch can decide its next request with them. ``insert_holds_statement`` and ``update_holds_statement`` build
the SQL that writes the decisions.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from django.db import OperationalError, transaction
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce

from billing import locks
from billing.models import Account, Hold
from gateway_project import dollars, errors
from gateway_project.db import pool
from gateway_project.db.pipelined_transaction import Statement

logger = logging.getLogger("gateway.audit")


class NewHold(msgspec.Struct, frozen=True):
    """A hold as ``insert_holds_statement`` writes it. ``reference`` is the id of the completion it pays for."""

    reference: str
    account_id: UUID
    amount_nanos: int
    expires_at: datetime


def require_available(account: Account, need_nanos: int) -> None:
    """Raises InsufficientQuota (402) if the balance is too small, TiedUp (429) if only running requests hold the funds."""
    if account.available_nanos >= need_nanos:
        return
    if account.balance_nanos >= need_nanos:
        raise errors.TiedUp("Your credits are enough, but running requests hold them. Try again in a moment.")
    raise errors.InsufficientQuota(
        f"The account has too few credits: this request may cost up to ${dollars.format_plain(need_nanos)}"
        f" and the balance is ${dollars.format_plain(account.balance_nanos)}."
    )


def place(account: Account, amount_nanos: int, *, is_bounded: bool = False) -> None:
    """Reserve ``amount_nanos`` on the given row (``insert_holds_statement`` writes it). Raises like ``require_available``.

    ``is_bounded``: the caller asks for no more than is available, and for nothing where a refund overdrew the account.
    """
    if not is_bounded:
        require_available(account, amount_nanos)
    account.held_nanos += amount_nanos
    account.open_holds += 1


def resolve(account: Account, hold: Hold, state: Hold.State, *, cost_nanos: int | None = None) -> bool:
    """Resolve the hold on the given rows: SETTLED at a cost, at most the held amount; RELEASED or EXPIRED without a cost.

    Return False, and change nothing, if it was resolved before. That is expected, not an error.
    """
    if hold.state != Hold.State.HELD:
        return False
    account.held_nanos -= hold.amount_nanos
    account.open_holds = max(account.open_holds - 1, 0)
    hold.state = state
    hold.settled_nanos = None if cost_nanos is None else min(cost_nanos, hold.amount_nanos)
    return True


def insert_holds_statement(holds: Sequence[NewHold]) -> Statement:
    """Insert the holds. Add their amounts to ``held_nanos`` of their accounts, and their number to ``open_holds``."""
    return Statement(
        """
        WITH placed AS (
            INSERT INTO billing_hold (reference, account_id, amount_nanos, state, expires_at)
            SELECT reference, account_id, amount_nanos, 'HELD', expires_at
            FROM json_to_recordset($1::json)
                AS hold (reference text, account_id uuid, amount_nanos bigint, expires_at timestamptz)
            RETURNING account_id, amount_nanos
        )
        UPDATE billing_account SET held_nanos = held_nanos + more.nanos, open_holds = open_holds + more.holds
        FROM (SELECT account_id, sum(amount_nanos) AS nanos, count(*) AS holds FROM placed GROUP BY account_id) AS more
        WHERE id = more.account_id
        """,
        holds,
    )


def update_holds_statement(holds: Sequence[Hold]) -> Statement:
    """Update the resolved holds. Subtract their amounts from ``held_nanos`` of their accounts, and their number likewise.

    A count that is too low, after an upgrade that processes of an older version outlived, stops at 0: money is settled anyway.
    """
    return Statement(
        """
        WITH resolved AS (
            UPDATE billing_hold
            SET state = ended.state, settled_nanos = ended.settled_nanos, resolved_at = statement_timestamp()
            FROM json_to_recordset($1::json) AS ended (reference text, state text, settled_nanos bigint)
            WHERE billing_hold.reference = ended.reference
            RETURNING account_id, amount_nanos
        )
        UPDATE billing_account SET held_nanos = held_nanos - less.nanos, open_holds = greatest(open_holds - less.holds, 0)
        FROM (SELECT account_id, sum(amount_nanos) AS nanos, count(*) AS holds FROM resolved GROUP BY account_id) AS less
        WHERE id = less.account_id
        """,
        [{"reference": hold.reference, "state": hold.state, "settled_nanos": hold.settled_nanos} for hold in holds],
    )


def correct_counts() -> list[UUID]:
    """Correct ``open_holds`` of the accounts that say another number than they have. Return their ids.

    The count is wrong after an upgrade from a version that did not count, if some of its processes still ran. An account that
    another session keeps locked is left to the next call.
    """
    counted = Hold.objects.filter(account=OuterRef("pk"), state=Hold.State.HELD).order_by().values("account")
    number = Coalesce(Subquery(counted.annotate(number=Count("pk")).values("number")), 0)
    wrong = list(Account.objects.exclude(open_holds=number).values_list("pk", flat=True))
    return [account_id for account_id in wrong if _correct_count(account_id)]


def _correct_count(account_id: UUID) -> bool:
    """Correct one account. Return False if it stays locked."""
    try:
        with transaction.atomic():
            account = locks.lock_account(account_id)  # then no hold of it is placed or resolved
            account.open_holds = account.holds.filter(state=Hold.State.HELD).count()
            account.save(update_fields=["open_holds"])
    except OperationalError as error:
        if not pool.is_lock_timeout(error):
            raise
        facts = {"account": str(account_id)}
        logger.warning("account %s is locked by another session: its open holds are not counted", account_id, extra=facts)
        return False
    return True
