"""The current cell: the schema in which unqualified names of accounts' tables are looked up. See ``gateway_project.cells``.

The first cell is what a connection finds without being told: an installation with one cell sends no statement more. Other cells
have a schema of their own, and find in ``public`` what all cells share. What runs in the background begins in the first cell.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from django.db import connection
from psycopg.pq import TransactionStatus

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


class ByCell(dict[int, Value]):
    """Something that each cell has, by the cell's number. It is made when it is first asked for.

    Greenlets that ask at the same time get the same one.
    """

    def __init__(self, make: Callable[[int], Value]) -> None:
        self._make = make

    def __missing__(self, number: int) -> Value:
        return self.setdefault(number, self._make(number))


# --- Django's connections ---------------------------------------------------------------------------------------------


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
