"""The secrets of a key over time: makes a new one, ends the former ones, and finds the key of a secret, also of an ended one.

The end of a former secret is written twice: in its own row, and in the row of its key, which admission reads.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from billing import locks as account_locks
from gateway_project.db import pool
from keys import lifetimes, locks, secret
from keys.models import ApiKey, FormerSecret

WORKING_MAX = 5  # former secrets of a key that work at a time: they are read with each request


class TooManySecrets(Exception):
    """WORKING_MAX former secrets of the key still work."""

    message = f"{WORKING_MAX} former secrets of the key still work. Wait until one ends, or end them at once."


def rotate_secret(key: ApiKey, *, grace: timedelta) -> str:
    """Give the key a new secret, and return it: it cannot be shown again.

    Every secret that works now ends after ``grace``, or earlier if it was to end earlier.
    The key ends within the maximum of its account. Raises TooManySecrets.
    """
    with transaction.atomic():
        locked, now = _lock(key)
        latest = lifetimes.latest_expiry(locked.account, now)
        ends_at = now + grace
        if latest and locked.expires_at:  # else a later end of the key would let its former secret outlive the maximum, too
            ends_at = max(now, min(ends_at, locked.expires_at))
        ends = {locked.digest: ends_at, **_end(locked, now, by=ends_at)}
        working = {digest: end for digest, end in ends.items() if end > now}
        if len(working) > WORKING_MAX:
            raise TooManySecrets(TooManySecrets.message)
        minted = secret.mint(locked.pk)
        FormerSecret.objects.create(key=locked, digest=locked.digest, last_four=locked.last_four, ends_at=ends_at)
        # Older secrets ended long ago. The key is found by them no longer.
        newest_first = locked.former_secrets.order_by("-rotated_at", "-id").values_list("pk", flat=True)
        locked.former_secrets.filter(pk__in=list(newest_first[settings.KEY_FORMER_SECRETS_MAX :])).delete()
        _write(
            key,
            digest=secret.digest(minted, settings.KEY_PEPPERS[0]),
            last_four=minted[-4:],
            former_digests={digest: end.isoformat() for digest, end in working.items()} or None,
            expires_at=min(filter(None, (locked.expires_at, latest)), default=None),
        )
    return minted


def end_former_secrets(key: ApiKey) -> bool:
    """Let only the newest secret of the key work, in every process. Return False if it was so already."""
    with transaction.atomic():
        locked, now = _lock(key)
        was_working = bool(_end(locked, now, by=now))
        _write(key, former_digests=None)
    return was_working


def find_key(given: str) -> ApiKey | None:
    """Return the key that has or had this secret, with its account. Enters its cell."""
    id = secret.key_id(given)
    key = find_by_id(id) if id else None
    if key is None:
        return None
    digests = [key.digest, *key.former_secrets.values_list("digest", flat=True)]
    return key if any(secret.matches(given, digest, settings.KEY_PEPPERS) for digest in digests) else None


def find_by_id(id: str) -> ApiKey | None:
    """Return the key with this id, with its account, and enter its cell."""
    return ApiKey.find(id, hint=secret.cell_number(id))


def _lock(key: ApiKey) -> tuple[ApiKey, datetime]:
    """Return the key as it is, locked as admission locks it, with its account, and the time of the lock."""
    account = account_locks.lock_account(key.account_id)
    locked = locks.lock_key(key.pk)
    locked.account = account
    return locked, pool.database_time()


def _end(locked: ApiKey, now: datetime, *, by: datetime) -> dict[str, datetime]:
    """Let the former secrets that work end at ``by`` at the latest. Return their new ends, by digest."""
    locked.former_secrets.filter(ends_at__gt=by).update(ends_at=by)
    return {digest: min(end, by) for digest, end in locked.working_former_digests(now).items()}


def _write(key: ApiKey, **fields: object) -> None:
    ApiKey.objects.filter(pk=key.pk).update(**fields)  # save() would overwrite newer rate-limit state
    for name, value in fields.items():
        setattr(key, name, value)
