"""LEAF. PostgreSQL: how DATABASE_URL becomes Django's configuration, and the short transactions money moves in."""

import atexit
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

import gevent
import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection, models, transaction
from psycopg.conninfo import conninfo_to_dict

from gateway_project.group_commit import Lost

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
    if not connection.in_atomic_block:
        connection.close()


def now() -> datetime:
    """The database's clock: the one clock of windows, rates and expiries, whichever host asks."""
    with connection.cursor() as cursor:
        cursor.execute(*CLOCK)
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


# --- Transactions in two round trips -----------------------------------------------------------------------------


class Statement(NamedTuple):
    """SQL and its parameters."""

    sql: str
    params: tuple[Any, ...] = ()


def rows(model: type[models.Model], ids: Collection[Any]) -> Statement:
    """The rows with these ids, in the order of their ids, locked until the transaction ends. ``made`` makes objects of them."""
    columns = ", ".join(str(field.column) for field in model._meta.concrete_fields)
    table, key = model._meta.db_table, model._meta.pk.column
    # Names of our own models; the ids are a parameter.
    sql = f"SELECT {columns} FROM {table} WHERE {key} = ANY(%s) ORDER BY {key} FOR NO KEY UPDATE"  # noqa: S608
    return Statement(sql, (list(ids),))


def made(model: type[models.Model], found: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """Objects by primary key, of the rows that ``rows`` found."""
    names = [field.attname for field in model._meta.concrete_fields]
    objects = (model.from_db("default", names, row) for row in found)
    return {made.pk: made for made in objects}


CLOCK = Statement("SELECT statement_timestamp()")


def execute(statement: Statement) -> None:
    """Run a statement in Django's own transaction."""
    with connection.cursor() as cursor:
        cursor.execute(*statement)


class TwoStepConnection:
    """A connection for transactions of two steps, one round trip each: begin, lock and read; then write and commit.

    It is kept open, outside the pool of the requests, and used by one at a time, which the caller (a group commit) sees to.
    Inside a transaction of Django's - a test - it steps aside, and the two steps run there, within a savepoint.
    """

    _all: ClassVar[WeakSet["TwoStepConnection"]] = WeakSet()

    def __init__(self, *, synchronous_commit: bool) -> None:
        self._synchronous_commit = "on" if synchronous_commit else "off"
        self._connection: psycopg.Connection[Any] | None = None
        self._pid = 0
        self._all.add(self)

    @contextmanager
    def transaction(self) -> Iterator["TwoSteps"]:
        """Rolled back unless ``TwoSteps.write`` committed it. Raises Lost when the connection broke under it."""
        if connection.in_atomic_block:
            with transaction.atomic():
                yield _StepsWithin(connection)
            return
        with patience():
            steps = TwoSteps(self._opened())
        try:
            with patience(), connection.wrap_database_errors:
                yield steps
                steps.end()
        except BaseException as error:
            # Also after an error that the connection survives: what it believes to be prepared may not be.
            is_lost = steps.is_broken
            self.close()
            if is_lost:
                raise Lost from error
            raise

    def _opened(self) -> "psycopg.Connection[Any]":
        if self._connection is None or self._pid != os.getpid():
            with connection.wrap_database_errors:
                self._connection = psycopg.connect(**connection_parameters(), autocommit=True)
                self._connection.execute(f"SET synchronous_commit = {self._synchronous_commit}")
                self._connection.execute("SET TIME ZONE 'UTC'")
            self._pid = os.getpid()
        return self._connection

    def close(self) -> None:
        """The next transaction opens a new one."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None

    @classmethod
    def close_all(cls) -> None:
        """At the end of the process, or of the database."""
        for each in cls._all:
            each.close()


atexit.register(TwoStepConnection.close_all)


def connection_parameters() -> dict[str, Any]:
    """What Django connects with, without what only its own connections understand."""
    parameters = connection.get_connection_params()
    return {
        name: value
        for name, value in parameters.items()
        if name not in {"context", "cursor_factory", "pool", "prepare_threshold"}
    }


class TwoSteps:
    """One transaction: ``read`` once, then ``write`` once or not at all."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_ended = False

    @property
    def is_broken(self) -> bool:
        """Whether the connection is gone, so that nobody knows what became of a COMMIT."""
        return bool(self._connection.broken)

    def read(self, *statements: Statement | None) -> list[list[tuple[Any, ...]]]:
        """Begin, and the rows of each statement; none where there is nothing to ask.

        Each sees what was committed when the locks before it were granted.
        """
        with self._connection.pipeline():
            self._connection.execute("BEGIN")
            cursors = [self._connection.execute(*statement) if statement else None for statement in statements]
        return [cursor.fetchall() if cursor else [] for cursor in cursors]

    def write(self, *statements: Statement) -> None:
        """Write and commit."""
        with self._connection.pipeline():
            for statement in statements:
                self._connection.execute(*statement)
            self._connection.execute("COMMIT")
        self._is_ended = True

    def end(self) -> None:
        """Nothing was written after all."""
        if not self._is_ended:
            self._connection.execute("ROLLBACK")


class _StepsWithin(TwoSteps):
    """The same two steps within a transaction of Django's."""

    def read(self, *statements: Statement | None) -> list[list[tuple[Any, ...]]]:
        return [self._rows(statement) if statement else [] for statement in statements]

    def _rows(self, statement: Statement) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(*statement)
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def write(self, *statements: Statement) -> None:
        for statement in statements:
            execute(statement)
