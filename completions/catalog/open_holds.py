"""What running requests hold, which a change of the catalog leaves as it is."""

from gateway_project.db import cell, everywhere


def read(column: str, value: str) -> tuple[int, int]:
    """Return how many requests run now, and what they hold, of those with this value in a column, such as ``model_id``."""
    numbers, nanos = zip(*everywhere.gather(lambda: cell.execute(_STATEMENT.format(column=column), [value])), strict=True)
    return int(sum(numbers)), int(sum(nanos))


_STATEMENT = """
    SELECT count(*), coalesce(sum(amount_nanos), 0) FROM billing_hold
    JOIN completions_completion AS completion ON completion.id = reference
    WHERE state = 'HELD' AND completion.{column} = %s
"""
