"""Money set aside for usage: placed at admission; settled, released or expired once, by whoever comes first.

Every function takes the account locked. ``settle``, ``release`` and ``expire`` lock the hold and answer None when it was
resolved already: resolving twice is a fact to live with, not an error.
"""

from datetime import datetime

from django.db.models import F
from django.db.models.functions import Now

from billing import locks, money
from billing.models import Account, Hold
from gateway_project import errors


def place(account: Account, *, reference: str, amount_nanos: int, expires_at: datetime) -> Hold:
    """Set ``amount_nanos`` aside, or refuse.

    Raises InsufficientQuota (402) when the balance is too small, TiedUp (429) when it would do but is held by others.
    """
    if account.available_nanos < amount_nanos:
        raise refusal(account, amount_nanos)
    Account.objects.filter(pk=account.pk).update(held_nanos=F("held_nanos") + amount_nanos)
    account.held_nanos += amount_nanos
    return Hold.objects.create(reference=reference, account=account, amount_nanos=amount_nanos, expires_at=expires_at)


def refusal(account: Account, need_nanos: int) -> errors.ApiError:
    """Why ``need_nanos`` cannot be held: there is too little, or it is only tied up."""
    if account.balance_nanos >= need_nanos:
        return errors.TiedUp("Your credits would do, but running requests hold them. Try again in a moment.")
    return errors.InsufficientQuota(
        f"The account has too few credits: this request may cost up to ${money.dollars(need_nanos)}"
        f" and the balance is ${money.dollars(account.balance_nanos)}."
    )


def settle(account: Account, reference: str, *, cost_nanos: int) -> Hold | None:
    """Turn the hold into a cost, of which no more is settled than was held; the rest is free again."""
    return _resolve(account, reference, Hold.State.SETTLED, cost_nanos)


def release(account: Account, reference: str) -> Hold | None:
    """Give all of it back: the usage did not happen."""
    return _resolve(account, reference, Hold.State.RELEASED, None)


def expire(account: Account, reference: str) -> Hold | None:
    """Give all of it back because nobody resolved it in time."""
    return _resolve(account, reference, Hold.State.EXPIRED, None)


def _resolve(account: Account, reference: str, state: Hold.State, settled_nanos: int | None) -> Hold | None:
    hold = locks.hold(reference)
    if hold.state != Hold.State.HELD:
        return None
    if settled_nanos is not None:
        settled_nanos = min(settled_nanos, hold.amount_nanos)
    Hold.objects.filter(pk=reference).update(state=state, settled_nanos=settled_nanos, resolved_at=Now())
    Account.objects.filter(pk=account.pk).update(held_nanos=F("held_nanos") - hold.amount_nanos)
    account.held_nanos -= hold.amount_nanos
    hold.state, hold.settled_nanos = state, settled_nanos
    return hold
