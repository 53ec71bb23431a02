"""A database whose clock stands still until it is stepped: within a transaction, for every statement of the gateway's."""

from datetime import datetime

from django.db import connection

_CLOCK = """
    CREATE SCHEMA stepped;
    CREATE FUNCTION stepped.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
        AS $$ SELECT current_setting('stepped.now')::timestamptz $$
"""


def make() -> None:
    """Once in a transaction. Columns that say by themselves when a row was made go on to tell the real time."""
    with connection.cursor() as cursor:
        cursor.execute(_CLOCK)


def step(now: datetime) -> None:
    """From here on it is ``now``; until the transaction, or the savepoint, is rolled back."""
    with connection.cursor() as cursor:
        # Before the catalog of PostgreSQL itself, which has the real one.
        cursor.execute("SET LOCAL search_path = stepped, pg_catalog, public")
        cursor.execute("SELECT set_config('stepped.now', %s, true)", [now.isoformat()])
