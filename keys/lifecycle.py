"""Issues a key, changes it, sets its spending limit and rates, pauses and revokes it: for owners, support and operators."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from billing import locks as account_locks
from billing import money
from billing.models import Account
from gateway_project.db import cell, pool
from keys import lifetimes, locks, secret
from keys.models import ApiKey, RefusedRequest
from keys.spending_limit import NO_LIMIT, SpendingLimit

RATES = ("requests_per_minute", "tokens_per_minute", "requests_in_flight_max")
CHANGEABLE = {"name", "expires_at", "allowed_models", "tags", "data_policy", "data_regions", *RATES}

ERASED = "erased"  # the name of keys of accounts that are closed for good


def issue_key(account: Account, *, name: str, limit: SpendingLimit = NO_LIMIT, **fields: Any) -> tuple[ApiKey, str]:
    """Make a key, with other columns if given. Return it and its secret, which cannot be shown again.

    Without ``expires_at`` it expires as late as the account lets it. Raises ExpiresTooLate.
    """
    key = ApiKey(id=secret.new_key_id(cell.current()), account=account, name=name, **limit.columns, **fields)
    minted = secret.mint(key.pk)
    key.digest, key.last_four = secret.digest(minted, settings.KEY_PEPPERS[0]), minted[-4:]
    with transaction.atomic():
        locked, now = account_locks.lock_account(account.pk), pool.database_time()  # a maximum that is set now counts
        key.expires_at = key.expires_at or lifetimes.latest_expiry(locked, now)
        lifetimes.require_expiry(locked, now, key.expires_at)
        key.save(force_insert=True)
    return key, minted


def set_spending_limit(key: ApiKey, limit: SpendingLimit) -> None:
    """Set or clear the key's spending limit from the next request on. A raise of the former limit ends."""
    _write(key, **limit.columns, raised_limit_cents=None, raised_until=None)


def raise_spending_limit(key: ApiKey, *, limit_cents: int, until: datetime) -> None:
    """Let ``limit_cents`` be the limit until that moment, by the database's clock: no task ends it. Raises ValueError."""
    if key.spending_limit_cents is None or not key.spending_limit_cents < limit_cents <= money.CENTS_MAX:
        raise ValueError("a raise is above the key's limit")
    _write(key, raised_limit_cents=limit_cents, raised_until=until)


def change_key(key: ApiKey, **fields: Any) -> None:
    """Set some of CHANGEABLE, already checked, from the next request on. A rate None: the account's. Raises ExpiresTooLate."""
    assert fields.keys() <= CHANGEABLE, fields.keys()
    with transaction.atomic():
        if "expires_at" in fields:
            account = account_locks.lock_account(key.account_id)
            lifetimes.require_expiry(account, lifetimes.secret_made_at(key), fields["expires_at"])
        _write(key, **fields)


def pause_key(key: ApiKey) -> None:
    """Refuse the key's requests from now on, in every process. Running requests are settled as usual. Idempotent."""
    if key.paused_at is None:
        _write(key, paused_at=Now())
        key.refresh_from_db(fields=["paused_at"])


def resume_key(key: ApiKey) -> None:
    """Admit the key's requests again. Idempotent."""
    _write(key, paused_at=None)


def revoke_key(key: ApiKey) -> None:
    """Disable the key for good, at once and in every process. Running requests are settled as usual. Idempotent."""
    if key.revoked_at is None:
        _write(key, revoked_at=Now())
        key.refresh_from_db(fields=["revoked_at"])


def erase_keys(account: Account) -> None:
    """Revoke all keys of the locked account, and erase what people called them. Their sums and requests stay."""
    account.keys.filter(revoked_at=None).update(revoked_at=Now())
    account.management_keys.filter(revoked_at=None).update(revoked_at=Now())
    account.keys.update(name=ERASED, tags=None)
    account.management_keys.update(name=ERASED)
    account.budgets.filter(ended_at=None).update(ended_at=Now())
    account.budgets.exclude(tag="").update(tag=ERASED)
    RefusedRequest.objects.filter(key__account=account).delete()


def _write(key: ApiKey, **fields: object) -> None:
    # save() would overwrite newer rate-limit state
    with transaction.atomic():
        account_locks.lock_account(key.account_id)
        locks.lock_key(key.pk)
        ApiKey.objects.filter(pk=key.pk).update(**fields)
    for name, value in fields.items():
        setattr(key, name, value)
