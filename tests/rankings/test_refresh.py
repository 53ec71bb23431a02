"""A run of a source: locked, on schedule, stored whole or not at all, independent of other sources; also by real workers."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO

import pytest
from celery import Celery
from django.core.management import call_command
from django.db import connection

from completions.models import Category
from gateway_project import installation
from gateway_project.db import pool
from gateway_project.local import development, redis
from rankings import refresh, tasks
from rankings.identity import mapping
from rankings.models import Alias, Entry, Snapshot, Source, SourceState, Standing
from rankings.refresh import RefreshResult
from rankings.sources import registry
from tests import factories, waiting
from tests.faults import fault
from tests.live.conftest import database_url
from tests.rankings.source_server import (
    AA,
    AA_KEY,
    ARENA,
    HUB_BOARD,
    HUB_DATASET,
    Reply,
    Sources,
    addresses,
    assert_kept,
    refreshed,
    standings,
)

SOURCE = Source.LMSYS_ARENA
MMLU_PRO = HUB_BOARD.format("TIGER-Lab/MMLU-Pro")
pytestmark = pytest.mark.django_db


def state(source=SOURCE):
    return SourceState.objects.get(pk=source)


def minutes_until_next(source=SOURCE):
    return (state(source).next_attempt_at - pool.database_time()) / timedelta(minutes=1)


def grow_old(source=SOURCE, **ago):
    """Make the next run due."""
    SourceState.objects.filter(pk=source).update(next_attempt_at=pool.database_time() - timedelta(**ago))


# --- Schedule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Source.LMSYS_ARENA, Source.HUGGINGFACE, Source.ARTIFICIAL_ANALYSIS, Source.OPENROUTER])
def test_next_run_follows_the_cadence_with_jitter(sources, keys, source):
    assert refreshed(source).result == RefreshResult.STORED
    cadence = registry.spec(source).cadence / timedelta(minutes=1)
    assert 0.89 * cadence < minutes_until_next(source) < 1.11 * cadence
    sources.asked.clear()
    assert refresh.refresh(source, only_if_due=True).result == RefreshResult.NOT_DUE
    assert sources.asked == []
    grow_old(source, seconds=1)
    assert refresh.refresh(source, only_if_due=True).result == RefreshResult.UNCHANGED


def test_next_runs_are_spread_by_chance(sources):
    found = set()
    for _ in range(5):
        refreshed(SOURCE)
        found.add(round(minutes_until_next(), 1))
    assert len(found) > 1


def test_wait_doubles_with_each_failure_up_to_the_cadence(sources):
    waits = []
    for _ in range(9):
        sources.answer(HUB_DATASET, Reply(404))
        assert refreshed(SOURCE).result == RefreshResult.FAILED
        waits.append(minutes_until_next())
    assert state().failures == 9
    for wait, minutes in zip(waits, [15, 30, 60, 120, 240, 480, 960, 1_440, 1_440], strict=True):
        assert 0.89 * minutes < wait < 1.11 * minutes


def test_success_resets_the_failures(sources):
    sources.answer(HUB_DATASET, Reply(404))
    refreshed(SOURCE)
    refreshed(SOURCE)
    assert (state().failures, state().error, state().is_refused) == (0, "", False)


def test_refused_source_is_not_due_before_its_configuration_changes(sources, settings):
    settings.RANKINGS_AA_API_KEY = "revoked"
    sources.answer(AA, Reply(401))
    refreshed(Source.ARTIFICIAL_ANALYSIS)
    grow_old(Source.ARTIFICIAL_ANALYSIS, days=30)
    assert refresh.refresh(Source.ARTIFICIAL_ANALYSIS, only_if_due=True).result == RefreshResult.NOT_DUE
    settings.RANKINGS_AA_API_KEY = AA_KEY
    assert refresh.refresh(Source.ARTIFICIAL_ANALYSIS, only_if_due=True).result == RefreshResult.STORED
    assert not state(Source.ARTIFICIAL_ANALYSIS).is_refused


def test_run_by_hand_ignores_the_schedule(sources):
    refreshed(SOURCE)
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED


def test_no_source_is_read_when_fetching_is_off(sources, settings):
    settings.RANKINGS_FETCH = False
    outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.detail) == (RefreshResult.OFF, "GATEWAY_RANKINGS_FETCH is off")
    assert sources.asked == []


# --- Locking ---------------------------------------------------------------------------------------------------------


@contextmanager
def held_elsewhere(source) -> Iterator[None]:
    """Hold the lock of a source in another connection."""
    taken, done = threading.Event(), threading.Event()

    def hold():
        with refresh._lock(source) as is_locked:
            assert is_locked
            taken.set()
            done.wait(waiting.PROCESS_SECONDS_MAX)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(waiting.SECONDS_MAX)
    yield
    done.set()
    thread.join()


def test_two_processes_never_run_one_source_at_once(sources):
    with held_elsewhere(SOURCE):
        assert refreshed(SOURCE).result == RefreshResult.BUSY
        assert sources.asked == []
        assert refreshed(Source.HUGGINGFACE).result == RefreshResult.STORED
    assert refreshed(SOURCE).result == RefreshResult.STORED


# --- Whole or not at all ---------------------------------------------------------------------------------------------


def test_failure_while_storing_leaves_nothing_behind(sources, monkeypatch):
    refreshed(SOURCE)
    before = state().last_success_at
    sources.revision, sources.arena["overall"][0]["rating"] = "b" * 40, 1_510.0
    monkeypatch.setattr(refresh, "_delete_old", lambda snapshot: 1 / 0)  # the last thing before the commit
    outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.detail) == (RefreshResult.FAILED, "it cannot be read or stored: ZeroDivisionError")
    assert Snapshot.objects.count() == 1
    assert state().last_success_at == before
    assert standings(SOURCE)["claude-opus-4-6-thinking"].value == 1499.3


@fault(
    "Worker",
    "A ranking source fails",
    "Its published entries stay as they are",
)
def test_failed_run_changes_no_published_entry(sources):
    model = factories.make_model("anthropic/claude-opus-4-6-thinking", maker="Anthropic")
    refreshed(SOURCE)
    before = list(Entry.objects.filter(source=SOURCE).order_by("board").values())
    assert {entry["model_id"] for entry in before} == {model.pk}
    sources.answer(HUB_DATASET, Reply(body=b"{"))
    assert_kept(SOURCE, refreshed(SOURCE), "sent invalid JSON")
    assert list(Entry.objects.filter(source=SOURCE).order_by("board").values()) == before


def test_model_missing_in_a_snapshot_loses_only_that_source(sources, settings):
    settings.RANKINGS_AA_API_KEY = AA_KEY
    model = factories.make_model("anthropic/claude-opus-4-6-thinking", maker="Anthropic")
    sources.aa[1] |= {"name": "Claude Opus 4.6 Thinking", "model_creator": {"id": "1", "name": "Anthropic"}}
    refreshed(SOURCE)
    refreshed(Source.ARTIFICIAL_ANALYSIS)
    sources.revision = "b" * 40
    for rows in sources.arena.values():
        del rows[0]
    refreshed(SOURCE)
    left = Entry.objects.filter(model=model).values_list("source", flat=True).distinct()
    assert set(left) == {Source.ARTIFICIAL_ANALYSIS, Source.INTERNAL}


def test_snapshot_is_published_with_internal(sources):
    factories.make_model("anthropic/claude-opus-4-6-thinking", maker="Anthropic")
    outcome = refreshed(SOURCE)
    assert outcome.ours == 1
    entry = Entry.objects.get(source=SOURCE, board="GENERAL")
    assert (entry.rank, entry.elo) == (1, 1499)
    assert Entry.objects.get(source=Source.INTERNAL, board="GENERAL").elo == 1499


def test_one_snapshot_a_week_is_kept_after_sixty_days(sources):
    refreshed(SOURCE)
    now = pool.database_time()
    ages = [1, 59, 61, 62, 63, 64, 65, 66, 67, 68, 200]
    kept = {}
    for age in sorted(ages, reverse=True):
        taken_at = now - timedelta(days=age)
        Snapshot.objects.create(source=SOURCE, as_of=now - timedelta(days=99), taken_at=taken_at, fingerprint=str(age))
        kept[taken_at.isocalendar()[:2] if age > 60 else age] = str(age)
    Snapshot.objects.create(source=Source.HUGGINGFACE, as_of=now, taken_at=now - timedelta(days=300), fingerprint="another's")
    sources.revision, sources.arena["overall"][0]["rating"] = "b" * 40, 1_510.0
    assert refreshed(SOURCE).result == RefreshResult.STORED
    left = set(
        Snapshot.objects.filter(source=SOURCE, fingerprint__in=list(map(str, ages))).values_list("fingerprint", flat=True)
    )
    assert left == set(kept.values())
    assert Snapshot.objects.filter(fingerprint="another's").exists()


# --- INTERNAL --------------------------------------------------------------------------------------------------------


def test_internal_is_computed_without_a_request(sources):
    factories.make_model("openai/gpt-5")
    assert refreshed(Source.INTERNAL).result == RefreshResult.STORED
    assert sources.asked == []
    assert Entry.objects.filter(source=Source.INTERNAL, board="GENERAL").count() == 1
    assert 53 < minutes_until_next(Source.INTERNAL) < 67
    assert set(SourceState.objects.values_list("pk", flat=True)) == set(Source)


def test_new_model_of_the_catalog_gets_its_standing(sources):
    refreshed(SOURCE)
    assert not Entry.objects.filter(source=SOURCE).exists()
    factories.make_model("anthropic/claude-opus-4-6-thinking", maker="Anthropic")
    refreshed(Source.INTERNAL)
    assert Entry.objects.get(source=SOURCE, board="GENERAL").elo == 1499


def test_source_without_its_key_is_no_longer_published(sources, settings):
    settings.RANKINGS_AA_API_KEY = AA_KEY
    factories.make_model("example/filler-7", maker="Example Lab")
    refreshed(Source.ARTIFICIAL_ANALYSIS)
    assert Entry.objects.filter(source=Source.ARTIFICIAL_ANALYSIS).exists()
    settings.RANKINGS_AA_API_KEY = ""
    refreshed(Source.INTERNAL)
    assert not Entry.objects.filter(source=Source.ARTIFICIAL_ANALYSIS).exists()
    assert Snapshot.objects.filter(source=Source.ARTIFICIAL_ANALYSIS).exists()


def test_built_in_catalog_is_mapped_at_the_sources(sources):
    call_command("load_catalog", built_in=True, verbosity=0)
    names = ["gpt-4o-mini-2024-07-18", "gpt-oss-120b", "claude-haiku-4-5-20251001", "mistral-large-3"]
    for row, name in zip(sources.arena["overall"][1:], names, strict=False):
        row["model_name"] = name
    assert refreshed(SOURCE).ours == 4
    snapshot = mapping.latest_snapshot(SOURCE)
    found = mapping.chosen_standings(snapshot)[Category.GENERAL]
    assert {model_id: chosen.standing.external_key for model_id, chosen in found.items()} == {
        "openai/gpt-4o-mini": names[0],
        "openai/gpt-oss-120b": names[1],
        "anthropic/claude-haiku-4-5": names[2],
        "mistral/mistral-large-2512": names[3],
    }
    assert not Alias.objects.filter(source=SOURCE).exclude(method="curated").exists()
    assert Standing.objects.filter(snapshot=snapshot, board="GENERAL").count() == 230  # ours or not


# --- Publications that wait for each other -----------------------------------------------------------------------


@contextmanager
def publishing_elsewhere(source):
    """Hold the lock of a source's publication in another session, and wait for a lock no longer than a moment here."""
    with connection.copy().cursor() as other, connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20ms'")
        other.execute("SELECT pg_advisory_lock(hashtext(%s))", [f"rankings.publishing.publication.{source}"])
        try:
            yield
        finally:
            other.execute("SELECT pg_advisory_unlock_all()")
            other.connection.close()
            cursor.execute("RESET lock_timeout")


