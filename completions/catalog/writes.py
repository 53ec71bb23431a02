"""What all writers of the catalog share: catalog files, and what providers' own lists propose."""

from collections.abc import Mapping

from django.db import connection

from completions.models import Price


def one_at_a_time() -> None:
    """Until the end of the transaction nobody else writes the catalog: the second of two finds what the first has done."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('completions.catalog'))")


def put_in_force(model_id: str, current: Price | None, columns: Mapping[str, int | None]) -> bool:
    """A price that differs from the one in force becomes a new row, effective now; whether it does.

    Old ones stay: completions refer to them, and those that run are charged at the price they were admitted with.
    """
    if current and all(getattr(current, name) == nanos for name, nanos in columns.items()):
        return False
    Price.objects.create(model_id=model_id, **columns)
    return True
