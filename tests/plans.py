"""How PostgreSQL would run a statement on tables that are as full as in use.

On an almost empty table several indexes cost the same, and which one it takes depends on what other tests left in the files;
and a scan of all its rows may be cheaper than any index.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


def plan_of(sql: str, values: Any = None) -> str:
    """Return the lines of EXPLAIN."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", values)
        return "\n".join(line for (line,) in cursor.fetchall())


@contextmanager
def without_scans() -> Iterator[None]:
    """Let scans of whole tables cost too much. Needs a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        yield
        cursor.execute("SET LOCAL enable_seqscan = on")


def repeat_completion(completion_id: str, number: int = 3_000) -> None:
    """Insert ``number`` copies of a completion, with ids of the same time, and let the planner know of them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO completions_completion SELECT (jsonb_populate_record(original,"
            " jsonb_build_object('id', left(original.id, 21) || left(md5(n::text), 20)))).*"
            " FROM completions_completion original, generate_series(1, %s) n WHERE original.id = %s",
            [number, completion_id],
        )
        cursor.execute("ANALYZE completions_completion")
