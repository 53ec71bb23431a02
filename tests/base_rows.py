"""The rows that most tests begin with: the product writes them once in each process, and each test gets a copy.

To write an account with credit takes a dozen statements through the ORM, a copy takes one. In a copy all ids are the same, and
all times are a moment before the beginning of the transaction. A test without a transaction of its own, whose rows other
processes may remember, gets new ones.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from itertools import compress
from typing import Any

from django.db import connection, models, transaction

MARK = "/* base rows */ "  # begins each statement that inserts them
_OF_TRIGGERS = {"billing_membershipchange"}  # tables that triggers fill, in a copy as well
Build = Callable[..., models.Model]


@dataclass(frozen=True)
class Copy:
    """The statement that inserts the rows, and the one that reads the object that was built as the ORM does."""

    insert: str
    select: str
    model: type[models.Model]
    texts: dict[str, str]  # in the rows, by the parameter of the builder that they come from


class BaseRows:
    """Copies of what builders write to an empty database. Parameters of a builder are texts that stand in its rows."""

    def __init__(self, tables: list[str], builders: dict[str, Build]) -> None:
        self._builders = builders
        related = [table for table in _referenced_first() if table in tables and table not in _OF_TRIGGERS]
        written = [*related, *(table for table in tables if table not in {*related, *_OF_TRIGGERS})]
        self._copies = {name: _record(build, written) for name, build in builders.items()}

    def insert(self, name: str, **texts: str) -> Any:
        """Insert the rows with this name, and return the object that was built."""
        if not connection.in_atomic_block:
            return self._builders[name](**texts)
        copy = self._copies[name]
        insert = copy.insert
        for parameter, text in texts.items():
            insert = insert.replace(copy.texts[parameter], text)
        with connection.cursor() as cursor:
            cursor.execute(insert)
            cursor.execute(copy.select)
            columns = [column.name for column in cursor.description or ()]
            return copy.model.from_db(connection.alias, columns, cursor.fetchone())


def _record(build: Build, tables: list[str]) -> Copy:
    """Build the object in a transaction, read the rows that are there since, and take them back."""
    with transaction.atomic(), connection.cursor() as cursor:
        of_migrations = dict(_inserts(cursor, tables))
        built = build()
        inserts = [insert for place, insert in _inserts(cursor, tables) if place not in of_migrations]
        transaction.set_rollback(True)
    texts = {name: parameter.default for name, parameter in inspect.signature(build).parameters.items()}
    return Copy(MARK + "; ".join(inserts), _select_statement(built), type(built), texts)


def _referenced_first() -> list[str]:
    """Return the tables with foreign keys, or that these refer to, each after those that it refers to."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, array_agg(confrelid::regclass::text) FROM pg_constraint"
            " WHERE contype = 'f' AND conrelid <> confrelid GROUP BY conrelid"
        )
        return list(TopologicalSorter(dict(cursor.fetchall())).static_order())


def _inserts(cursor: Any, tables: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the place of each row of the tables and a statement that inserts it, with times by their distance to now."""
    cursor.execute(f"SELECT {', '.join(f'EXISTS (SELECT FROM {table})' for table in tables)}")
    for table in compress(tables, cursor.fetchone()):
        columns = _columns(table)
        literals = ", ".join(map(_literal_sql, columns, columns.values()))
        cursor.execute(f"SELECT ctid, concat_ws(', ', {literals}) FROM {table}")
        for place, values in cursor.fetchall():
            yield f"{table}{place}", f"INSERT INTO {table} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE VALUES ({values})"


@cache
def _columns(table: str) -> dict[str, str]:
    """Return the types of the columns that are stored as they are given, by quoted name."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(column_name), data_type FROM information_schema.columns"
            " WHERE table_schema = (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = %s::regclass)"
            " AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
            [table, table],
        )
        return dict(cursor.fetchall())


def _literal_sql(column: str, kind: str) -> str:
    if kind == "timestamp with time zone":
        return f"coalesce('now() - ' || quote_literal((clock_timestamp() - {column})::text) || '::interval', 'NULL')"
    return f"quote_nullable({column}::text)"


def _select_statement(built: models.Model) -> str:
    columns = ", ".join(f'"{field.column}" AS "{field.attname}"' for field in built._meta.concrete_fields)
    key = built._meta.pk
    return f"SELECT {columns} FROM {built._meta.db_table} WHERE \"{key.column}\" = '{built.pk}'"
