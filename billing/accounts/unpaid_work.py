"""Whether an account ever paid for usage, and how much work it left unpaid within the last hour.

Unpaid work is charged by providers to the operator, and paid by no account: a stream that began too late and that no other
provider answered, a reply that a deadline cut off before the caller saw it, usage above the hold. An account may cause
``ACCOUNT_UNPAID_CENTS_PER_HOUR`` of it. This allowance returns evenly over an hour (GCRA), with ``unpaid_until`` as its state.
Work above twice the allowance is forgotten, so that no account waits longer than an hour. The functions decide on locked rows.
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
        allowance_nanos = money.nanos(settings.ACCOUNT_UNPAID_CENTS_PER_HOUR)
        ahead = min(unpaid_nanos, 2 * allowance_nanos) * (_HOUR // _MICROSECOND) // allowance_nanos * _MICROSECOND
        used = _used(account, now) + ahead
        account.unpaid_until = now + min(used, 2 * _HOUR)
        changed = True
    return changed


def _used(account: Account, now: datetime) -> timedelta:
    """Return how long it takes until the whole allowance is available again."""
    ahead = account.unpaid_until - now if account.unpaid_until else timedelta(0)
    return min(max(ahead, timedelta(0)), 2 * _HOUR)  # more only if the clock was set back


def update_unpaid_work_statement(accounts: Collection[Account]) -> Statement:
    """Write ``has_paid`` and ``unpaid_until`` of the accounts as they are on the given objects."""
    return Statement(
        """
        UPDATE billing_account SET has_paid = counted.has_paid, unpaid_until = counted.unpaid_until
        FROM json_to_recordset($1::json) AS counted (id uuid, has_paid boolean, unpaid_until timestamptz)
        WHERE billing_account.id = counted.id""",
        [{"id": account.pk, "has_paid": account.has_paid, "unpaid_until": account.unpaid_until} for account in accounts],
    )
