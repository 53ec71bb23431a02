"""Writes that catalog files and catalog proposals share."""

from collections.abc import Mapping
from datetime import datetime

from django.db import connection

from completions.models import Price


def lock_catalog() -> None:
    """Hold the catalog's advisory lock until the transaction ends, so that a second writer sees what the first one wrote."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('completions.catalog'))")


def set_price(
    model_id: str, current: Price | None, columns: Mapping[str, int | None], *, starts_at: datetime | None = None
) -> bool:
    """Insert a price, effective now or later, if it differs from ``current``, the one in force then. Return whether it did.

    Older rows stay: completions refer to them, and running ones are charged at the price of their admission.
    """
    if current and all(getattr(current, name) == nanos for name, nanos in columns.items()):
        return False
    Price.objects.create(model_id=model_id, **columns, **({"effective_from": starts_at} if starts_at else {}))
    return True