@pytest.mark.parametrize("locked", [SOURCE, Source.INTERNAL])
@pytest.mark.django_db(transaction=True)
def test_a_publication_that_waits_in_vain_is_made_up_for_by_the_next_run(sources, locked):
    factories.make_model("anthropic/claude-opus-4-6-thinking", maker="Anthropic")
    with publishing_elsewhere(locked):
        outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.detail) == (RefreshResult.STORED, "it is published with the next run of INTERNAL")
    assert not Entry.objects.filter(source=Source.INTERNAL).exists()
    assert 0 < minutes_until_next(Source.INTERNAL) <= 1
    grow_old(Source.INTERNAL, seconds=1)
    assert refresh.refresh(Source.INTERNAL, only_if_due=True).result == RefreshResult.STORED
    assert Entry.objects.filter(source=SOURCE).exists()
    assert Entry.objects.filter(source=Source.INTERNAL).exists()
    assert minutes_until_next(Source.INTERNAL) > 50


@pytest.mark.django_db(transaction=True)
def test_internal_that_waits_in_vain_is_computed_again_soon(sources):
    factories.make_model("openai/gpt-5")
    with publishing_elsewhere(Source.INTERNAL):
        assert refreshed(Source.INTERNAL).result == RefreshResult.BUSY
    assert 0 < minutes_until_next(Source.INTERNAL) <= 1


