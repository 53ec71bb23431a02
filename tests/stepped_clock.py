"""A database clock that stands still until a test steps it, for all statements of the gateway in one transaction."""

from datetime import datetime

from django.db import connection

from gateway_project.db import cell

_CLOCK = """
    CREATE SCHEMA stepped;
    CREATE FUNCTION stepped.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
        AS $$ SELECT current_setting('stepped.now')::timestamptz $$
"""


def make() -> None:
    """Create the clock, once per transaction. Column defaults still use the real time."""
    with connection.cursor() as cursor:
        cursor.execute(_CLOCK)


def step(now: datetime) -> None:
    """Set the clock to ``now`` until the transaction, or the savepoint, is rolled back."""
    with connection.cursor() as cursor:
        # Listed before pg_catalog, which has the real function.
        own = "" if cell.current() == cell.FIRST else f"{cell.schema(cell.current())}, "
        cursor.execute(f"SET LOCAL search_path = stepped, pg_catalog, {own}public")
        cursor.execute("SELECT set_config('stepped.now', %s, true)", [now.isoformat()])
