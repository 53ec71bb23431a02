"""The journal of charges: what a failover to a standby has lost is found, and charged again or counted."""

import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import psycopg
import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection, transaction

from billing.models import LedgerEntry
from completions import tasks
from completions.charging.recovery import drains, file_lock, journal, outbox
from completions.charging.recovery.drains import Outcome
from completions.charging.recovery.journal import Found
from completions.models import Completion
from completions.pricing.usage import Usage
from gateway_project.db import cell
from tests import factories
from tests.completions import settlements
from tests.completions.admitted import admit
from tests.completions.rows import assert_charged, lost_nanos
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent

CHARGED: dict[str, Any] = {"prompt": 10, "completion": 10, "nanos": 20_000, "model": "demo/echo"}


@pytest.fixture(autouse=True)
def _journal(settings, tmp_path, monkeypatch, echo_model):
    settings.OUTBOX_DIR, settings.SETTLEMENT_JOURNAL_MINUTES = tmp_path / "outbox", 5
    monkeypatch.setattr(journal, "_open", None)
    yield
    if journal._open:
        journal._open[1].close()


@pytest.fixture
def key(alice):
    return factories.make_key(alice)[0]


def settle(admitted):
    assert settlements.settle(admitted, Usage(10, 10), Completion.Settlement.REPORTED) == 20_000


@contextmanager
def lost_in_a_failover() -> Iterator[None]:
    """Take back what the block commits, as a standby that lacks it."""
    savepoint = transaction.savepoint()
    yield
    transaction.savepoint_rollback(savepoint)


def replay():
    printed = io.StringIO()
    call_command("replay_journal", "--json", stdout=printed, stderr=io.StringIO())
    return json.loads(printed.getvalue())


@fault(
    "Database",
    "A standby that lacks the last charges is promoted",
    "Hosts with journals charge them again",
)
def test_a_charge_that_a_failover_lost_is_charged_again(alice, key):
    kept, lost = admit(key), admit(key)
    settle(kept)
    with lost_in_a_failover():
        settle(lost)
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1
    assert replay() == {"settled": 1, "lost": 1, "deadLetters": 0}
    assert drains.drain() == {Outcome.RESOLVED: 1}
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (10_000_000_000 - 2 * 20_000, 0)
    assert_ledger_is_consistent()
    assert replay() == {"settled": 2, "lost": 0, "deadLetters": 0}


def test_a_correction_that_a_failover_lost_is_booked_again(alice, key):
    admitted = admit(key)
    assert settlements.recover(Completion.objects.get(), 4)
    with lost_in_a_failover():
        settlements.settle(admitted, Usage(10, 10), Completion.Settlement.REPORTED)
        assert Completion.objects.filter(settlement="corrected").count() == 1
    for lost in (1, 0):
        assert replay()["lost"] == lost
        drains.drain()
    assert Completion.objects.filter(settlement="corrected").count() == 1
    alice.refresh_from_db()
    assert alice.balance_nanos == 10_000_000_000 - CHARGED["nanos"]
    assert_ledger_is_consistent()


def test_a_charge_whose_admission_was_lost_too_is_admitted_again_and_charged_once(alice, key):
    before_nanos = lost_nanos()
    with lost_in_a_failover():
        settle(admit(key))
    for found in ({"settled": 0, "lost": 1, "deadLetters": 0}, {"settled": 1, "lost": 0, "deadLetters": 0}):
        assert replay() == found
        drains.drain()
    assert (outbox.dead_letters(), lost_nanos()) == ([], before_nanos)
    assert_charged(alice, "reported", **CHARGED)


def test_a_dead_letter_is_given_back_by_no_replay(alice, key, settings):
    with lost_in_a_failover():
        settle(admit(key))
    [line] = journal._lines()
    (settings.OUTBOX_DIR / f"{json.loads(line)['completion']}.dead").write_text(line)
    assert replay() == {"settled": 0, "lost": 0, "deadLetters": 1}
    assert outbox.waiting_files() == []