# --- Tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_slow_source_runs_in_a_thread_without_a_worker(sources):
    hold = threading.Event()
    sources.answer(HUB_DATASET, Reply(404, hold=hold))
    assert tasks.refresh.delay(SOURCE).get() == "started"
    [run] = [thread for thread in threading.enumerate() if thread.name == "refresh LMSYS_ARENA"]
    hold.set()
    run.join(waiting.SECONDS_MAX)
    assert state().failures == 1


@pytest.mark.django_db(transaction=True)
def test_task_refuses_an_unknown_source():
    with pytest.raises(ValueError, match="'MINE' is not a valid Source"):
        tasks.refresh.delay("MINE").get()


def test_beat_starts_a_task_for_each_source_every_minute(settings, monkeypatch):
    [entry] = [each for each in settings.PERIODIC_TASKS.values() if each["task"] == tasks.refresh_due_sources.name]
    assert (entry["schedule"], entry["options"]) == (60, {"expires": 60})
    started = []
    monkeypatch.setattr(tasks.refresh_if_due, "apply_async", lambda args, **options: started.append((*args, options)))
    tasks.refresh_due_sources.delay()
    assert started == [(source.value, {"expires": 60}) for source in Source]


@pytest.mark.system
@fault(
    "Worker",
    "A ranking source accepts a request and never replies",
    "The other sources are refreshed meanwhile",
)
@pytest.mark.django_db(transaction=True)
def test_workers_refresh_other_sources_while_one_hangs(tmp_path):
    """Start Redis and a Celery worker, as `make run` does."""
    call_command("load_catalog", built_in=True, stdout=StringIO())
    served, hold, broker = Sources(), threading.Event(), redis.start(tmp_path)
    for _ in range(3):  # as many as attempts, should one be given up
        served.answer(MMLU_PRO, Reply(hold=hold))
    environ = {**os.environ, **addresses(served), "GATEWAY_AA_API_KEY": AA_KEY, "GATEWAY_RANKINGS_FETCH": "1"}
    environ |= {"DATABASE_URL": database_url(), "REDIS_URL": redis.url(tmp_path)}
    command = [sys.executable, *installation.processes(tmp_path)["worker"]]
    worker = subprocess.Popen(command, env=environ, cwd=development.ROOT, stderr=subprocess.DEVNULL)
    try:
        with Celery(broker=redis.url(tmp_path).replace("unix://", "redis+socket://"), set_as_current=False) as sender:
            for source in (Source.HUGGINGFACE, Source.LMSYS_ARENA, Source.ARTIFICIAL_ANALYSIS):
                sender.send_task(tasks.refresh.name, [source.value])
        succeeded = SourceState.objects.exclude(last_success_at=None).order_by("source")
        waiting.until(lambda: succeeded.count() == 2 and served.times_asked(MMLU_PRO), waiting.PROCESS_SECONDS_MAX)
        assert [each.source for each in succeeded] == [Source.ARTIFICIAL_ANALYSIS, Source.LMSYS_ARENA]
        assert not hold.is_set()
        assert served.times_asked(MMLU_PRO) == 1  # it hangs there all the while
        assert served.times_asked(ARENA) == 7
        assert served.times_asked(AA) == 3
    finally:
        worker.kill()
        worker.wait()
        hold.set()
        broker.terminate()
        broker.wait()
        served.close()
