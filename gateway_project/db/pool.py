"""PostgreSQL: configuration from DATABASE_URL, the request pool's connections, reads, the database's clock and a time limit."""

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from gevent.local import local
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import QueryCanceled

from gateway_project.db.circuit_breaker import SLOW_SECONDS, process_circuit
from gateway_project.deadline import Deadline

UNAVAILABLE = (OperationalError, InterfaceError)  # Django raises these when the database cannot be reached or breaks off
DATABASE_ERRORS = (DatabaseError, InterfaceError)  # every error of the database: Django's two classes share no parent
# SQLSTATEs: of a write to a standby, or to a database that was made read-only; of what our role may not do; and of a lock that
# was not granted in time.
_READ_ONLY, _NOT_PERMITTED, _LOCK_NOT_AVAILABLE = "25006", "42501", "55P03"

Value = TypeVar("Value")

# A lock that takes longer to get means that something is wrong: then fail, so that requests do not pile up.
# Set when the connection is open: PgBouncer accepts no such options of a connection that begins.
_SESSION = {"lock_timeout": "5s", "idle_in_transaction_session_timeout": "30s"}
# A batch takes milliseconds. A process that is frozen within one keeps its locks for less time than others wait for them.
_BATCH_SESSION = {"idle_in_transaction_session_timeout": "4s"}
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
    options: dict[str, Any] = {}
    if pool_size:
        options["pool"] = {
            **{"min_size": 1, "max_size": pool_size, "timeout": 5, "max_waiting": 2_000},
            # The pauses between attempts double. After an outage, the next request must not wait for a long one to end.
            "reconnect_timeout": 2,
        }
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}  # of libpq, by Django's
    named = {name: parts.pop(key, "") for name, key in names.items()}
    return {
        "ENGINE": "gateway_project.db.backend",
        **named,
        "CONN_MAX_AGE": 0,
        "SESSION": dict(_SESSION),
        "BATCH_SESSION": dict(_BATCH_SESSION),
        "OPTIONS": {**_CONNECTION_OPTIONS, **parts, **options},
    }


def limit_queries(seconds: int) -> None:
    """Let PostgreSQL cancel statements of this process that take longer, in the request pool, which was not used yet.

    Web processes call this: commands, tasks and migrations may take as long as they need.
    """
    connection.settings_dict["STATEMENT_SECONDS"] = seconds


def stop_pooling() -> None:
    """Give every thread a connection of its own from now on, in a process that has not used the database yet.

    A forked process must not inherit a pool: its threads are not there, and who closes its connections ends them for the other.
    """
    connection.settings_dict["OPTIONS"].pop("pool", None)


def release_connection() -> None:
    """Return this thread's connection to the pool, unless in a transaction. Django does so at the end of a response."""
    current = _current()
    if current and current.connection is not None and not current.in_atomic_block:
        current.close()


def _current() -> BaseDatabaseWrapper | None:
    """Return this thread's connection; None when it never used one. Django's own ``all(initialized_only=True)`` is slower."""
    of_threads = connections._connections  # type: ignore[attr-defined]
    if type(of_threads) is local:  # as in web processes; it takes ten times as long to say that an attribute is missing
        found: BaseDatabaseWrapper | None = vars(of_threads).get(DEFAULT_DB_ALIAS)
        return found
    return getattr(of_threads, DEFAULT_DB_ALIAS, None)


def is_in_transaction() -> bool:
    """Return whether a transaction of Django's is open on this thread's connection."""
    current = _current()
    return current is not None and current.in_atomic_block


def is_unavailable(error: BaseException) -> bool:
    """Return whether the error says that the database cannot be reached, breaks off, or refuses writes or our role."""
    return isinstance(error, UNAVAILABLE) or _sqlstate(error) in (_READ_ONLY, _NOT_PERMITTED)


def is_read_only(error: BaseException) -> bool:
    """Return whether the error, or a cause of it, says that the database takes no writes."""
    return _sqlstate(error) == _READ_ONLY


def _sqlstate(error: BaseException | None) -> str | None:
    """Return the code with which the database answered. Django keeps psycopg's error, which has it, as the cause."""
    while error is not None and getattr(error, "sqlstate", None) is None:
        error = error.__cause__
    return getattr(error, "sqlstate", None)


def is_too_slow(error: BaseException) -> bool:
    """Return whether the error says that a statement took longer than ``limit_queries`` allows."""
    return isinstance(error.__cause__, QueryCanceled)


def is_lock_timeout(error: BaseException) -> bool:
    """Return whether the error, or a cause of it, is a lock that was not granted within ``lock_timeout``."""
    return _sqlstate(error) == _LOCK_NOT_AVAILABLE


def read(query: Callable[[], Value]) -> Value:
    """Return the result of ``query``, which only reads. It runs once more if its connection was lost meanwhile.

    Each run has the time limit. Raises the database's errors.
    """
    try:
        with time_limit():
            return query()
    except UNAVAILABLE:
        if is_in_transaction():
            raise
        with time_limit():
            is_lost = connection.connection is not None and not connection.is_usable()
        if not is_lost:
            raise
        connection.close()
    with time_limit():
        return query()


def database_time() -> datetime:
    """Return the time by the database's clock: the one clock for spending windows, rate limits and expiries, on every host."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


class time_limit(Deadline):  # noqa: N801  a context manager
    """Raises OperationalError, and closes this thread's connection, when the block takes longer than TIME_LIMIT_SECONDS.

    Raises it at once while the database is known not to answer.
    """

    __slots__ = ("_is_slow",)

    def __init__(self) -> None:
        super().__init__(SLOW_SECONDS, _Late())
        self._is_slow = False

    def __enter__(self) -> None:
        process_circuit.require_closed()
        super().__enter__()

    def ring(self) -> None:
        """Let the database be probed when the block is slow, and end it at the limit."""
        if self._is_slow:
            super().ring()
            return
        self._is_slow = True
        self.at += TIME_LIMIT_SECONDS - SLOW_SECONDS
        self._ticker.alarms[self] = None
        process_circuit.suspect()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        super().__exit__(kind, error, traceback)
        if isinstance(error, OperationalError):
            process_circuit.suspect()
        if error is self._action:
            connection.close()
            raise OperationalError(f"the database did not answer within {TIME_LIMIT_SECONDS} seconds") from None


class _Late(BaseException):
    """The time limit has passed."""
