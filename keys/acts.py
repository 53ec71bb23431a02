"""Acts of owners and staff on keys, each in one transaction with its record in the activity log."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.template.defaultfilters import pluralize

from billing import locks as account_locks
from billing.models import Account, User
from gateway_project import errors
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import timestamps
from keys import lifecycle, lifetimes, locks, management_keys, rotation, summaries
from keys.models import ApiKey, ManagementKey
from keys.spending_limit import SpendingLimit

_LIMIT = ("spending_limit_cents", "spending_type", "spending_period", "raised_limit_cents", "raised_until")
_NAMES = {"expires_at": "expiry", "allowed_models": "models"}  # others are their columns, with spaces


class KeyRevoked(Exception):
    """The key was revoked in the meantime."""


class AccountClosed(Exception):
    """No key is made of an account that is closed. The message says so to its members."""

    message = "The account is closed: its keys are refused, and it gets no new ones."


def make_key(request: HttpRequest, account: Account, **fields: Any) -> tuple[ApiKey, str]:
    """Make a key, with the arguments of ``lifecycle.issue_key``. Raises MaximumReached, AccountClosed."""
    with transaction.atomic():
        _require_open(account)
        _require_room_for_key(account)
        key, minted = lifecycle.issue_key(account, **fields)
        summary = f"Created the key with {key.spending_limit}."
        log.record(request, log.Act.KEY_MADE, key, summary, after=_values(key, *_LIMIT, "expires_at"))
    return key, minted


def _require_open(account: Account) -> None:
    """Lock the account. Raises AccountClosed."""
    if not account_locks.lock_account(account.pk).is_active:
        raise AccountClosed(AccountClosed.message)


def _require_room_for_key(account: Account) -> None:
    """Raises MaximumReached. The account is locked."""
    working_max, ever_max = settings.ACCOUNT_KEYS_MAX, settings.ACCOUNT_KEYS_EVER_MAX
    if account.keys.filter(revoked_at=None).count() >= working_max:
        raise errors.MaximumReached(
            f"The account has {working_max:,} keys that are not revoked, which is its maximum. Revoke one."
        )
    if account.keys.count() >= ever_max:
        raise errors.MaximumReached(
            f"The account has created {ever_max:,} keys, including revoked ones, which is its maximum."
            " Rotate a key instead, or ask support for more."
        )


def set_spending_limit(request: HttpRequest, key: ApiKey, limit: SpendingLimit, **notes: Any) -> None:
    """Set the limit. ``notes`` of these functions: the reason and the ticket, if there are any."""
    summary = f"Set the spending limit to {limit}; it was {summaries.describe_limit_of(key, pool.database_time())}."
    before, is_lower = _values(key, *_LIMIT), limit.is_lower(key.spending_limit)
    with transaction.atomic():
        lifecycle.set_spending_limit(key, limit)
        notes |= {"before": before, "after": _values(key, *_LIMIT)}
        log.record(request, log.Act.KEY_LIMITED, key, summary, is_defence=is_lower, **notes)


def raise_spending_limit(request: HttpRequest, key: ApiKey, *, limit_cents: int, until: datetime, **notes: Any) -> str:
    """Raise the limit until that moment. Return it in words."""
    before = _values(key, *_LIMIT)
    with transaction.atomic():
        lifecycle.raise_spending_limit(key, limit_cents=limit_cents, until=until)
        words = summaries.describe_limit_of(key, pool.database_time())
        summary = f"Raised the spending limit: {words}."
        log.record(request, log.Act.KEY_RAISED, key, summary, before=before, after=_values(key, *_LIMIT), **notes)
    return words


def set_rates(request: HttpRequest, key: ApiKey, rates: dict[str, int | None], **notes: Any) -> str:
    """Set the rates, each at least 1; None: as its account or the deployment says. Return them in words."""
    before, before_words = _values(key, *lifecycle.RATES), summaries.describe_rates(key)
    with transaction.atomic():
        lifecycle.change_key(key, **rates)
        words = summaries.describe_rates(key)
        summary = f"Set the rates to {words}; they were {before_words}."
        log.record(request, log.Act.KEY_RATED, key, summary, before=before, after=_values(key, *lifecycle.RATES), **notes)
    return words


def change(request: HttpRequest, key: ApiKey, fields: dict[str, Any]) -> list[str]:
    """Set the fields, as ``lifecycle.change_key``. Return the names of the changed ones."""
    with _locked(key):
        changed = {name: value for name, value in fields.items() if value != getattr(key, name)}
        if changed:
            before = _values(key, *changed)
            lifecycle.change_key(key, **changed)
            names = [_NAMES.get(name, name.replace("_", " ")) for name in changed]
            summary = f"Changed the {', '.join(names)}."
            log.record(request, log.Act.KEY_CHANGED, key, summary, before=before, after=changed)
    return list(changed)


def pause(request: HttpRequest, key: ApiKey) -> None:
    """Pause the key. Nothing is recorded if it was paused before."""
    with _locked(key):
        if key.paused_at is None:
            lifecycle.pause_key(key)
            log.record(request, log.Act.KEY_PAUSED, key, "Paused the key.")


def resume(request: HttpRequest, key: ApiKey) -> None:
    """Resume the key. Nothing is recorded if it was not paused."""
    with _locked(key):
        if key.paused_at is not None:
            lifecycle.resume_key(key)
            log.record(request, log.Act.KEY_RESUMED, key, "Resumed the key.")


def rotate(request: HttpRequest, key: ApiKey, grace: timedelta) -> str:
    """Give the key a new secret, and return it. Raises TooManySecrets."""
    with _locked(key):
        minted = rotation.rotate_secret(key, grace=grace)
        ends = pool.database_time() + grace
        until = f"work until {timestamps.in_words(ends)} at the latest" if grace else "work no longer"
        log.record(request, log.Act.KEY_ROTATED, key, f"Rotated the key. Its former secrets {until}.", is_defence=True)
    return minted


def end_former_secrets(request: HttpRequest, key: ApiKey) -> None:
    """Let only the newest secret of the key work. Nothing is recorded if it was so already."""
    with _locked(key):
        if rotation.end_former_secrets(key):
            log.record(request, log.Act.KEY_ROTATED, key, "Ended the former secrets of the key.", is_defence=True)


def set_lifetime(request: HttpRequest, account: Account, days_max: int | None) -> None:
    """Set for how many days keys work, at most; None: without a maximum. Existing keys keep their ends."""
    with transaction.atomic():
        locked = account_locks.lock_account(account.pk)
        words = [lifetimes.in_words(days) if days else "none" for days in (days_max, locked.key_lifetime_days_max)]
        summary = f"Set the maximum lifetime of keys to {words[0]}; it was {words[1]}."
        log.change(request, log.Act.CHANGED, locked, summary, {"key_lifetime_days_max": days_max})


def apply_lifetime(request: HttpRequest, account: Account) -> int:
    """Let the keys that outlive the account's maximum end within it. Return how many: of none, nothing is recorded."""
    with transaction.atomic():
        found = lifetimes.find_outliving(account_locks.lock_account(account.pk))
        keys = list(found.order_by("pk").select_for_update(of=("self",), no_key=True))
        before = {key.pk: key.expires_at for key in keys}
        for key in keys:
            key.expires_at = key.new_expiry
        ApiKey.objects.bulk_update(keys, ["expires_at"])
        if keys:
            summary = f"Applied the maximum lifetime to {len(keys)} existing key{pluralize(len(keys))}."
            after = {key.pk: key.expires_at for key in keys}
            log.record(request, log.Act.CHANGED, account, summary, before=before, after=after)
    return len(keys)


