"""Removes constraints and triggers of the test database, for tests of the audit, until the test is rolled back."""

from django.db import connection


def remove(*tables: str) -> None:
    """Remove the tables' triggers, their CHECK constraints and the uniqueness of a reference."""
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
