"""What was committed without waiting for the disk is on disk when the wait for it ends."""

import pytest
from django.db import OperationalError, connection, transaction

from gateway_project.db import durability
from gateway_project.db.group_commit import OutcomeUnknown
from gateway_project.db.pipelined_transaction import PipelinedConnection
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_is_refused():
    """Forget that a flush failed, before and after."""
    durability._flushes._all_refused_until = None
    yield
    durability._flushes._all_refused_until = None


FLUSHED = "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn"


def commit_what_is_not_on_disk():
    """Commit a row that is not on disk yet, and return where the log ends after it.

    PostgreSQL flushes by itself after a fifth of a second, and for each other session that commits: then once more.
    """
    ends = (commit_without_waiting(f"somebody-{number}@example.org") for number in range(100))
    return next(end for end in ends if not ask(FLUSHED, end))


def commit_without_waiting(email="somebody@example.org"):
    """Commit a row, and return where the log ends after it."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        factories.make_user(email)
        cursor.execute("RESET synchronous_commit; SELECT pg_current_wal_insert_lsn()")
        assert cursor.nextset()
        return cursor.fetchone()[0]


def ask(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()[0]


@pytest.fixture
def session():
    """The number of the session that flushes, opened anew."""
    durability._connection.close()
    return durability.open_session()


def test_what_was_committed_is_on_disk_after_the_wait(session):
    end = commit_what_is_not_on_disk()
    durability.wait_until_durable(session)
    assert ask(FLUSHED, end)


def test_a_flush_of_a_later_session_proves_nothing(session):
    """A crash of the server ends the session, and with it may go what was committed."""
    durability._connection.close()
    with pytest.raises(OperationalError, match="the connection was lost before the flush"):
        durability.wait_until_durable(session)
    durability.wait_until_durable(durability.session())


def test_a_flush_whose_answer_is_lost_proves_nothing_and_is_not_tried_again(session, monkeypatch):
    run, lost = PipelinedConnection.run, []

    def lose_once(self, work, **options):
        answer = run(self, work, **options)
        if lost:
            return answer
        lost.append(True)
        self.close()
        raise OutcomeUnknown from OperationalError("the connection was lost")

    monkeypatch.setattr(PipelinedConnection, "run", lose_once)
    with pytest.raises(OutcomeUnknown):
        durability.wait_until_durable(session)
    assert durability._connection.sessions == session


def test_without_a_session_nothing_is_proved(session):
    with pytest.raises(OperationalError):
        durability.wait_until_durable(None)


def test_nothing_is_waited_for_within_a_transaction(monkeypatch):
    monkeypatch.setattr(durability._flushes, "submit", pytest.fail)
    with transaction.atomic():
        durability.wait_until_durable(durability.open_session())


def test_who_waits_is_told_that_the_database_is_away(session, monkeypatch):
    def fail(*args, **options):
        raise OperationalError("the connection was lost")

    monkeypatch.setattr(PipelinedConnection, "run", fail)
    with pytest.raises(OperationalError):
        durability.wait_until_durable(session)
    durability._connection.close()
    assert durability.open_session() is None