@contextmanager
def _locked(key: ApiKey) -> Iterator[None]:
    """Lock the key's rows, with ``key`` as it is now. Raises KeyRevoked."""
    with transaction.atomic():
        account_locks.lock_account(key.account_id)
        locks.lock_key(key.pk)
        key.refresh_from_db(fields=[*lifecycle.CHANGEABLE, "paused_at", "revoked_at"])
        if key.revoked_at is not None:
            raise KeyRevoked
        yield


def revoke(request: HttpRequest, key: ApiKey, **notes: Any) -> bool:
    """Revoke the key. Return False, and record nothing, if it was revoked before."""
    with transaction.atomic():
        account_locks.lock_account(key.account_id)  # a second click waits here and then finds the key revoked
        key.refresh_from_db(fields=["revoked_at"])
        if key.revoked_at is not None:
            return False
        lifecycle.revoke_key(key)
        log.record(request, log.Act.KEY_REVOKED, key, "Revoked the key.", **notes)
        return True


def make_management_key(request: HttpRequest, account: Account, name: str) -> tuple[ManagementKey, str]:
    """Make a management key. Return it and its secret. Raises MaximumReached, AccountClosed."""
    with transaction.atomic():
        _require_open(account)
        maximum = settings.ACCOUNT_MANAGEMENT_KEYS_MAX
        if account.management_keys.filter(revoked_at=None).count() >= maximum:
            raise errors.MaximumReached(f"The account has {maximum:,} management keys, which is its maximum. Revoke one.")
        assert isinstance(request.user, User)
        key, minted = management_keys.issue(account, name=name, created_by=request.user)
        log.record(request, log.Act.MANAGEMENT_KEY_MADE, key, "Created the management key.")
    return key, minted


def revoke_management_key(request: HttpRequest, key: ManagementKey) -> None:
    """Revoke the management key. Nothing is recorded if it was revoked before."""
    with transaction.atomic():
        if management_keys.revoke(key):
            log.record(request, log.Act.MANAGEMENT_KEY_REVOKED, key, "Revoked the management key.")


def _values(key: ApiKey, *names: str) -> dict[str, Any]:
    return {name: getattr(key, name) for name in names}
