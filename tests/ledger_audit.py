"""The whole audit in one prepared statement, for the many tests that end with it.

PostgreSQL plans the questions once for each connection. What is wrong is then told by the audit itself.
"""

from weakref import WeakSet

from django.db import connection

from billing import audit

_prepared: WeakSet[object] = WeakSet()  # connections that have the statement


def assert_ledger_is_consistent() -> None:
    """Assert that the audit finds no violation and no missing constraint."""
    with connection.cursor() as cursor:
        if connection.connection not in _prepared:
            cursor.execute(f"PREPARE whole_audit AS {_counts_statement()}")
            _prepared.add(connection.connection)
        cursor.execute("EXECUTE whole_audit")
        if any(cursor.fetchone()):
            assert audit.verify() == []


def _counts_statement() -> str:
    """Return a statement that counts the rows against each invariant."""
    asked = audit.invariants()
    groups = {id(each.shared or each): audit._sharing_query_with(each, asked) for each in asked}
    queries = [f"({audit._counts_statement(group)}) AS q{number}" for number, group in enumerate(groups.values())]
    return f"SELECT * FROM {', '.join(queries)}".replace("%(account)s", "NULL").replace("%%", "%")
