"""How many keys and management keys an account may have. The checks lock the account. Each raises MaximumReached."""

from django.conf import settings

from billing import locks as account_locks
from billing.models import Account
from gateway_project import errors


def require_room_for_key(account: Account) -> None:
    account_locks.lock_account(account.pk)
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


def require_room_for_management_key(account: Account) -> None:
    account_locks.lock_account(account.pk)
    maximum = settings.ACCOUNT_MANAGEMENT_KEYS_MAX
    if account.management_keys.filter(revoked_at=None).count() >= maximum:
        raise errors.MaximumReached(f"The account has {maximum:,} management keys, which is its maximum. Revoke one.")
