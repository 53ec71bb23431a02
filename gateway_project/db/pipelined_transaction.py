"""Short transactions in two round trips: begin, lock and read; then write and commit.

Every statement takes one JSON parameter and returns JSON rows. So a batch of any size is encoded and decoded in C, by the
server and by this process. The statements of a round trip are sent together in libpq's pipeline mode, and their results are
waited for once. Each connection prepares a statement once (docs/decisions/0023 says why).
"""

import atexit
import os
from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime
from functools import cache
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import gevent
import msgspec
import psycopg
from django.db import connection, models, transaction
from django.db.models.base import ModelState
from gevent.socket import wait_read
from psycopg import pq

from gateway_project import identifiers
from gateway_project.db import cell, direct_connections, pool
from gateway_project.db.circuit_breaker import process_circuit
from gateway_project.db.group_commit import OutcomeUnknown
from gateway_project.text import compact_json

Result = TypeVar("Result")


class Statement(msgspec.Struct, frozen=True):
    """SQL with at most one parameter, ``$1``, which is sent as JSON. Each result row has one column, of JSON."""

    sql: str
    parameter: Any = None


# A batch finds every row by its key. Without these settings the statistics of a table that was empty until lately can make the
# planner choose a sequential scan. Citus cannot route a generic plan: it looks at the parameters of each call.
_SESSION = (
    "SELECT set_config('plan_cache_mode', CASE WHEN EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
    " THEN 'auto' ELSE 'force_generic_plan' END, false); SET enable_seqscan = off; SET enable_hashjoin = off;"
    " SET enable_mergejoin = off; SET jit = off; SET TIME ZONE 'UTC'"
)
_BEGIN, _COMMIT, _ROLLBACK = Statement("BEGIN"), Statement("COMMIT"), Statement("ROLLBACK")
_READ_OR_WRITE = 3  # events of libev and libuv
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_SEVERITY = pq.DiagnosticField.SEVERITY_NONLOCALIZED
_ENDING = (b"FATAL", b"PANIC")  # the server closes the connection, as it does when it restarts (57P01 and others)

# The clock is read last, when all locks are granted. A statement costs more than the work it does, so the same statement also
# sets whether COMMIT waits for the disk.
_CLOCK = Statement("SELECT to_json(statement_timestamp())")
_CLOCK_NOT_DURABLE = Statement("SELECT to_json(statement_timestamp()) FROM set_config('synchronous_commit', 'off', true)")

# Reads integers of any size exactly: a sum of bigint may need more than 64 bits.
_decode = msgspec.json.Decoder().decode


# --- Rows and model instances ------------------------------------------------------------------------------------


def lock_rows_statement(model: type[models.Model], ids: Collection[Any], *, skips_locked: bool = False) -> Statement:
    """SQL that selects rows in id order and locks them, for ``instances``. It waits for locked rows, or leaves them out."""
    return Statement(_select_rows_sql(model, f"FOR NO KEY UPDATE {'SKIP LOCKED' if skips_locked else ''}"), list(ids))


def select_rows_statement(model: type[models.Model], ids: Collection[Any]) -> Statement:
    """The same without locks."""
    return Statement(_select_rows_sql(model, ""), list(ids))


@cache
def _select_rows_sql(model: type[models.Model], lock: str) -> str:
    columns = ", ".join(str(field.column) for field in model._meta.concrete_fields)
    table, key = model._meta.db_table, model._meta.pk
    # Only names of our own models are put into the SQL; the ids are a parameter.
    return (
        f"SELECT row_to_json(found) FROM (SELECT {columns} FROM {table} WHERE {key.column} ="  # noqa: S608
        f" ANY (ARRAY(SELECT json_array_elements_text($1::json))::{key.db_type(connection)}[])"
        f" ORDER BY {key.column} {lock}) AS found"
    )


