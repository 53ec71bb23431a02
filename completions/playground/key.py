"""The key that an account's playground spends with: the one that is named Playground. Nobody has its secret."""

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest

from billing import locks as account_locks
from billing.models import Account
from keys import acts
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit, SpendingPeriod, SpendingType

NAME = "Playground"
LIMIT_CENTS = 500  # a month; owners and developers change it among the keys


def find_or_make(request: HttpRequest, account: Account, *, makes_another: bool) -> ApiKey | None:
    """Return the key, which the first request makes; None if it is revoked or has expired, unless ``makes_another``."""
    if key := _usable(account):
        return key
    with transaction.atomic():
        account_locks.lock_account(account.pk)  # two first requests at once make one key
        if key := _usable(account):
            return key
        if account.keys.filter(name__iexact=NAME).exists() and not makes_another:
            return None
        limit = SpendingLimit(LIMIT_CENTS, SpendingType.RECURRING.value, SpendingPeriod.MONTHLY.value)
        return acts.make_key(request, account, name=NAME, created_by=request.user, limit=limit)[0]


def _usable(account: Account) -> ApiKey | None:
    not_expired = Q(expires_at=None) | Q(expires_at__gt=Now())
    return account.keys.filter(not_expired, name__iexact=NAME, revoked_at=None).order_by("pk").first()
