"""Deletes what transactional tests wrote, and keeps their connection: PostgreSQL plans the whole audit once for each.

A new connection reads the catalog of the tables anew, too. Deletions have a connection of their own, because to disable
triggers forgets the plans of a connection.
"""

from functools import cache
from itertools import compress
from typing import Any

import psycopg
from django.db import connection
from psycopg.pq import TransactionStatus

from gateway_project.db import cell, direct_connections
from tests import cells

_KEPT = {"django_content_type", "auth_permission", "cells_cell"}  # tables of rows that no test changes
_opened: list["psycopg.Connection[Any]"] = []


@cache
def tables() -> list[str]:
    """Return the tables whose rows tests write."""
    with cell.use(cell.FIRST):  # in another cell migrations, and what lists their tables, leave out what all cells share
        names = connection.introspection.django_table_names(only_existing=True)
    return [table for table in names if table not in _KEPT]


def delete() -> None:
    """Delete all rows that a transactional test wrote in any cell, without the triggers and the keys that forbid it.

    To truncate a table costs the same whether it is empty or not, and a test writes few rows to few tables. A gateway under
    test may still write: it waits until all is deleted. The triggers stay enabled: only this transaction runs without them.
    """
    forget_session()
    if not _opened:
        _opened.append(direct_connections.connect())
        _opened[0].execute(direct_connections.session_sql())
    while True:
        try:
            return _delete_everywhere()
        except psycopg.errors.DeadlockDetected:
            continue  # with a gateway under test, which wrote to a table before that was locked, and to another after


def _delete_everywhere() -> None:
    with _opened[0].transaction():
        _opened[0].execute("SET LOCAL session_replication_role = replica")
        for number in range(cell.FIRST, cells.NUMBER + 1):
            _opened[0].execute(f"{cell.search_path_sql(number)}; LOCK TABLE {_names()} IN SHARE ROW EXCLUSIVE MODE")
            _delete_rows(_opened[0])


def _delete_rows(deleting: "psycopg.Connection[Any]") -> None:
    exist = deleting.execute(f"SELECT {', '.join(f'EXISTS (SELECT FROM {table})' for table in tables())}").fetchone()
    if filled := list(compress(tables(), exist or ())):
        deleting.execute("; ".join(f"DELETE FROM {table}" for table in filled))


def _names() -> str:
    return ", ".join(tables())


def forget_session() -> None:
    """Give the connection of the test the state of a new one. Close it, if a test has left it in a transaction or broken."""
    used = connection.connection
    if used is None:
        return
    if used.info.transaction_status == TransactionStatus.IDLE and connection.get_autocommit():
        try:
            used.execute(f"RESET ALL; SET TIME ZONE 'UTC'; SELECT pg_advisory_unlock_all(); {direct_connections.session_sql()}")
            cell.forget(used)
        except psycopg.OperationalError:  # the server has ended it
            connection.close()
    else:
        connection.close()


def close() -> None:
    """Close the connection of the deletions, before its database is dropped."""
    while _opened:
        _opened.pop().close()
