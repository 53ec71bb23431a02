"""What was committed without waiting for the disk is on disk when the wait for it ends."""

import pytest
from django.db import OperationalError, connection, transaction

from gateway_project.db import durability, pool
from gateway_project.db.group_commit import OutcomeUnknown
from gateway_project.db.pipelined_transaction import PipelinedConnection
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

FLUSHED = "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn"


def commit_without_waiting():
    """Commit a row, and return where the log ends after it."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        factories.make_user("somebody@example.org")
        cursor.execute("RESET synchronous_commit; SELECT pg_current_wal_insert_lsn()")
        assert cursor.nextset()
        return cursor.fetchone()[0]


def ask(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()[0]


def test_what_was_committed_is_on_disk_after_the_wait():
    end = commit_without_waiting()
    assert not ask(FLUSHED, end)  # PostgreSQL writes by itself after a fifth of a second
    durability.wait_until_durable()
    assert ask(FLUSHED, end)


def test_nothing_is_waited_for_within_a_transaction(monkeypatch):
    monkeypatch.setattr(durability._flushes, "submit", pytest.fail)
    with transaction.atomic():
        durability.wait_until_durable()


@pytest.mark.parametrize("error", [OperationalError("the connection was lost"), OutcomeUnknown("the connection was lost")])
def test_who_waits_is_told_that_the_database_is_away(monkeypatch, error):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(PipelinedConnection, "run", fail)
    with pytest.raises((*pool.DATABASE_ERRORS, OutcomeUnknown)):
        durability.wait_until_durable()
    monkeypatch.undo()
    durability._flushes._all_refused_until = None
    durability.wait_until_durable()
