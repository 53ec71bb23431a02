"""Adds a cell to a gateway that serves, after completing the directory of the first cell."""

import time
from collections.abc import Callable

from django.db import transaction
from django.db.models import Max

from gateway_project.cells import structure
from gateway_project.cells.models import Cell
from gateway_project.cells.referred import references_sql
from gateway_project.db import cell

# Each process reads the cells as often, and may have begun a request with what it read before.
_KNOWN_SECONDS = 2 * cell.READ_SECONDS

_PLACES = (
    "INSERT INTO cells_accountplace (account_id, cell) SELECT id, %s FROM billing_account ON CONFLICT DO NOTHING",
    "INSERT INTO cells_userplace (user_id, cell) SELECT DISTINCT user_id, %s FROM billing_membership ON CONFLICT DO NOTHING",
)


def add(*, is_open: bool, progress: Callable[[str], None]) -> Cell:
    """Make the tables of a new cell, let all processes know it, and then open it for new accounts.

    A cell that was not finished has its tables and no row: the next attempt gets the next number. Raises the database's errors.
    """
    fill_directory()
    number = Cell.objects.aggregate(highest=Max("number", default=cell.FIRST))["highest"] + 1
    while cell.execute("SELECT to_regnamespace(%s)", [cell.schema(number)]) != [(None,)]:
        number += 1
    structure.create(number, progress)
    added = Cell.objects.create(number=number)
    progress(f"All processes know cell {number} in {_KNOWN_SECONDS} seconds ...")
    time.sleep(_KNOWN_SECONDS)
    fill_directory()  # a process that knew one cell only wrote nothing of what was made meanwhile, if it is of an older release
    added.is_open = is_open
    added.save(update_fields=["is_open"])
    cell.read_again()
    return added


def fill_directory() -> None:
    """Write what the directory lacks of the current cell: of an installation that was made before there were cells."""
    with transaction.atomic():
        for statement in _PLACES:
            cell.execute(statement, [cell.current()])
        cell.execute(f"INSERT INTO cells_reference (kind, value, account_id) {references_sql()} ON CONFLICT DO NOTHING")