def test_what_an_operator_discarded_is_lost_once(alice, key, settings, monkeypatch):
    servers = iter(["00000001 1", "00000002 2", "00000002 3", "00000002 3"])
    monkeypatch.setattr(journal, "_database", lambda: next(servers))
    with lost_in_a_failover():
        settle(admit(key))
        journal.replay_after_failover()
    before_nanos = lost_nanos()
    assert journal.replay_after_failover() == {Found.LOST: 1}
    [file] = outbox.waiting_files()
    file.rename(file.with_suffix(".dead"))
    call_command("dead_letters", "--discard", "all", stdout=io.StringIO())
    assert journal.replay_after_failover() == {Found.KEPT: 1}
    assert (outbox.waiting_files(), outbox.dead_letters(), lost_nanos()) == ([], [], before_nanos)
    [marker] = (settings.OUTBOX_DIR / "journal").glob("*.discarded")
    os.utime(marker, (0, 0))
    journal.replay_after_failover()
    assert not marker.exists()


def test_a_process_serves_while_it_replays(alice, key, monkeypatch):
    with lost_in_a_failover():
        settle(admit(key))
        settle(admit(key))
    turns, write = [], outbox._write
    monkeypatch.setattr(outbox, "_write", lambda *given: (time.sleep(0.1), write(*given)))
    beside = gevent.spawn(lambda: [turns.append(gevent.sleep(0.01)) for _ in range(10)])
    assert journal.replay() == {Found.LOST: 2}
    assert len(turns) == 10
    beside.join()


def test_two_processes_of_a_host_do_not_replay_at_once(alice, key, settings, monkeypatch):
    monkeypatch.setattr(journal, "_database", lambda: "00000002")
    with lost_in_a_failover():
        settle(admit(key))
    noted = settings.OUTBOX_DIR / "journal" / "timeline"
    noted.write_text("00000001")
    with file_lock.locked(noted.parent) as is_locked:
        assert is_locked
        assert journal.replay_after_failover() == {}
    assert (outbox.waiting_files(), noted.read_text()) == ([], "00000001")
    assert journal.replay_after_failover() == {Found.LOST: 1}
    assert (len(outbox.waiting_files()), noted.read_text()) == (1, "00000002")


def test_the_sweeper_replays_once_when_the_database_is_another_one(alice, key, monkeypatch):
    timelines = iter(["00000001", "00000001", "00000002", "00000002"])
    monkeypatch.setattr(journal, "_database", lambda: next(timelines))
    admitted = admit(key)
    with lost_in_a_failover():
        settle(admitted)
    tasks.release_expired_holds()  # it notes the timeline
    tasks.release_expired_holds()
    assert Completion.objects.get().settlement is None
    tasks.release_expired_holds()
    assert_charged(alice, "reported", **CHARGED)
    with lost_in_a_failover():
        settle(admit(key))
    tasks.release_expired_holds()
    assert (outbox.waiting_files(), outbox.dead_letters()) == ([], [])


def test_a_database_is_known_by_its_timeline_and_by_its_last_start_and_crash(db):
    timeline, started_at, recovered_at = journal._database().split()
    assert timeline == "00000001"
    assert 0 < float(started_at) < time.time()
    assert 0 < float(recovered_at) < time.time()  # PostgreSQL forgets its statistics in a crash


def test_old_minutes_are_deleted_while_the_database_is_the_same(alice, key, settings):
    settle(admit(key))
    [file] = journal._files()
    assert file.stat().st_mode & 0o077 == 0
    old = file.rename(file.with_name(f"{journal._minute(file) - 6}-1.journal"))
    still_kept = file.with_name(f"{journal._minute(file) - 4}-1.journal")
    still_kept.touch()
    settle(admit(key))
    assert old.exists()
    journal.replay_after_failover()  # it notes the database
    journal.replay_after_failover()
    assert not old.exists()
    assert still_kept in journal._files()


