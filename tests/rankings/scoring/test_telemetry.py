"""The speed of models, measured on this gateway's own streams."""

import pytest

from completions.models import Completion
from gateway_project.db import pool
from rankings.models import Entry, Source
from rankings.publishing import publication
from rankings.scoring import formula, parameters, telemetry
from tests import factories
from tests.plans import plan_of, repeat_completion
from tests.rankings.snapshots import make_alias, make_snapshot
from tests.rankings.streams import streamed


@pytest.fixture(autouse=True)
def window(settings):
    settings.RANKINGS_SPEED_WINDOW_HOURS, settings.RANKINGS_SPEED_STREAMS_MIN = 24, 3


@pytest.fixture
def caller(alice):
    factories.make_model("acme/fast")
    factories.make_model("acme/slow")
    return alice, factories.make_key(alice)[0]


def speeds():
    return telemetry.speeds(pool.database_time())


def test_speeds_are_medians_of_a_models_streams(caller):
    for first_token_ms, streamed_ms, tokens in [(500, 1500, 200), (1000, 1000, 100), (2000, 8000, 3000)]:
        streamed(caller, "acme/fast", first_token_ms, streamed_ms, tokens)
    for _ in range(3):
        streamed(caller, "acme/slow", 4000, 6000, 100)
    assert speeds() == {"acme/fast": telemetry.MeasuredSpeed(100, 1.0, 3), "acme/slow": telemetry.MeasuredSpeed(10, 4.0, 3)}


def test_an_even_number_of_streams_has_its_median_in_the_middle(caller):
    for first_token_ms in (100, 200, 400, 900):
        streamed(caller, "acme/fast", first_token_ms, 0, 10)
    assert speeds()["acme/fast"].first_token_seconds == pytest.approx(0.3)


def test_too_few_streams_give_no_speed(caller):
    for _ in range(2):
        streamed(caller, "acme/fast", 500, 500, 100)
    assert speeds() == {}


@pytest.mark.parametrize(
    "columns",
    [
        {"hours_ago": 25},
        {"is_stream": False},
        {"settlement": "partial"},
        {"settlement": "estimated"},
        {"settlement": None, "finished_at": None},
        {"first_token_ms": None},
        {"streamed_ms": None},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_only_whole_streams_of_the_window_with_reported_usage_count(caller, columns):
    for _ in range(2):
        streamed(caller, "acme/fast", 500, 500, 100)
    streamed(caller, "acme/fast", **{"first_token_ms": 500, "streamed_ms": 500, "tokens": 100, **columns})
    assert speeds() == {}
    streamed(caller, "acme/fast", 500, 500, 100, hours_ago=23.9)
    assert speeds()["acme/fast"].streams == 3


def test_short_replies_count_for_the_first_token_only(caller):
    for tokens in (5, 5, 5, 64, 64):
        streamed(caller, "acme/fast", 500, 500, tokens)
    assert speeds() == {"acme/fast": telemetry.MeasuredSpeed(None, 0.5, 5)}
    streamed(caller, "acme/fast", 500, 500, 64)
    assert speeds() == {"acme/fast": telemetry.MeasuredSpeed(64, 0.5, 6)}


def test_stream_of_no_duration_has_no_rate(caller):
    for _ in range(3):
        streamed(caller, "acme/fast", 0, 0, 100)
    assert speeds() == {"acme/fast": telemetry.MeasuredSpeed(None, 0.0, 3)}


def test_only_the_newest_completions_are_read(caller, monkeypatch):
    for _ in range(3):
        streamed(caller, "acme/slow", 500, 500, 100, hours_ago=2)
    for _ in range(3):
        streamed(caller, "acme/fast", 500, 500, 100)
    monkeypatch.setattr(telemetry, "COMPLETIONS_MAX", 3)
    assert list(speeds()) == ["acme/fast"]


def test_the_window_is_found_by_the_primary_key(caller):
    repeat_completion(streamed(caller, "acme/fast", 100, 0, 10, hours_ago=30).pk)
    plan = plan_of(telemetry._SPEEDS, [Completion.least_id(pool.database_time()), 10, 32, 3, 3])
    assert "completions_completion_pkey" in plan
    assert "Index Cond: ((id)::text >= 'chatcmpl-" in plan


def test_internal_uses_own_speeds_before_those_of_artificial_analysis(caller, settings):
    settings.RANKINGS_AA_API_KEY = "a-key"
    theirs = {"tokens_per_second": 10, "first_token_seconds": 30}
    for name in ("fast", "slow"):
        make_alias(Source.ARTIFICIAL_ANALYSIS, name, f"acme/{name}")
    make_snapshot(Source.ARTIFICIAL_ANALYSIS, {"GENERAL": {"fast": (50, theirs), "slow": (40, theirs)}})
    for _ in range(3):
        streamed(caller, "acme/fast", 650, 9350, 2960)
    publication.publish(Source.INTERNAL)
    fast, slow = Entry.objects.filter(source=Source.INTERNAL, board="CODING").order_by("model_id")
    expected = formula.speed(parameters.in_force(), tokens_per_second=296, first_token_seconds=0.65)
    assert [fast.speed, slow.speed] == pytest.approx([expected, 0])
    assert (fast.inputs["speed"]["source"], fast.inputs["speed"]["streams"]) == ("INTERNAL", 3)
    assert (slow.inputs["speed"]["source"], slow.inputs["speed"]["streams"]) == ("ARTIFICIAL_ANALYSIS", None)
