"""Row locks of keys, taken after those of their accounts (``billing.locks`` has the whole order)."""

from functools import partial

from gateway_project.db.pipelined_transaction import lock_rows_statement
from keys.models import ApiKey


def lock_key(key_id: str) -> ApiKey:
    """Return one key, locked until the transaction ends. Raises ApiKey.DoesNotExist."""
    return ApiKey.objects.select_for_update(of=("self",), no_key=True).get(pk=key_id)


lock_keys_statement = partial(lock_rows_statement, ApiKey)  # locks and reads the keys of a batch
