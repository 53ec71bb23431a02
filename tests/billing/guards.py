"""For tests of the audit: the database without what it refuses by itself, until the test's transaction is rolled back."""

from django.db import connection


def remove(*tables: str) -> None:
    """Take away the tables' triggers, their CHECK constraints and the uniqueness of a reference."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE conrelid::regclass::text = ANY(%s)"
            " AND (contype = 'c' OR contype = 'u' AND conname LIKE '%%reference%%')",
            [list(tables)],
        )
        for table, name in cursor.fetchall():
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
