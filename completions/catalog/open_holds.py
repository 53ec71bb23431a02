"""What running requests hold, which a change of the catalog leaves as it is."""

from dataclasses import dataclass

from gateway_project.db import cell, everywhere


@dataclass(frozen=True)
class OpenHolds:
    """How many requests run now, and what they hold in total."""

    number: int
    nanos: int


def read(column: str, value: str) -> OpenHolds:
    """Return the open holds, which are few, of completions with this value in a column, such as ``model_id``."""
    numbers, nanos = zip(*everywhere.gather(lambda: cell.execute(_STATEMENT.format(column=column), [value])), strict=True)
    return OpenHolds(int(sum(numbers)), int(sum(nanos)))


_STATEMENT = """
    SELECT count(*), coalesce(sum(amount_nanos), 0) FROM billing_hold
    JOIN completions_completion AS completion ON completion.id = reference
    WHERE state = 'HELD' AND completion.{column} = %s
"""
