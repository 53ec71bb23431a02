"""LEAF. Short transactions in two round trips: begin, lock and read; then write and commit.

Every statement takes one JSON parameter and gives JSON rows: whatever the size of a batch, it is read and written in C, by
the server and by us. Statements go out together in libpq's pipeline mode, prepared once a connection, and their answers are
waited for once (docs/decisions/0015 and 0023 say why).
"""

import atexit
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import cache
from typing import Any, ClassVar, NamedTuple
from uuid import UUID
from weakref import WeakSet

import gevent
import msgspec
import psycopg
from django.db import connection, models, transaction
from django.db.models.base import ModelState
from gevent.socket import wait_read
from psycopg import pq

from gateway_project import compact_json
from gateway_project.db import pool
from gateway_project.db.group_commit import Lost


class Statement(NamedTuple):
    """SQL, in which ``$1`` stands for what is given, as JSON. Its rows have one column, of JSON."""

    sql: str
    given: Any = None


# A batch reaches every row by its key, whatever the statistics of a table that was empty this morning say.
_SESSION = (
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;"
    " SET enable_mergejoin = off; SET jit = off; SET TIME ZONE 'UTC'"
)
_BEGIN, _COMMIT, _ROLLBACK = Statement("BEGIN"), Statement("COMMIT"), Statement("ROLLBACK")
_READ_OR_WRITE = 3  # events of libev and libuv
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)

# Asked last, when all locks are granted. A statement of its own costs more than what it says: so this also says whether COMMIT
# waits for the disk.
_CLOCK = Statement("SELECT to_json(statement_timestamp())")
_CLOCK_OF_WHAT_MAY_BE_LOST = Statement(
    "SELECT to_json(statement_timestamp()) FROM set_config('synchronous_commit', 'off', true)"
)

# Integers of any size are read exactly, as sums of bigint may be.
_decode = msgspec.json.Decoder().decode


# --- Rows and objects --------------------------------------------------------------------------------------------


def rows(model: type[models.Model], ids: Collection[Any]) -> Statement:
    """The rows with these ids, in the order of their ids, locked until the transaction ends. ``made`` makes objects of them."""
    return Statement(_locked_rows(model), list(ids))


@cache
def _locked_rows(model: type[models.Model]) -> str:
    columns = ", ".join(str(field.column) for field in model._meta.concrete_fields)
    table, key = model._meta.db_table, model._meta.pk
    # Names of our own models; the ids are a parameter.
    return (
        f"SELECT row_to_json(found) FROM (SELECT {columns} FROM {table} WHERE {key.column} ="  # noqa: S608
        f" ANY (ARRAY(SELECT json_array_elements_text($1::json))::{key.db_type(connection)}[])"
        f" ORDER BY {key.column} FOR NO KEY UPDATE) AS found"
    )


def made(model: type[models.Model], found: list[dict[str, Any]]) -> dict[Any, Any]:
    """Objects by primary key, of the rows that ``rows`` found."""
    objects = [_made(model, row) for row in found]
    return {each.pk: each for each in objects}


def _made(model: type[models.Model], row: dict[str, Any]) -> models.Model:
    # As unpickling makes one, of the row itself: Model.__init__ takes five times as long, for the sake of fields left out.
    made = model.__new__(model)
    for name, read in _readers(model):
        if row[name] is not None:
            row[name] = read(row[name])
    made.__dict__.update(row)
    made._state = ModelState()
    made._state.adding, made._state.db = False, "default"
    return made


@cache
def _readers(model: type[models.Model]) -> list[tuple[str, Callable[[str], Any]]]:
    """The fields, which are named as their columns are, that JSON has no type for, and how they are read."""
    fields = model._meta.concrete_fields
    assert all(field.attname == field.column for field in fields)
    kinds = [(field.attname, getattr(field, "target_field", field).get_internal_type()) for field in fields]
    return [(name, _READERS[kind]) for name, kind in kinds if kind in _READERS]


_READERS: dict[str, Callable[[str], Any]] = {
    "UUIDField": UUID,
    "DateTimeField": datetime.fromisoformat,
    "DateField": date.fromisoformat,
}


# --- In Django's own transaction ---------------------------------------------------------------------------------


def execute(statement: Statement) -> list[Any]:
    """Run a statement in Django's own transaction; its rows."""
    with connection.cursor() as cursor:
        given = None if statement.given is None else [compact_json.dumps(statement.given).decode()]
        cursor.execute(statement.sql.replace("$1", "%s"), given)
        return [row for (row,) in cursor.fetchall()] if cursor.description else []


# --- In a transaction of two steps -------------------------------------------------------------------------------


class TwoStepConnection:
    """A connection for transactions of two steps.

    It is kept open, outside the pool of the requests, and used by one at a time, which the caller (a group commit) sees to.
    Inside a transaction of Django's - a test - it steps aside, and the two steps run there, within a savepoint.
    """

    _all: ClassVar[WeakSet["TwoStepConnection"]] = WeakSet()

    def __init__(self) -> None:
        self._pipeline: _Pipeline | None = None
        self._pid = 0
        self._all.add(self)

    @contextmanager
    def transaction(self, *, is_durable: bool) -> Iterator["TwoSteps"]:
        """Rolled back unless ``TwoSteps.write`` committed it. Raises Lost when nobody knows whether it was.

        What is not durable, a crash of the database may forget: nobody waits for the disk.
        """
        if pool.is_in_transaction():
            with transaction.atomic():
                yield _StepsWithin()
            return
        pipeline = self._opened()
        steps = TwoSteps(pipeline, is_durable=is_durable)
        try:
            with pool.patience(), pipeline.wrap_database_errors:
                yield steps
                steps.end()
        except BaseException as error:
            # Also after an error that the connection survives: what it believes to be prepared may not be.
            is_lost = pipeline.is_broken or (steps.is_commit_sent and not _is_said_by_the_server(error))
            self.close()
            if is_lost and isinstance(error, Exception):
                raise Lost from error
            raise

    def _opened(self) -> "_Pipeline":
        if self._pipeline is None or self._pid != os.getpid():
            with pool.patience(), connection.wrap_database_errors:
                self._pipeline = _Pipeline()
            self._pid = os.getpid()
        return self._pipeline

    def close(self) -> None:
        """The next transaction opens a new one."""
        if self._pipeline is not None and self._pid == os.getpid():
            self._pipeline.close()
        self._pipeline = None

    @classmethod
    def close_all(cls) -> None:
        """At the end of the process, or of the database."""
        for each in cls._all:
            each.close()


