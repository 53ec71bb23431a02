"""PostgreSQL: configuration from DATABASE_URL, the request pool's connections, the database's clock and a time limit."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import gevent
import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.conninfo import conninfo_to_dict

UNAVAILABLE = (OperationalError, InterfaceError)  # Django raises these when the database cannot be reached or breaks off
DATABASE_ERRORS = (DatabaseError, InterfaceError)  # every error of the database: Django's two classes share no parent

# A lock that takes longer to get means that something is wrong: then fail, so that requests do not pile up.
_SERVER_OPTIONS = "-c lock_timeout=5000 -c idle_in_transaction_session_timeout=30000"
# A server that sends nothing for this long counts as unavailable. (Over TCP the kernel notices, too.)
TIME_LIMIT_SECONDS = 10
_CONNECTION_OPTIONS = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "tcp_user_timeout": 10_000}


def configuration(url: str, *, pool_size: int) -> dict[str, Any]:
    """Django's DATABASES entry for a libpq URL, such as ``postgresql://user:password@host:5432/name?sslmode=require``.

    A pool size of 0 gives every thread its own connection.
    """
    if not url:
        # Commands that need no database still work; the first query raises an error that names what is missing.
        return {"ENGINE": "django.db.backends.dummy"}
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ImproperlyConfigured(f"DATABASE_URL is not a PostgreSQL URL: {error}") from None
    options: dict[str, Any] = {"options": _SERVER_OPTIONS}
    if pool_size:
        options["pool"] = {"min_size": 1, "max_size": pool_size, "timeout": 5, "max_waiting": 2_000}
    named = {key: parts.pop(key, "") for key in ("dbname", "user", "password", "host", "port")}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": named["dbname"],
        "USER": named["user"],
        "PASSWORD": named["password"],
        "HOST": named["host"],
        "PORT": str(named["port"] or ""),
        "CONN_MAX_AGE": 0,
        "OPTIONS": {**_CONNECTION_OPTIONS, **parts, **options},
    }


def release_connection() -> None:
    """Return this thread's connection to the pool, unless a transaction is still open on it.

    Django does so when the response is closed. A stream is closed minutes later, and a few connections serve thousands of
    streams.
    """
    current = _current_connection()
    if current and current.connection is not None and not current.in_atomic_block:
        current.close()


def is_in_transaction() -> bool:
    """Return whether a transaction of Django's is open on this thread's connection."""
    current = _current_connection()
    return current is not None and current.in_atomic_block


def _current_connection() -> BaseDatabaseWrapper | None:
    # None when this thread never used one. Most completions do not, and making the object takes time and memory.
    return next(iter(connections.all(initialized_only=True)), None)


def database_time() -> datetime:
    """Return the time by the database's clock: the one clock for spending windows, rate limits and expiries, on every host."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise OperationalError, and close this thread's connection, when the block takes longer than TIME_LIMIT_SECONDS."""
    try:
        with gevent.Timeout(TIME_LIMIT_SECONDS):
            yield
    except gevent.Timeout:
        connection.close()
        raise OperationalError(f"the database did not answer within {TIME_LIMIT_SECONDS} seconds") from None
