"""Completions of all accounts by hour."""

from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext

from completions import tasks
from completions.models import Completion, CompletionHour, FirstTokenHour
from completions.statistics import hours
from gateway_project.db import pool
from tests import chat, factories
from tests.completions.rows import ask_streamed
from tests.conftest import client_for
from tests.upstream import refusal, streamed, whole


def sum_up():
    tasks.sum_up_usage()
    return tasks.sum_up_hours()


def totals():
    return list(CompletionHour.objects.order_by("hour").values_list("completions", "cost_nanos"))


def test_an_hour_has_what_ended_in_it_of_all_accounts(alice, bob, api, large, upstream):
    upstream.will(whole(), refusal(500), whole())
    factories.credit(bob, 100)
    for client in (api, api, client_for(factories.make_key(bob)[1])):
        chat.ask(client, model="acme/large")
    sum_up()
    ended = Completion.objects.order_by("id")
    assert totals() == [(3, sum(each.cost_nanos or 0 for each in ended))]
    last = ended[2].finished_at
    assert CompletionHour.objects.get().hour == last.replace(minute=0, second=0, microsecond=0)


def test_a_completion_is_added_once(api, echo_model):
    chat.ask(api)
    sum_up()
    before = totals()
    sum_up()
    assert totals() == before
    chat.ask(api)
    sum_up()
    assert totals() == [(2, 2 * before[0][1])]


def test_times_are_those_of_half_and_of_almost_all_streams(api, large, upstream):
    upstream.will(streamed())
    assert ask_streamed(api).getvalue()
    sum_up()
    timed = Completion.objects.get().first_token_ms
    row = CompletionHour.objects.get()
    assert abs(row.first_token_p50_ms - max(timed, 1)) <= 1 + timed // 50
    FirstTokenHour.objects.all().delete()
    for milliseconds, streams in ((100, 49), (204, 2), (400, 48), (900, 1)):
        FirstTokenHour.objects.create(hour=row.hour, milliseconds=milliseconds, streams=streams)
    assert tasks.sum_up_hours() == 1
    row.refresh_from_db()
    assert (row.first_token_p50_ms, row.first_token_p99_ms) == (204, 400)


def test_hours_that_were_missed_are_caught_up_with_and_others_are_left(db):
    now = pool.database_time().replace(minute=0, second=0, microsecond=0)
    for hours_ago, p50 in ((9, None), (8, 7)):
        hour = now - timedelta(hours=hours_ago)
        CompletionHour.objects.create(hour=hour, completions=1, cost_nanos=1, first_token_p50_ms=p50)
        FirstTokenHour.objects.create(hour=hour, milliseconds=100, streams=1)
    assert tasks.sum_up_hours() == 1
    assert list(CompletionHour.objects.order_by("hour").values_list("first_token_p50_ms", flat=True)) == [100, 7]


def test_old_hours_are_deleted(db):
    now = pool.database_time()
    for since_kept in (-1, 1):
        hour = now - hours.KEPT_TIME + timedelta(hours=since_kept)
        CompletionHour.objects.create(hour=hour, completions=since_kept, cost_nanos=1)
        FirstTokenHour.objects.create(hour=hour, milliseconds=100, streams=1)
    tasks.sum_up_hours()
    assert totals() == [(1, 1)]
    assert FirstTokenHour.objects.count() == 1


def test_no_completion_is_read_for_the_hours(db):
    with CaptureQueriesContext(connection) as queries:
        hours.sum_up(pool.database_time())
    assert not [query for query in queries if "completions_completion " in query["sql"]]
