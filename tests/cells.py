"""How many cells the test database has: one, or as many as CELLS says. All tests then work in the last one.

The first cell has no accounts then: what looks for one there finds nothing, and its test fails.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from gateway_project.cells import directory, structure
from gateway_project.cells.models import Cell
from gateway_project.db import cell

NUMBER = int(os.environ.get("CELLS", "1"))


@contextmanager
def added(number: int = 2) -> Iterator[int]:
    """Add a cell unless the database has it, and let this process know it for the block. A transaction takes it back."""
    if number > NUMBER:
        structure.create(number)
        Cell.objects.create(number=number, is_open=True)
    cell.read_again()
    directory._places.clear()
    try:
        yield number
    finally:
        if number > NUMBER and not connection.in_atomic_block:
            drop(number)
        if number > NUMBER:
            cell.added.pop(number, None)
        directory._places.clear()


def drop(number: int) -> None:
    """Drop a cell that was committed."""
    Cell.objects.filter(number=number).delete()
    cell.added.pop(number, None)
    with cell.use(cell.FIRST), connection.cursor() as cursor:
        cursor.execute(f"DROP SCHEMA {cell.schema(number)} CASCADE")
