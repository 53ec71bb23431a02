"""The whole audit in one prepared statement, for the many tests that end with it.

PostgreSQL plans the questions once for each connection. What is wrong is then told by the audit itself.
"""

from functools import cache
from itertools import chain
from weakref import WeakKeyDictionary

from django.db import connection
from psycopg import ClientCursor

from billing.ledger import archived_days, audit
from billing.ledger.archived_days import Kept
from billing.ledger.audit import Invariant

_prepared: WeakKeyDictionary[object, Kept] = WeakKeyDictionary()  # what the statement of a connection takes as kept


def assert_ledger_is_consistent() -> None:
    """Assert that the audit finds no violation and no missing constraint."""
    if violated():
        assert audit.verify() == []


def violated() -> list[Invariant]:
    """Return the invariants that rows violate, or whose constraint is missing."""
    with connection.cursor() as cursor:
        kept = archived_days.read_kept(cursor)
        if _prepared.get(connection.connection) != kept:
            values = audit.Scope().values(kept)
            counts = ClientCursor(connection.connection).mogrify(_counts_sql(), values)
            cursor.execute(f"DEALLOCATE ALL; PREPARE whole_audit AS {counts}")
            _prepared[connection.connection] = kept
        cursor.execute("EXECUTE whole_audit")
        counted = zip(chain.from_iterable(_groups()), chain.from_iterable(cursor.fetchone()), strict=True)
        return [invariant for invariant, count in counted if count]


@cache
def _groups() -> list[list[Invariant]]:
    """Return the invariants by the query that they share."""
    asked = audit.invariants()
    return list({id(each.shared or each): audit._sharing_query_with(each, asked) for each in asked}.values())


@cache
def _counts_sql() -> str:
    """Return a statement that counts the rows against each invariant."""
    queries = [f"(SELECT {audit._counts_sql(group)}) AS q{number}" for number, group in enumerate(_groups())]
    return audit._select_sql(f"* FROM {', '.join(queries)}")
