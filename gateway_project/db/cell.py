"""The current cell: the schema in which unqualified names of accounts' tables are looked up. See ``gateway_project.cells``.

A connection begins in the first cell: an installation with one cell sends no statement more. Other cells have a schema of their
own, and find in ``public`` what all cells share. Work in the background begins in the first cell.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from django.db import connection
from psycopg.pq import TransactionStatus

from gateway_project.db import pool

Value = TypeVar("Value")

FIRST = 1
_UNKNOWN = 0

_current: ContextVar[int] = ContextVar("cell", default=FIRST)
current = _current.get  # the number of the current cell
enter = _current.set  # makes a cell the current one, for the rest of the request or task


@contextmanager
def use(number: int) -> Iterator[None]:
    """Make a cell the current one for the block."""
    earlier = _current.set(number)
    try:
        yield
    finally:
        _current.reset(earlier)


def schema(number: int) -> str:
    """Return the name of the schema of a cell that is not the first."""
    return f"cell_{number:02d}"


def search_path_sql(number: int) -> str:
    """SQL that lets a session find the tables of a cell first, and then what all cells share."""
    return "RESET search_path" if number == FIRST else f"SET search_path = {schema(number)}, public"


def execute(sql: str, values: Any = None) -> list[tuple[Any, ...]]:
    """Execute one statement in the current cell, and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall()) if cursor.description else []


def take_turn(name: str) -> None:
    """Wait for whoever does what has this name, in whichever cell, and let others wait until the transaction ends."""
    execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [name])


class ByCell(dict[int, Value]):
    """A value for each cell, by its number, made when it is first asked for. Greenlets that ask at a time get the same one."""

    def __init__(self, make: Callable[[int], Value]) -> None:
        self._make = make

    def __missing__(self, number: int) -> Value:
        return self.setdefault(number, self._make(number))


READ_SECONDS = 5  # after which all processes know a new cell
_EAGER_SECONDS = 0.5  # between two reads for a cell that is not known

added: dict[int, bool] = {}  # the numbers of all but the first, and whether new accounts may be put there
_read_at = -math.inf


def numbers() -> list[int]:
    """Return the numbers of all cells, the first first. Raises the database's errors if they were never read."""
    _read_again_after(READ_SECONDS)
    return [FIRST, *added]


def are_several() -> bool:
    return len(numbers()) > 1


def or_first(number: int) -> int:
    """Return the number if there is such a cell, perhaps a new one, and otherwise that of the first."""
    if number != FIRST and number not in added:
        _read_again_after(_EAGER_SECONDS)
    return number if number in added else FIRST


def open_numbers() -> list[int]:
    """Return the cells for new accounts: those that are open; without any, the first."""
    return [number for number in numbers() if added.get(number)] or [FIRST]


def read_again() -> None:
    """Read the table of cells now. Raises the database's errors."""
    global _read_at
    with use(FIRST):
        rows = pool.read(lambda: dict(execute("SELECT number, is_open FROM cells_cell ORDER BY number")))
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
        if is_first:  # there may be one cell, or several
            _read_at = -math.inf
        if is_first or not pool.is_unavailable(error):
            raise


_of_connections: "WeakKeyDictionary[psycopg.Connection[Any], int]" = WeakKeyDictionary()  # those that left the first cell


def follow(connection: psycopg.Connection[Any]) -> None:
    """Let a connection find the tables of the current cell, if it does not. One in a failed transaction only goes back."""
    number = _current.get()
    is_other = _of_connections.get(connection, FIRST) != number
    if is_other and connection.info.transaction_status != TransactionStatus.INERROR:
        connection.execute(search_path_sql(number).encode())
        _of_connections[connection] = number


def forget(connection: psycopg.Connection[Any] | None) -> None:
    """Set the cell of a connection anew before its next statement: a rollback may have undone how it was set."""
    if connection is not None and connection in _of_connections:
        _of_connections[connection] = _UNKNOWN