atexit.register(TwoStepConnection.close_all)


class TwoSteps:
    """One transaction: ``read`` once, then ``write`` once or not at all."""

    def __init__(self, pipeline: "_Pipeline", *, is_durable: bool) -> None:
        self._pipeline = pipeline
        self._clock = _CLOCK if is_durable else _CLOCK_OF_WHAT_MAY_BE_LOST
        self.is_commit_sent = False

    def read(self, *statements: Statement | None) -> tuple[datetime, list[list[Any]]]:
        """Begin: the time, and the rows of each statement; none where there is nothing to ask.

        Each sees what was committed when the locks before it were granted; it is the time when all of them were.
        """
        *answers, [now] = self._begin([*filter(None, statements), self._clock])
        answer = iter(answers)
        return datetime.fromisoformat(now), [next(answer) if statement else [] for statement in statements]

    def write(self, statements: Sequence[Statement]) -> None:
        """Write and commit."""
        self.is_commit_sent = True
        self._pipeline.run([*statements, _COMMIT])

    def end(self) -> None:
        """Nothing was written after all."""
        if not self.is_commit_sent:
            self._pipeline.run([_ROLLBACK])

    def _begin(self, statements: Sequence[Statement]) -> list[list[Any]]:
        return self._pipeline.run([_BEGIN, *statements])[1:]


class _StepsWithin(TwoSteps):
    """The same two steps within a transaction of Django's."""

    def __init__(self) -> None:
        self._clock = _CLOCK

    def write(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            execute(statement)

    def _begin(self, statements: Sequence[Statement]) -> list[list[Any]]:
        return [execute(statement) for statement in statements]


class _Pipeline:
    """A connection in libpq's pipeline mode. Any error leaves it unusable: close it."""

    def __init__(self) -> None:
        self._connection = psycopg.connect(**_parameters(), autocommit=True)
        self._connection.execute(_SESSION)
        self._libpq = self._connection.pgconn
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._names: dict[str, bytes] = {}  # of prepared statements
        self.wrap_database_errors = connection.wrap_database_errors  # of who opened it: to ask for a thread's own makes one

    @property
    def is_broken(self) -> bool:
        """Whether the connection is gone, so that nobody knows what became of a COMMIT."""
        return self._libpq.status == pq.ConnStatus.BAD

    def close(self) -> None:
        self._connection.close()

    def run(self, statements: Sequence[Statement]) -> list[list[Any]]:
        """Send all, wait once, and the rows of each. Raises psycopg's errors."""
        answers = [self._send(statement) for statement in statements]
        self._libpq.pipeline_sync()
        while self._libpq.flush():
            self._wait_until_writable()
        found = [self._rows(is_prepared) for is_prepared in answers]
        self._result()  # of the sync
        return found

    def _send(self, statement: Statement) -> bool:
        """Returns whether the statement was prepared before: if not, there is one more result to come."""
        name = self._names.get(statement.sql)
        is_prepared = name is not None
        if name is None:
            name = self._names[statement.sql] = b"statement_%d" % len(self._names)
            self._libpq.send_prepare(name, statement.sql.encode())
        given = None if statement.given is None else [compact_json.dumps(statement.given)]
        self._libpq.send_query_prepared(name, given)
        return is_prepared

    def _rows(self, is_prepared: bool) -> list[Any]:
        if not is_prepared:
            self._finished()
        result = self._finished()
        return [_decode(result.get_value(row, 0) or b"null") for row in range(result.ntuples)]

    def _finished(self) -> pq.abc.PGresult:
        result = self._result()
        if result is None or result.status not in _DONE:
            raise _error(result)
        self._result()  # None, which ends every statement
        return result

    def _result(self) -> pq.abc.PGresult | None:
        while self._libpq.is_busy():
            wait_read(self._libpq.socket)
            self._libpq.consume_input()
        return self._libpq.get_result()

    def _wait_until_writable(self) -> None:
        # ... or readable: the server may be waiting for us to read before it reads on.
        hub = gevent.get_hub()
        hub.wait(hub.loop.io(self._libpq.socket, _READ_OR_WRITE))
        self._libpq.consume_input()


def _parameters() -> dict[str, Any]:
    """What Django connects with, without what only its own connections understand."""
    parameters = connection.get_connection_params()
    return {
        name: value
        for name, value in parameters.items()
        if name not in {"context", "cursor_factory", "pool", "prepare_threshold"}
    }


def _is_said_by_the_server(error: BaseException) -> bool:
    """Whether it is an answer, and not an alarm of ours while we waited for one. Django keeps psycopg's error as the cause."""
    return getattr(error.__cause__, "sqlstate", None) is not None


def _error(result: pq.abc.PGresult | None) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the connection was lost")
    message = result.error_message.decode(errors="replace").strip()
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    try:
        return psycopg.errors.lookup(state)(message)
    except KeyError:
        return psycopg.DatabaseError(message)
