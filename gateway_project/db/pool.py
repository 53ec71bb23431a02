"""LEAF. PostgreSQL: how DATABASE_URL becomes Django's configuration, its clock, and how long it may keep us waiting."""

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

# What Django raises when the database cannot be reached or breaks off, and what it raises at all: there is no one parent.
AWAY = (OperationalError, InterfaceError)
FAILED = (DatabaseError, InterfaceError)

# A statement that waits longer than this means something is wrong; refusing is better than piling up.
_SERVER_OPTIONS = "-c lock_timeout=5000 -c idle_in_transaction_session_timeout=30000"
# ... and a server that answers nothing at all is as good as away. (What is over TCP, the kernel notices as well.)
PATIENCE_SECONDS = 10
_CONNECTION_OPTIONS = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "tcp_user_timeout": 10_000}


def configuration(url: str, *, pool_size: int) -> dict[str, Any]:
    """Django's DATABASES entry for a libpq URL, such as ``postgresql://user:password@host:5432/name?sslmode=require``.

    A pool size of 0 gives every thread its own connection.
    """
    if not url:
        # Commands that need no database still work; the first query says what is missing.
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


def give_back_connection() -> None:
    """Return this thread's connection to the pool, unless somebody's transaction is still open on it.

    Django does so when the response is closed; a stream closes minutes later, and a few connections must carry thousands.
    """
    own = _own()
    if own and own.connection is not None and not own.in_atomic_block:
        own.close()


def is_in_transaction() -> bool:
    """Whether a transaction of Django's is open on this thread's connection."""
    own = _own()
    return own is not None and own.in_atomic_block


def _own() -> BaseDatabaseWrapper | None:
    # Of the thread, if it ever wanted one: most completions never do, and to make one takes time and memory.
    return next(iter(connections.all(initialized_only=True)), None)


def now() -> datetime:
    """The database's clock: the one clock of windows, rates and expiries, whichever host asks."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


@contextmanager
def patience() -> Iterator[None]:
    """Raises OperationalError, and drops this thread's connection, when the database does not answer in time."""
    try:
        with gevent.Timeout(PATIENCE_SECONDS):
            yield
    except gevent.Timeout:
        connection.close()
        raise OperationalError(f"the database did not answer within {PATIENCE_SECONDS} seconds") from None
