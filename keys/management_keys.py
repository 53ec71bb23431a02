"""Issues, finds and revokes management keys, which manage the keys of their account and cannot use models."""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models.functions import Now

from billing.models import Account, User
from gateway_project.db import cell
from keys import secret
from keys.models import ManagementKey

_USE_WRITTEN_EVERY = timedelta(minutes=1)


def issue(account: Account, *, name: str, created_by: User) -> tuple[ManagementKey, str]:
    """Make a management key. Return it and its secret, which cannot be shown again."""
    key = ManagementKey(id=secret.new_key_id(cell.current()), account=account, name=name, created_by=created_by)
    minted = secret.mint(key.pk, secret.MANAGEMENT_PREFIX)
    key.digest, key.last_four = secret.digest(minted, settings.KEY_PEPPERS[0]), minted[-4:]
    key.save(force_insert=True)
    return key, minted


def find(given: str) -> ManagementKey | None:
    """Return the management key of this secret, also a revoked one, with its account. Enters its cell."""
    id = secret.key_id(given, secret.MANAGEMENT_PREFIX)
    if id is None:
        return None
    key = ManagementKey.find(id, hint=secret.cell_number(id))
    return key if key and secret.matches(given, key.digest, settings.KEY_PEPPERS) else None


def revoke(key: ManagementKey) -> bool:
    """Disable the key for good, at once. Return False if it was revoked before."""
    return bool(ManagementKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=Now()))


def note_use(key: ManagementKey) -> None:
    """Note that a key, just found, is used: at most once per minute."""
    if key.last_used_at is None or key.last_used_at < datetime.now(UTC) - _USE_WRITTEN_EVERY:
        ManagementKey.objects.filter(pk=key.pk).update(last_used_at=Now())