def instances(model: type[models.Model], rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """Return model instances by primary key, for rows that one of the statements above selected."""
    found, key = {}, model._meta.pk.attname
    for row in rows:
        # Built as unpickling does, from the row: Model.__init__ takes five times as long, as it supports deferred fields.
        instance = model.__new__(model)
        for name, parse in _parsers(model):
            if row[name] is not None:
                row[name] = parse(row[name])
        instance.__dict__.update(row)
        instance._state = ModelState()
        instance._state.adding, instance._state.db = False, "default"
        found[row[key]] = instance
    return found


@cache
def _parsers(model: type[models.Model]) -> list[tuple[str, Callable[[str], Any]]]:
    """Return the names and parsers of the fields that JSON has no type for. A field must be named like its column."""
    fields = model._meta.concrete_fields
    assert all(field.attname == field.column for field in fields)
    kinds = [(field.attname, getattr(field, "target_field", field).get_internal_type()) for field in fields]
    return [(name, _PARSERS[kind]) for name, kind in kinds if kind in _PARSERS]


_PARSERS: dict[str, Callable[[str], Any]] = {
    "UUIDField": identifiers.parse_uuid,
    "DateTimeField": datetime.fromisoformat,
    "DateField": date.fromisoformat,
}


# --- In Django's own transaction ---------------------------------------------------------------------------------


def execute(statement: Statement) -> list[Any]:
    """Run a statement in Django's own transaction, and return its rows."""
    with connection.cursor() as cursor:
        sql, parameters = statement.sql.replace("$1", "%s"), None
        if statement.parameter is not None:
            parameters = [compact_json.dumps(statement.parameter).decode()] * sql.count("%s")
        cursor.execute(sql, parameters)
        return [row for (row,) in cursor.fetchall()] if cursor.description else []


def within_django() -> "PipelinedTransaction":
    """Return a transaction whose statements run one by one on Django's own connection, in Django's transaction."""
    return PipelinedTransaction(_NestedPipeline(), is_durable=True)


# --- In a pipelined transaction ----------------------------------------------------------------------------------


class PipelinedConnection:
    """A connection that stays open, apart from the request pool. Its caller, a group commit, runs one transaction at a time.

    Inside a transaction of Django's, as in a test, the statements run there instead, within a savepoint.
    """

    _all: ClassVar[WeakSet["PipelinedConnection"]] = WeakSet()

    def __init__(self, cell_number: int = cell.FIRST) -> None:
        self._cell_number = cell_number
        self._pipeline: _Pipeline | None = None
        self._pid = 0
        self.sessions = 0  # opened so far
        self._all.add(self)

    def run(self, work: Callable[["PipelinedTransaction"], Result], *, is_durable: bool) -> Result:
        """Return the result of ``work`` in a transaction that is rolled back unless ``work`` writes.

        A crash of the database may lose a transaction that is not durable: its COMMIT does not wait for the disk. Raises
        OutcomeUnknown when the connection breaks after COMMIT was sent.
        """
        if pool.is_in_transaction():
            with cell.use(self._cell_number), transaction.atomic():
                return work(within_django())
        pipeline = self._open()
        pipelined = PipelinedTransaction(pipeline, is_durable=is_durable)
        try:
            with pool.time_limit(), pipeline.wrap_database_errors:
                result = work(pipelined)
                pipelined.end()
                return result
        except BaseException as error:
            is_unknown = pipeline.is_broken or (pipelined.is_commit_sent and not _is_from_server(error))
            # Closed even after an error that the connection survives: statements it counts as prepared may not be.
            self.close()
            if is_unknown and isinstance(error, Exception):
                raise OutcomeUnknown("the connection was lost during the commit") from error
            raise

    def _open(self) -> "_Pipeline":
        if self._pipeline and self._pid == os.getpid() and self._pipeline.has_ended():
            self.close()
        if self._pipeline is None or self._pid != os.getpid():
            with pool.time_limit(), connection.wrap_database_errors:
                self._pipeline = _Pipeline(self._cell_number)
            self._pid = os.getpid()
            self.sessions += 1
        return self._pipeline

    @property
    def is_open(self) -> bool:
        """Whether this process has opened it. The server may have ended it since."""
        return self._pipeline is not None and self._pid == os.getpid()

    def close(self) -> None:
        """Close the connection; the next transaction opens a new one."""
        if self._pipeline is not None and self._pid == os.getpid():
            self._pipeline.close()
        self._pipeline = None

    @classmethod
    def close_all(cls) -> None:
        """Close the connections of this process, before it or the database ends."""
        for pipelined_connection in cls._all:
            pipelined_connection.close()


atexit.register(PipelinedConnection.close_all)


class PipelinedTransaction:
    """One transaction: call ``read`` and then perhaps ``write``, each once, or ``write_at_once``."""

    def __init__(self, pipeline: "_Pipeline | _NestedPipeline", *, is_durable: bool) -> None:
        self._pipeline = pipeline
        self._clock = _CLOCK if is_durable else _CLOCK_NOT_DURABLE
        self.is_commit_sent = False

    def read(self, *statements: Statement | None) -> tuple[datetime, list[list[Any]]]:
        """Begin, and return the database's time and the rows of each statement; a statement that is None has no rows.

        A statement sees what was committed when the locks before it were granted. The time is read last.
        """
        _, *results, [now] = self._pipeline.run([_BEGIN, *filter(None, statements), self._clock])
        remaining = iter(results)
        return datetime.fromisoformat(now), [next(remaining) if statement else [] for statement in statements]

    def read_more(self, statement: Statement) -> list[Any]:
        """Return the rows of a statement that only what was read shows to be needed."""
        [rows] = self._pipeline.run([statement])
        return rows

    def write(self, statements: Sequence[Statement]) -> None:
        self.is_commit_sent = True
        self._pipeline.run([*statements, _COMMIT])

    def write_at_once(self, statement: Statement) -> None:
        """Begin, write and commit in one round trip, instead of ``read`` and ``write``."""
        self.is_commit_sent = True
        self._pipeline.run([_BEGIN, statement, _COMMIT])

    def end(self) -> None:
        """Roll back, unless ``write`` was called."""
        if not self.is_commit_sent:
            self._pipeline.run([_ROLLBACK])


class _NestedPipeline:
    """Runs statements one by one on Django's own connection, within Django's transaction, which has begun."""

    def run(self, statements: Sequence[Statement]) -> list[list[Any]]:
        ends = (_BEGIN, _COMMIT, _ROLLBACK)
        return [[] if statement in ends else execute(statement) for statement in statements]


class _Pipeline:
    """A connection in libpq's pipeline mode. After any error it is unusable and must be closed."""

    def __init__(self, cell_number: int) -> None:
        with process_circuit.statement():
            self._connection = direct_connections.connect()
        self._counted = process_circuit.statement(self._connection)
        session = f"{direct_connections.session_sql('BATCH_SESSION')}; {_SESSION}; {cell.search_path_sql(cell_number)}"
        with self._counted:
            self._connection.execute(session.encode())
        self._libpq = self._connection.pgconn
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._names: dict[str, bytes] = {}  # of prepared statements
        self._is_ended_by_server = False
        # Of the thread that opened it: reading the attribute in another thread would make a connection object there.
        self.wrap_database_errors = connection.wrap_database_errors

    @property
    def is_broken(self) -> bool:
        """True when the connection is lost, so that the outcome of a COMMIT is unknown."""
        return self._is_ended_by_server or self._libpq.status == pq.ConnStatus.BAD

    def has_ended(self) -> bool:
        """Return whether the connection was lost since the last transaction."""
        return self._libpq.status == pq.ConnStatus.BAD or direct_connections.has_ended(self._libpq.socket)

    def close(self) -> None:
        self._connection.close()

    def run(self, statements: Sequence[Statement]) -> list[list[Any]]:
        """Send all statements, wait once, and return the rows of each. Raises psycopg's errors."""
        with self._counted:
            sent = self._send(statements)
            self._libpq.pipeline_sync()
            while self._libpq.flush():
                hub = gevent.get_hub()  # also wait for readable: the server may stop reading until its output is read
                hub.wait(hub.loop.io(self._libpq.socket, _READ_OR_WRITE))
                self._libpq.consume_input()
            results = self._read(sent)
            if self._libpq.is_busy():
                self._wait_for_result()
            self._libpq.get_result()  # of the sync
            return results

    def _send(self, statements: Sequence[Statement]) -> list[bool]:
        """Send the statements, each prepared once. Return for each result that will come whether it has a statement's rows."""
        sent = []
        for statement in statements:
            name = self._names.get(statement.sql)
            if name is None:
                name = self._names[statement.sql] = b"statement_%d" % len(self._names)
                self._libpq.send_prepare(name, statement.sql.encode())
                sent.append(False)
            parameter = None if statement.parameter is None else [compact_json.dumps(statement.parameter)]
            self._libpq.send_query_prepared(name, parameter)
            sent.append(True)
        return sent

    def _read(self, sent: list[bool]) -> list[list[Any]]:
        """Return the rows of each statement."""
        libpq, rows = self._libpq, []
        for has_rows in sent:
            if libpq.is_busy():  # asked before each call: most results have arrived with the first
                self._wait_for_result()
            result = libpq.get_result()
            if result is None or result.status not in _DONE:
                self._is_ended_by_server = result is not None and result.error_field(_SEVERITY) in _ENDING
                raise _error(result)
            if libpq.is_busy():
                self._wait_for_result()
            libpq.get_result()  # None: it follows the last result of everything that was sent
            if has_rows:
                rows.append([_decode(result.get_value(row, 0) or b"null") for row in range(result.ntuples)])
        return rows

    def _wait_for_result(self) -> None:
        while self._libpq.is_busy():
            wait_read(self._libpq.socket)
            self._libpq.consume_input()


class NotPermitted(psycopg.OperationalError):
    """Our role may not do what it must: a settlement waits for its rights, as for a database that is unavailable."""

    sqlstate = psycopg.errors.InsufficientPrivilege.sqlstate


def _is_from_server(error: BaseException) -> bool:
    """Return whether the server said that nothing is committed, which an internal error of Citus does not."""
    return getattr(error.__cause__, "sqlstate", None) not in (None, psycopg.errors.InternalError_.sqlstate)


def _error(result: pq.abc.PGresult | None) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the connection was lost")
    message = result.error_message.decode(errors="replace").strip()
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    if state == NotPermitted.sqlstate:
        return NotPermitted(message)
    try:
        return psycopg.errors.lookup(state)(message)
    except KeyError:
        return psycopg.DatabaseError(message)
