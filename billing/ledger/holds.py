"""Money reserved for usage: a hold is placed at admission, and settled, released or expired exactly once.

The caller has locked the rows. These functions keep them up to date, so that a batch can decide its next request with them.
"""

import logging
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce

from billing import locks
from billing.models import Account, Hold
from gateway_project import errors
from gateway_project.db import pool
from gateway_project.text import dollars

logger = logging.getLogger("gateway.audit")


def require_available(account: Account, need_nanos: int) -> None:
    """Raises InsufficientQuota (402) if the balance is too small, TiedUp (429) if only running requests hold the funds."""
    if account.available_nanos >= need_nanos:
        return
    if account.balance_nanos >= need_nanos:
        message = "Your credits are enough, but running requests hold them. Try again in a moment."
        raise errors.TiedUp(message, held_nanos=account.held_nanos)
    need, balance = dollars.format_usd(need_nanos), dollars.format_usd(account.balance_nanos)
    message = f"The account has too few credits: this request may cost up to {need} and the balance is {balance}."
    raise errors.InsufficientQuota(message, held_nanos=account.held_nanos)


def place(account: Account, amount_nanos: int, *, is_bounded: bool = False) -> None:
    """Reserve ``amount_nanos``. Raises like ``require_available``, unless it ``is_bounded``: no more than what is available."""
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


def correct_counts() -> list[UUID]:
    """Correct wrong ``open_holds``, as an upgrade from a version that did not count may leave. Return the accounts' ids."""
    counted = Hold.objects.filter(account=OuterRef("pk"), state=Hold.State.HELD).order_by().values("account")
    number = Coalesce(Subquery(counted.annotate(number=Count("pk")).values("number")), 0)
    wrong = list(Account.objects.exclude(open_holds=number).values_list("pk", flat=True))
    corrected = []
    for account_id in wrong:
        try:
            with transaction.atomic():
                account = locks.lock_account(account_id)  # then no hold of it is placed or resolved
                account.open_holds = account.holds.filter(state=Hold.State.HELD).count()
                account.save(update_fields=["open_holds"])
            corrected.append(account_id)
        except OperationalError as error:  # if another session keeps it locked, it is left to the next call
            if not pool.is_lock_timeout(error):
                raise
            facts = {"account": str(account_id)}
            logger.warning("account %s is locked by another session: its open holds are not counted", account_id, extra=facts)
    return corrected
