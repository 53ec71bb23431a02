"""Waits until a commit is on disk, apart from the commit itself.

A commit that waits for the disk, or for a standby, keeps its rows locked meanwhile. So a transaction commits without that wait,
and then its callers wait here. One flush serves all callers who came before it began. PostgreSQL writes its log in the order of
the commits, so a commit on disk never depends on one that is not.

A server that crashed, or a standby that was promoted, may have lost commits, and can still flush. So a caller takes the number
of the flushing session before it commits. A crash ends all sessions, and a flush in another session proves nothing about the
commit: the caller gets an error.
"""

from contextlib import suppress
from operator import methodcaller

from django.db import OperationalError

from gateway_project.db import pool
from gateway_project.db.group_commit import GroupCommit, OutcomeUnknown, Unavailable, WaitTimedOut
from gateway_project.db.pipelined_transaction import PipelinedConnection, PipelinedTransaction, Statement

# A message that no process reads. It is in the log, so its commit waits for all of the log before.
_MESSAGE = Statement("SELECT to_json(pg_logical_emit_message(true, 'flush', '')::text)")
_write_message = methodcaller("write_at_once", _MESSAGE)  # of a PipelinedTransaction
_ANY_SESSION = 0
_connection = PipelinedConnection()
# Not empty: a transaction would have used a session, and there was none. A transaction opens none itself: others wait for it.
wanted: set[str] = set()


def session() -> int | None:
    """Return the number of the session that flushes, or None if it is not open. Never waits."""
    return _connection.sessions if _connection.is_open else None


def open_session() -> int | None:
    """Return the number of the session, opened now if it is not. None if that fails, or inside a transaction of Django's."""
    wanted.clear()
    if not _connection.is_open and not pool.is_in_transaction():
        with suppress(*pool.DATABASE_ERRORS, WaitTimedOut):
            _flushes.submit(_ANY_SESSION)
    return session()


def wait_until_durable(number: int | None) -> None:
    """Return when all that this process has committed, or read, since it took the number of the session is on disk.

    Raises OperationalError if that cannot be known, the database's other errors, or WaitTimedOut. Does nothing inside a
    transaction of Django's, as in a test.
    """
    if not pool.is_in_transaction():
        _flushes.submit(number)


def _flush(numbers: list[int | None], is_rerun: bool) -> list[None | Exception]:
    only_opens = all(number == _ANY_SESSION for number in numbers)
    try:
        _connection.run(PipelinedTransaction.read if only_opens else _write_message, is_durable=True)
    except (*pool.DATABASE_ERRORS, OutcomeUnknown) as error:
        raise Unavailable from error  # to all who wait: a flush of each alone would fail as well
    flushed = (_ANY_SESSION, _connection.sessions)
    return [None if number in flushed else OperationalError("the connection was lost before the flush") for number in numbers]


_flushes: GroupCommit[int | None, None] = GroupCommit(_flush)
