"""How tests arrange that one comes while another is at it: by waiting for what the database itself says, never for a time."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

_PATIENCE_SECONDS = 4  # less than the lock_timeout of those who wait


def until(condition: Callable[[], Any]) -> None:
    """Return when it is true, or when it is in vain to wait longer: what comes next will fail, and say why."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)


def somebody_waits() -> bool:
    """Whether somebody in this database waits for a lock, as of now, also within a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks AS wanted JOIN pg_locks AS had USING (pid) WHERE NOT wanted.granted"
            " AND had.database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
        )
        return bool(cursor.fetchone()[0])


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """While somebody else, who has done ``work`` in a transaction, has not committed it yet."""
    worked, done = threading.Event(), threading.Event()

    def run() -> None:
        try:
            with transaction.atomic():
                work()
                worked.set()
                done.wait(2 * _PATIENCE_SECONDS)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert worked.wait(_PATIENCE_SECONDS)
        yield
    finally:
        done.set()
        thread.join()
