"""Completions summed up by hour."""

from datetime import timedelta

import pytest

from completions import hours, tasks
from completions.models import Completion, CompletionHour
from gateway_project.db import pool
from tests import factories
from tests.plans import plan_of, repeat_completion
from tests.rankings.streams import streamed


@pytest.fixture
def caller(alice):
    factories.make_model("acme/fast")
    return alice, factories.make_key(alice)[0]


def sums():
    return list(CompletionHour.objects.order_by("hour").values_list("completions", "cost_nanos", "first_token_p50_ms"))


def test_each_hour_has_its_number_cost_and_times(caller):
    for first_token_ms in (100, 200, 400):
        streamed(caller, "acme/fast", first_token_ms, 0, 10, hours_ago=5, cost_nanos=7)
    streamed(caller, "acme/fast", None, None, 10, settlement=None, finished_at=None)
    assert tasks.sum_up_hours() == 2
    assert sums() == [(3, 21, 200), (1, 0, None)]
    assert CompletionHour.objects.order_by("hour")[0].first_token_p99_ms == 400


def test_an_hour_is_the_time_of_admission_in_full_hours(caller):
    made = streamed(caller, "acme/fast", 100, 0, 10, hours_ago=30)
    tasks.sum_up_hours()
    assert CompletionHour.objects.get().hour == made.created_at.replace(minute=0, second=0, microsecond=0)


def test_what_ends_later_is_summed_up_anew(caller):
    running = streamed(caller, "acme/fast", None, None, 10, settlement=None, finished_at=None)
    tasks.sum_up_hours()
    Completion.objects.filter(pk=running.pk).update(settlement="reported", finished_at=pool.database_time(), cost_nanos=9)
    tasks.sum_up_hours()
    assert sums() == [(1, 9, None)]


def test_hours_that_were_missed_are_caught_up_with(caller):
    streamed(caller, "acme/fast", 100, 0, 10, hours_ago=20)
    tasks.sum_up_hours()
    streamed(caller, "acme/fast", 100, 0, 10, hours_ago=10)
    assert tasks.sum_up_hours() == 2
    assert [number for number, *_ in sums()] == [1, 1]


def test_old_hours_are_deleted(caller):
    now = pool.database_time()
    CompletionHour.objects.create(hour=now - hours.KEPT_TIME - timedelta(hours=1), completions=1, cost_nanos=1)
    CompletionHour.objects.create(hour=now - hours.KEPT_TIME + timedelta(hours=1), completions=2, cost_nanos=2)
    tasks.sum_up_hours()
    assert sums() == [(2, 2, None)]


def test_the_completions_of_an_hour_are_found_by_the_primary_key(caller):
    repeat_completion(streamed(caller, "acme/fast", 100, 0, 10, hours_ago=30).pk)
    assert "completions_completion_pkey" in plan_of(hours._SUM_UP, [Completion.least_id(pool.database_time())])
