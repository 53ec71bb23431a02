"""Waits until what was committed is on disk, apart from the commit itself.

A commit that waits for the disk, or for a standby, keeps its rows locked meanwhile, and whoever needs them waits as well. So a
transaction commits without that wait, which lets go of its rows, and then its callers wait here. One flush serves all who came
before it began. PostgreSQL writes its log in the order of the commits: what is on disk depends on nothing that is not.
"""

from gateway_project.db import pool
from gateway_project.db.group_commit import GroupCommit, Unavailable
from gateway_project.db.pipelined_transaction import PipelinedConnection, Statement

# A message that nobody reads. It is in the log, so its commit waits for all of the log before.
_MESSAGE = Statement("SELECT to_json(pg_logical_emit_message(true, 'flush', '')::text)")
_connection = PipelinedConnection()


def wait_until_durable() -> None:
    """Return when all that this process has committed is on disk. Raises the database's errors, or WaitTimedOut.

    Does nothing inside a transaction of Django's, as in a test.
    """
    if not pool.is_in_transaction():
        _flushes.submit(None)


def _flush(waiting: list[None], is_rerun: bool) -> list[None | Exception]:
    try:
        _connection.run(lambda transaction: transaction.write_at_once(_MESSAGE), is_durable=True)
    except pool.DATABASE_ERRORS as error:
        raise Unavailable from error  # to all who wait: a flush of each alone would fail as well
    return [None] * len(waiting)


_flushes: GroupCommit[None, None] = GroupCommit(_flush)
