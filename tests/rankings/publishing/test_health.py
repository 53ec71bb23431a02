"""Which sources are healthy, from their rows, the settings and the clock."""

from datetime import timedelta

import pytest

from gateway_project.db import pool
from rankings.models import Snapshot, Source, SourceState
from rankings.publishing import health
from tests.rankings.source_server import AA_KEY, HUB_DATASET, Reply, refreshed

pytestmark = pytest.mark.django_db
HOURS = {"INTERNAL": 2, "LMSYS_ARENA": 72, "HUGGINGFACE": 72, "ARTIFICIAL_ANALYSIS": 48, "OPENROUTER": 72}


def health_of(source, now=None):
    [found] = [each for each in health.report(now) if each.source == source]
    return found


def test_all_five_sources_are_listed_before_the_first_run(sources):
    names = ["INTERNAL", "LMSYS_ARENA", "HUGGINGFACE", "ARTIFICIAL_ANALYSIS", "OPENROUTER"]
    assert health.report_for_api() == [{"source": name, "isHealthy": False, "lastSyncAt": None} for name in names]
    assert [each.reason for each in health.report()] == [
        "never read",
        "never read",
        "never read",
        "off: GATEWAY_AA_API_KEY is not set",
        "off: GATEWAY_OPENROUTER_API_KEY is not set",
    ]


def test_source_is_healthy_after_a_success_and_gives_its_time(sources, keys):
    for source in Source:
        refreshed(source)
    assert [item["isHealthy"] for item in health.report_for_api()] == [True] * 5
    assert all(item["lastSyncAt"].endswith("Z") and len(item["lastSyncAt"]) == 24 for item in health.report_for_api())


def test_run_that_finds_nothing_new_is_a_success(sources):
    refreshed(Source.LMSYS_ARENA)
    first = health_of(Source.LMSYS_ARENA).last_sync_at
    refreshed(Source.LMSYS_ARENA)
    assert health_of(Source.LMSYS_ARENA).last_sync_at > first


@pytest.mark.parametrize("source", list(Source))
def test_source_is_unhealthy_when_its_last_success_is_too_old(sources, keys, source):
    now = pool.database_time()
    SourceState.objects.create(source=source, last_success_at=now - timedelta(hours=HOURS[source], seconds=-1))
    assert health_of(source, now).is_healthy
    assert not health_of(source, now + timedelta(seconds=2)).is_healthy
    assert health_of(source, now + timedelta(seconds=2)).reason.startswith("not read since ")


def test_arena_is_unhealthy_when_its_data_is_too_old(sources):
    refreshed(Source.LMSYS_ARENA)
    as_of = Snapshot.objects.get().as_of
    SourceState.objects.update(last_success_at=as_of + timedelta(days=21))
    assert health_of(Source.LMSYS_ARENA, as_of + timedelta(days=21)).is_healthy
    assert health_of(Source.LMSYS_ARENA, as_of + timedelta(days=21, seconds=1)).reason == f"its data is from {as_of:%Y-%m-%d}"


def test_third_failure_in_a_row_makes_a_source_unhealthy(sources):
    refreshed(Source.LMSYS_ARENA)
    success = health_of(Source.LMSYS_ARENA).last_sync_at
    for count in (1, 2, 3):
        sources.answer(HUB_DATASET, Reply(404))
        refreshed(Source.LMSYS_ARENA)
        assert health_of(Source.LMSYS_ARENA).is_healthy == (count < 3)
    assert health_of(Source.LMSYS_ARENA).last_sync_at == success
    assert health_of(Source.LMSYS_ARENA).reason.startswith("failed 3 times in a row: 127.0.0.1/hub/")


def test_one_refusal_makes_a_source_unhealthy_without_showing_the_key(sources, settings):
    settings.RANKINGS_AA_API_KEY = AA_KEY
    refreshed(Source.ARTIFICIAL_ANALYSIS)
    sources.answer("/aa/language/models/free", Reply(401, {"error": f"Invalid API key {AA_KEY}"}))
    refreshed(Source.ARTIFICIAL_ANALYSIS)
    found = health_of(Source.ARTIFICIAL_ANALYSIS)
    assert found.reason == "refused: 127.0.0.1/aa/language/models/free answered 401"
    assert found.last_sync_at is not None


def test_source_that_is_switched_off_is_unhealthy(sources, keys, settings):
    for source in Source:
        refreshed(source)
    settings.RANKINGS_FETCH = False
    assert [item["isHealthy"] for item in health.report_for_api()] == [True, False, False, False, False]
