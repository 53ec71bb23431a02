"""The cells that this process knows. It reads their table every few seconds, when it needs to know."""

import math
import time

from gateway_project.cells.models import Cell
from gateway_project.db import cell, pool

READ_SECONDS = 5  # after which all processes know a new cell
_EAGER_SECONDS = 0.5  # between two reads for a cell that is not known

added: dict[int, bool] = {}  # the numbers of all but the first, and whether new accounts may be put there
_read_at = -math.inf


def numbers() -> list[int]:
    """Return the number of each cell, the first cell's first. Raises the database's errors only if they were never read.

    What runs in a transaction goes on with the cells that it began with.
    """
    _read_again_after(READ_SECONDS)
    return [cell.FIRST, *added]


def are_several() -> bool:
    return len(numbers()) > 1


def has(number: int) -> bool:
    """Return whether there is such a cell. A number that is not known may be that of a new one."""
    if number == cell.FIRST or number in added:
        return True
    _read_again_after(_EAGER_SECONDS)
    return number in added


def open_numbers() -> list[int]:
    """Return the cells for new accounts: those that are open; without any, the first."""
    return [number for number in numbers() if added.get(number)] or [cell.FIRST]


def read_again() -> None:
    """Read the table now. Raises the database's errors."""
    global _read_at
    with cell.use(cell.FIRST):
        rows = pool.read(lambda: dict(Cell.objects.order_by("number").values_list("number", "is_open")))
    for number in added.keys() - rows.keys():
        del added[number]
    added.update(rows)
    _read_at = time.monotonic()


def _read_again_after(seconds: float) -> None:
    global _read_at
    is_first, now = _read_at < 0, time.monotonic()
    if now - _read_at < seconds or (pool.is_in_transaction() and not is_first):
        return
    _read_at = now  # before: others need not ask as well
    try:
        read_again()
    except pool.DATABASE_ERRORS as error:
        if is_first:  # nobody knows whether there is but one
            _read_at = -math.inf
        if is_first or not pool.is_unavailable(error):
            raise
