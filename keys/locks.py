"""The key's row, locked: after its account's (``billing.locks`` says the whole order)."""

from keys.models import ApiKey


def key(key_id: str) -> ApiKey:
    """The key, locked until the transaction ends. Raises ApiKey.DoesNotExist."""
    return ApiKey.objects.select_for_update(of=("self",), no_key=True).get(pk=key_id)
