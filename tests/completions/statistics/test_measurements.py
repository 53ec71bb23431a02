"""How often providers failed and how soon they answered."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from completions.models import Completion
from completions.statistics import measurements
from completions.statistics.measurements import Measured
from gateway_project.db import pool
from tests import factories, sessions
from tests.plans import plan_of, repeat_completion
from tests.rankings.streams import streamed

OVERLOADED = {"provider": "spare", "status": 503, "reason": "overloaded"}
UNREACHABLE = {"provider": "spare", "status": None, "reason": "no connection"}


@pytest.fixture
def caller(alice):
    factories.make_model("acme/fast")
    factories.make_model("acme/slow")
    return alice, factories.make_key(alice)[0]


def since(**age):
    return pool.database_time() - timedelta(**age)


def test_attempts_count_where_they_were_made(caller):
    for first_token_ms in (100, 200, 900):
        streamed(caller, "acme/fast", first_token_ms, 0, 10)
    streamed(caller, "acme/slow", 400, 0, 10, failed_attempts=[OVERLOADED, UNREACHABLE])
    streamed(caller, "acme/slow", None, None, 0, settlement="released", failed_attempts=[OVERLOADED])
    assert measurements.measure(since(hours=1)) == {
        ("echo", None): Measured(4, 0, 4, 200, 900),
        ("echo", "acme/fast"): Measured(3, 0, 3, 200, 900),
        ("echo", "acme/slow"): Measured(1, 0, 1, 400, 400),
        ("spare", None): Measured(3, 3, 0, None, None),
        ("spare", "acme/slow"): Measured(3, 3, 0, None, None),
    }


def test_the_attempts_of_one_account_and_what_providers_refuse_say_little_of_a_route(caller):
    for _ in range(3):
        streamed(caller, "acme/fast", 100, 900, 50, failed_attempts=[OVERLOADED, {**OVERLOADED, "status": 400}])
    routes = measurements.measure_routes(since(hours=1))
    assert routes["echo", "acme/fast"] == Measured(3, 0, 3, 100, None, 50.0, 3)
    assert routes["spare", "acme/fast"] == Measured(1, 1, 0, None, None)  # of one account: counted once in an hour


def test_what_was_admitted_before_does_not_count(caller):
    streamed(caller, "acme/fast", 100, 0, 10, hours_ago=2, failed_attempts=[OVERLOADED])
    assert measurements.measure(since(hours=1)) == {}
    assert measurements.last_failures(since(hours=1), "spare") == []
    assert len(measurements.measure(since(hours=24))) == 4


def test_the_last_errors_are_those_of_the_provider_or_route(caller):
    first = streamed(caller, "acme/fast", 100, 0, 10, hours_ago=2, failed_attempts=[OVERLOADED])
    last = streamed(caller, "acme/slow", 100, 0, 10, failed_attempts=[UNREACHABLE, {**OVERLOADED, "provider": "other"}])
    failures = measurements.last_failures(since(hours=24), "spare")
    shown = [(completion_id, status, reason) for completion_id, _, _, status, reason in failures]
    assert shown == [(last.pk, None, "no connection"), (first.pk, 503, "overloaded")]
    [found] = measurements.last_failures(since(hours=24), "spare", "acme/fast")
    assert found[:3] == (first.pk, "acme/fast", first.created_at)


def test_only_the_newest_completions_are_read(caller, monkeypatch):
    monkeypatch.setattr(measurements, "COMPLETIONS_MAX", 2)
    streamed(caller, "acme/slow", 100, 0, 10, hours_ago=0.5, failed_attempts=[OVERLOADED])
    for _ in range(2):
        streamed(caller, "acme/fast", 100, 0, 10)
    assert measurements.measure(since(hours=1))["echo", None].attempts == 2
    assert measurements.last_failures(since(hours=1), "spare") == []


@pytest.mark.parametrize("sql", [measurements._MEASURE, measurements._LAST_FAILURES])
def test_completions_are_found_by_the_primary_key(caller, sql):
    values: dict[str, Any] = {
        "since": Completion.least_id(since(hours=1)),
        "most": 10,
        "provider": "spare",
        "model": None,
        "shown": 10,
    }
    repeat_completion(streamed(caller, "acme/fast", 100, 0, 10, hours_ago=30).pk)
    assert "completions_completion_pkey" in plan_of(sql, values)


def test_the_list_of_providers_shows_how_many_attempts_failed_in_the_last_hour(caller):
    factories.make_provider("spare", kind="openai", base_url="http://spare/v1")
    factories.make_provider("idle", kind="openai", base_url="http://idle/v1")
    streamed(caller, "acme/slow", 400, 0, 10, failed_attempts=[OVERLOADED, UNREACHABLE])
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    page = client.get("/admin/completions/provider/").content.decode()
    shown = re.findall(r'<td class="field-failed">([^<]*)</td>', page)
    assert shown == ["0 of 1", "not asked", "2 of 2"]  # echo, idle, spare
