"""Background work of keys; the settings schedule it by dotted path."""

from gateway_project.celery import periodic
from keys.key_api import idempotency
from keys.refusal_history import tables


@periodic(retries=3, each_cell=True)
def forget_old_refusals() -> int:
    """Delete refusals, and replies to management keys, that are no longer kept. Return how many rows."""
    return tables.delete_old() + idempotency.delete_old()
