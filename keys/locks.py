"""Row locks of keys, taken after those of their accounts (``billing.locks`` has the whole order)."""

from collections.abc import Collection

from gateway_project.db.pipelined_transaction import Statement, lock_rows_statement
from keys.models import ApiKey


def lock_key(key_id: str) -> ApiKey:
    """Return one key, locked until the transaction ends. Raises ApiKey.DoesNotExist."""
    return ApiKey.objects.select_for_update(of=("self",), no_key=True).get(pk=key_id)


def lock_keys_statement(key_ids: Collection[str], *, skips_locked: bool = False) -> Statement:
    """Lock and read the keys of a batch."""
    return lock_rows_statement(ApiKey, key_ids, skips_locked=skips_locked)