def test_a_failover_that_takes_longer_than_the_journal_is_kept_loses_no_charge(alice, key, monkeypatch):
    servers = iter(["00000001 1", "00000002 2"])
    monkeypatch.setattr(journal, "_database", lambda: next(servers))
    with lost_in_a_failover():
        settle(admit(key))
        journal.replay_after_failover()
    [file] = journal._files()
    file.rename(file.with_name(f"{journal._minute(file) - 60}-1.journal"))
    settle(admit(key))  # the first charge afterwards, before anybody looks for a failover
    assert journal.replay_after_failover() == {Found.LOST: 1, Found.SETTLED: 1}


def test_a_damaged_line_is_no_charge_and_hides_no_other(alice, key, caplog):
    with lost_in_a_failover():
        settle(admit(key))
        settle(admit(key))
    [file] = journal._files()
    first, second = file.read_bytes().splitlines(keepends=True)
    whole_of_another = file.with_name(f"{journal._minute(file) - 1}-1.journal")
    whole_of_another.write_bytes(first[:100] + second + b"\x00\xff\n[]\n")
    file.write_bytes(second + b'{"completion": "chatcmpl-')
    assert replay() == {"settled": 0, "lost": 1, "deadLetters": 0}
    assert caplog.text.count("a line of the journal cannot be read") == 3


def test_what_is_not_charged_is_not_recorded(key, settings):
    settlements.release(admit(key))
    settings.SETTLEMENT_JOURNAL_MINUTES = 0
    settle(admit(key))
    assert journal._files() == []


def test_a_journal_that_cannot_be_written_fails_no_charge(alice, key, settings, caplog):
    settings.OUTBOX_DIR.parent.mkdir(exist_ok=True)
    settings.OUTBOX_DIR.write_text("a file")
    settle(admit(key))
    assert_charged(alice, "reported", **CHARGED)
    assert "is not in the journal" in caplog.text


@pytest.mark.django_db(transaction=True)
@fault(
    "Database",
    "PostgreSQL commits without waiting for its standbys, and hosts keep no journals",
    "A numbered check warns of losses by a failover",
)
def test_standbys_that_no_commit_waits_for_are_a_warning(settings):
    settings.SETTLEMENT_JOURNAL_MINUTES = 0
    assert warnings() == []
    with psycopg.connect(_url()):
        assert warnings() == ["gateway.W013"]
        settings.SETTLEMENT_JOURNAL_MINUTES = 1
        assert warnings() == []


@pytest.mark.django_db(transaction=True)
@fault(
    "Database",
    "PostgreSQL commits without waiting for its disk, and hosts keep no journals",
    "A numbered check warns of losses by a crash",
)
def test_commits_that_wait_for_no_disk_are_a_warning(settings):
    settings.SETTLEMENT_JOURNAL_MINUTES = 0
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        try:
            assert warnings() == ["gateway.W017"]
            settings.SETTLEMENT_JOURNAL_MINUTES = 1
            assert warnings() == []
        finally:
            cursor.execute("RESET synchronous_commit")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("commits", "found"), [("local", ["gateway.W013"]), ("remote_write", []), ("on", [])])
def test_named_standbys_are_not_waited_for_by_commits_that_wait_for_the_disk_only(settings, monkeypatch, commits, found):
    settings.SETTLEMENT_JOURNAL_MINUTES = 0
    monkeypatch.setattr(cell, "execute", lambda sql: [(True, "ANY 1 (*)", commits)])
    assert warnings() == found


def warnings() -> list[str]:
    found = [each.id for each in run_checks(tags=["database"], databases=["default"])]
    return [each for each in found if each in ("gateway.W013", "gateway.W017")]


def _url() -> str:
    """Return where a connection of a standby is made to."""
    made = connection.get_connection_params()
    return psycopg.conninfo.make_conninfo(
        host=made.get("host"), port=made.get("port"), user=made.get("user"), password=made.get("password"), replication="true"
    )
