"""What an account has shown of itself: whether it ever paid for usage, and how much work it left unpaid within the last hour.

Unpaid work is what a request made providers charge the operator for, and nobody pays: a stream that began too late and that no
other provider answered, what a deadline cut off before the caller saw it, a report above the hold.
An account may cause ``ACCOUNT_UNPAID_CENTS_PER_HOUR`` of it, which become available again evenly over an hour (GCRA), in one
column: ``unpaid_until``. What exceeds twice as much is forgotten, so that no account waits longer than an hour.

The functions decide on rows that the caller has locked; ``update_standing_statement`` writes them.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings

from billing import money
from billing.models import Account
from gateway_project import errors
from gateway_project.db.pipelined_transaction import Statement

_HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)


def require_allowance(account: Account, now: datetime) -> None:
    """Raises TooMuchUnpaid when the account has left as much unpaid as it may."""
    wait = _used(account, now) - _HOUR
    if wait >= timedelta(0):
        minutes = max(-(-wait // timedelta(minutes=1)), 1)
        raise errors.TooMuchUnpaid(
            "Requests of this account cost the gateway more than they were charged: their replies began too late, took too"
            f" long, or cost more than was held. Try again in {minutes} minute{'' if minutes == 1 else 's'}.",
            headers=errors.retry_after(wait),
        )


def count_settlement(account: Account, settled_nanos: int, unpaid_nanos: int, now: datetime) -> bool:
    """Count what a request paid and what it left unpaid on the given row. Return whether that changed the row."""
    changed = False
    if settled_nanos > 0 and not account.has_paid:
        account.has_paid = changed = True
    if unpaid_nanos > 0:
        used = _used(account, now) + _time(unpaid_nanos)
        account.unpaid_until = now + min(used, 2 * _HOUR)
        changed = True
    return changed


def _used(account: Account, now: datetime) -> timedelta:
    """Return how long it takes until the whole allowance is available again."""
    ahead = account.unpaid_until - now if account.unpaid_until else timedelta(0)
    return min(max(ahead, timedelta(0)), 2 * _HOUR)  # more only if the clock was set back


def _time(unpaid_nanos: int) -> timedelta:
    """Return how long it takes until so much is available again, two hours at most."""
    allowance_nanos = money.nanos(settings.ACCOUNT_UNPAID_CENTS_PER_HOUR)
    return min(unpaid_nanos, 2 * allowance_nanos) * (_HOUR // _MICROSECOND) // allowance_nanos * _MICROSECOND


def update_standing_statement(accounts: Collection[Account]) -> Statement:
    """SQL that writes the standing of the given rows."""
    return Statement(
        """
        UPDATE billing_account SET has_paid = stands.has_paid, unpaid_until = stands.unpaid_until
        FROM json_to_recordset($1::json) AS stands (id uuid, has_paid boolean, unpaid_until timestamptz)
        WHERE billing_account.id = stands.id
        """,
        [{"id": account.pk, "has_paid": account.has_paid, "unpaid_until": account.unpaid_until} for account in accounts],
    )
