"""What running requests hold, which a change of the catalog leaves as it is."""

from dataclasses import dataclass

from django.db import connection


@dataclass(frozen=True)
class OpenHolds:
    """How many requests run now, and what they hold in all."""

    number: int
    nanos: int


def read(column: str, value: str) -> OpenHolds:
    """Return the holds of completions with this value in a column, such as ``model_id``.

    Few holds are open at a time, and they have an index.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT.format(column=column), [value])
        return OpenHolds(*map(int, cursor.fetchone()))


_STATEMENT = """
    SELECT count(*), coalesce(sum(amount_nanos), 0) FROM billing_hold
    JOIN completions_completion AS completion ON completion.id = reference
    WHERE state = 'HELD' AND completion.{column} = %s
"""
