"""Waiting in tests: for a condition, never for a fixed time.

A wait ends as soon as its condition is true, so its limit may be generous: it is only reached by a test that fails.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

SECONDS_MAX = 60.0  # less than the lock_timeout of the tests' own transactions, which wait for each other
PROCESS_SECONDS_MAX = 300.0  # for another process: its reply, its start or its end, on a machine that is busy with others


def until(condition: Callable[[], Any], seconds_max: float | None = None) -> None:
    """Wait until the condition is true. After the time limit return, too: the next assertion fails with a better message.

    For what another process does, pass PROCESS_SECONDS_MAX. Asks less often the longer it takes: a condition may cost much of
    the core that what it waits for needs.
    """
    began_at, limit = time.monotonic(), seconds_max or SECONDS_MAX
    while not condition() and (seconds := time.monotonic() - began_at) < limit:
        time.sleep(min(0.002 + seconds / 20, 0.1))


def somebody_waits() -> bool:
    """Return whether a transaction in this database waits for a lock now. Works within a transaction, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks AS wanted JOIN pg_locks AS had USING (pid) WHERE NOT wanted.granted"
            " AND had.database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
        )
        return bool(cursor.fetchone()[0])


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Run the block while another thread has done ``work`` in a transaction and not yet committed it."""
    worked, done = threading.Event(), threading.Event()

    def run() -> None:
        try:
            with transaction.atomic():
                work()
                worked.set()
                done.wait(2 * SECONDS_MAX)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert worked.wait(SECONDS_MAX)
        yield
    finally:
        done.set()
        thread.join()
