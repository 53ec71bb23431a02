"""Routes that rest: who failed again and again is left alone for a while, then one request finds out how it is."""

import threading
from datetime import timedelta

import gevent
import pytest
from django.db.models.functions import Now

from completions.models import Completion, Route
from completions.relay import attempts, circuit_breaker
from tests import factories
from tests.completions.routes import add, assert_answered, assert_attempts, once, wait_until
from tests.completions.rows import MESSAGES, ask, ask_streamed, assert_released, assert_true_book, events, text
from tests.conftest import client_for
from tests.upstream import LEAVE, RESET, ROLE, refusal, stream, whole, words

pytestmark = pytest.mark.usefixtures("large")

FAILURES = 4


@pytest.fixture(autouse=True)
def _rules(settings):
    settings.CIRCUIT_FAILURES, settings.CIRCUIT_REST_SECONDS = FAILURES, 10
    settings.UPSTREAM_ATTEMPTS_MAX = 1  # so that each request says one thing of the route
    yield
    gevent.sleep(0)  # what is still to be told to others is told now, while there is a database


@pytest.fixture
def other(charlie):
    """Charlie's program."""
    return client_for(factories.make_key(charlie)[1])


@pytest.fixture
def resting(api, other, upstream):
    """The route rests for everybody, and its upstream is well again."""
    upstream.will(refusal(500))
    fail(api, other, *[api] * (FAILURES - 2))
    upstream.will(whole())
    upstream.requests.clear()


def fail(*clients):
    for client in clients:
        assert ask(client).status_code == 502


def assert_rests(client, upstream, seconds):
    """It is told at once when to come again, and the upstream is not asked."""
    asked = len(upstream.requests)
    answer = ask(client)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "upstream_error")
    assert seconds - 2 <= int(answer["Retry-After"]) <= seconds
    assert len(upstream.requests) == asked
    assert_attempts(0)


def rest_ends():
    """As if the time had passed."""
    gevent.sleep(0)
    for circuit in circuit_breaker._circuits.values():
        circuit.until = 0.0
    Route.objects.update(rests_until=Now() - timedelta(seconds=1))


def row():
    gevent.sleep(0)  # it is written beside the request
    return Route.objects.get(provider="scripted").rests_until


# --- It opens ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [refusal(500), refusal(429), refusal(401), refusal(404), [RESET], [LEAVE], stream(b"nonsense")],
    ids=["500", "429", "401", "404", "reset", "cut", "nonsense"],
)
def test_after_so_many_failures_in_a_row_it_is_asked_no_more(api, alice, other, upstream, failure):
    upstream.will(failure)
    for client in [api, other, api, other]:
        assert ask(client).status_code in (502, 503)
    assert len(upstream.requests) == FAILURES
    for client in (api, other):
        assert_rests(client, upstream, 10)
    assert row() is not None
    assert set(Completion.objects.values_list("settlement", "cost_nanos")) == {("released", 0)}
    alice.refresh_from_db()
    assert alice.held_nanos == 0
    assert_true_book()


def test_a_success_in_between_begins_the_count_anew(api, other, upstream):
    failures = [refusal(500)] * (FAILURES - 1)
    upstream.will(*failures, whole(), *failures, whole())
    for _ in range(2):
        fail(api, other, *[api] * (FAILURES - 3))
        assert ask(other).status_code == 200
    assert len(upstream.requests) == 2 * FAILURES
    assert row() is None


def test_another_route_takes_over_without_a_wasted_attempt(api, resting, large, upstream, spare):
    add(large, spare)
    assert_answered(ask(api), "spare", 1)
    assert upstream.requests == []


def test_a_request_at_fault_says_nothing_of_the_route(api, other, upstream):
    upstream.will(refusal(400))
    for client in [api, other] * FAILURES:
        assert ask(client).status_code == 400
    assert len(upstream.requests) == 2 * FAILURES
    assert circuit_breaker._circuits == {}


def test_a_stream_that_breaks_in_the_middle_had_begun(api, other, upstream):
    upstream.will(stream(ROLE, words("Hello "), 0.02, RESET))
    for client in [api, other] * FAILURES:
        assert text(events(ask_streamed(client))) == "Hello "
    assert len(upstream.requests) == 2 * FAILURES
    assert circuit_breaker._circuits == {}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("order", [{"status": 500}, {"break_after_tokens": 0}, {"break_after_tokens": 1}], ids=str)
def test_nobody_can_order_the_echo_to_rest(api, other, echo_model, order, stream):
    asked = {"model": "demo/echo", "messages": MESSAGES, "stream": stream, "echo": order}
    for client in [api, other] * FAILURES:
        answer = client.post("/v1/chat/completions", asked)
        if answer.streaming:
            events(answer)
    assert circuit_breaker._circuits == {}
    assert ask(api, model="demo/echo").status_code == 200
    assert Route.objects.get(provider="echo").rests_until is None


def test_what_had_been_asked_before_the_rest_does_not_prolong_it(api, other, upstream):
    gate = threading.Event()
    upstream.will([gate, *refusal(500)])
    running = [gevent.spawn(ask, client) for client in [api, other] * FAILURES]
    once(lambda: len(upstream.requests) == 2 * FAILURES, gate.set)
    assert [answer.get().status_code for answer in running] == [502] * (2 * FAILURES)
    assert_rests(api, upstream, 10)


def test_who_pauses_while_it_opens_does_not_sit_out_the_rest(api, other, upstream, settings, monkeypatch):
    settings.UPSTREAM_ATTEMPTS_MAX = 2
    monkeypatch.setattr(attempts, "_PAUSE_SECONDS", 0.5)
    gate = threading.Event()
    upstream.will([gate, *refusal(500)])
    running = [gevent.spawn(ask, client) for client in [api, other] * (FAILURES // 2)]
    once(lambda: len(upstream.requests) == FAILURES, gate.set)
    assert [answer.get().status_code for answer in running] == [502] * FAILURES
    assert len(upstream.requests) == FAILURES
    assert_rests(api, upstream, 10)


def test_how_often_routes_rest_is_counted_and_logged(api, other, upstream, caplog):
    from gateway_project import metrics

    counted = metrics.route_rests_total.labels("scripted")._value
    before = counted.get()
    upstream.will(refusal(500))
    fail(api, other, api, other)
    assert counted.get() - before == 1
    assert caplog.text.count("large-2026 at scripted rests for 10 s") == 1


# --- For whom ----------------------------------------------------------------------------------------------------


def test_who_alone_fails_rests_alone(api, alice, other, upstream):
    upstream.will(*[refusal(500)] * FAILURES, whole())
    fail(*[api] * FAILURES)
    assert_rests(api, upstream, 10)
    assert row() is None
    assert ask(other).status_code == 200
    assert row() is None


def test_who_fails_all_day_closes_it_for_nobody(api, other, upstream):
    upstream.will(*([refusal(500)] * FAILURES + [whole()]) * 5)
    for _ in range(5):
        fail(*[api] * FAILURES)
        assert ask(other).status_code == 200  # which says that the route is well: api's next request is asked again
    assert len(upstream.requests) == 5 * (FAILURES + 1)
    assert row() is None


def test_the_keys_of_one_account_are_one(api, alice, upstream):
    upstream.will(refusal(500))
    others = [client_for(factories.make_key(alice, name=str(number))[1]) for number in range(FAILURES - 1)]
    fail(api, *others)
    for client in [api, *others]:
        assert_rests(client, upstream, 10)
    assert row() is None


def test_when_a_second_one_fails_too_it_is_the_route(api, other, upstream):
    upstream.will(refusal(500))
    fail(*[api] * FAILURES)
    fail(other)
    assert len(upstream.requests) == FAILURES + 1
    for client in (api, other):
        assert_rests(client, upstream, 10)
    assert row() is not None


def test_the_long_rest_of_one_is_not_anothers(api, other, upstream):
    upstream.will(refusal(500))
    fail(*[api] * FAILURES)
    for _ in range(3):
        rest_ends()
        fail(api)
    assert_rests(api, upstream, 60)
    fail(other)
    assert_rests(other, upstream, 10)


# --- As long as it asked for -------------------------------------------------------------------------------------


def test_who_asks_not_to_be_asked_is_not(api, other, upstream):
    upstream.will(refusal(429, retry_after="7"))
    assert ask(api)["Retry-After"] == "7"
    assert_rests(api, upstream, 7)
    assert row() is None
    assert ask(other)["Retry-After"] == "7"  # perhaps it was too much only for the first
    assert len(upstream.requests) == 2
    assert_rests(api, upstream, 7)
    assert row() is not None


def test_but_no_longer_than_any_other(api, upstream):
    upstream.will(refusal(429, retry_after="3000"))
    assert ask(api).status_code == 503
    assert_rests(api, upstream, 10)


# --- Half open ---------------------------------------------------------------------------------------------------


def test_a_success_after_the_rest_closes_it(api, other, resting, upstream):
    rest_ends()
    assert_answered(ask(api), "scripted", 1)
    for client in (api, other):
        assert_answered(ask(client), "scripted", 1)
    assert circuit_breaker._circuits == {}


def test_a_failure_after_the_rest_doubles_it_up_to_a_bound(api, other, resting, upstream):
    upstream.will(refusal(500))
    for seconds in (20, 40, 60, 60, 60):  # of 80 and 120 nobody is told: so long nobody waits
        rest_ends()
        fail(api)
        assert_rests(other, upstream, seconds)
    [circuit] = circuit_breaker._circuits.values()
    assert circuit.until - circuit.rested_at == 120
    rest_ends()
    upstream.will(whole())
    assert ask(other).status_code == 200
    upstream.will(refusal(500))
    fail(api, other, api, other)
    assert_rests(api, upstream, 10)


def test_exactly_one_request_finds_out(api, alice, other, resting, upstream):
    gate = threading.Event()
    upstream.will([gate, *whole()], whole())
    rest_ends()
    probe = gevent.spawn(ask, api)
    once(lambda: upstream.requests, gate.set)
    wait_until(lambda: upstream.requests)
    answers = [ask(client) for client in (api, other, api)]
    assert [answer.status_code for answer in answers] == [503] * 3
    assert {answer["Retry-After"] for answer in answers} == {"1"}
    assert len(upstream.requests) == 1
    assert probe.get().status_code == 200
    assert [ask(client).status_code for client in (api, other)] == [200, 200]
    assert len(upstream.requests) == 3


@pytest.mark.parametrize("status", [400, 422])
def test_a_request_at_fault_finds_nothing_out_and_the_next_one_does(api, other, resting, upstream, status):
    upstream.will(refusal(status), whole())
    rest_ends()
    assert ask(api).status_code == 400
    assert_answered(ask(other), "scripted", 1)
    assert circuit_breaker._circuits == {}


def test_who_takes_long_to_find_out_holds_the_others_up_no_longer_than_a_rest(api, other, resting, upstream, settings):
    settings.CIRCUIT_REST_SECONDS = 0.2
    gate = threading.Event()
    upstream.will([gate, *whole()], whole())
    rest_ends()
    probe = gevent.spawn(ask, api)
    wait_until(lambda: upstream.requests)
    gevent.sleep(0.25)
    assert_answered(ask(other), "scripted", 1)
    gate.set()
    assert probe.get().status_code == 200


# --- Between processes -------------------------------------------------------------------------------------------


def other_process(rests_seconds):
    """What another worker wrote, and this one knows nothing of it."""
    circuit_breaker._circuits.clear()
    Route.objects.update(rests_until=Now() + timedelta(seconds=rests_seconds))


def test_what_one_found_out_the_others_read(api, alice, other, upstream):
    other_process(30)
    for client in (api, other):
        assert_rests(client, upstream, 30)
    assert upstream.requests == []
    alice.refresh_from_db()
    assert_released(alice)


def test_a_rest_of_the_past_is_none(api, upstream):
    other_process(-1)
    assert_answered(ask(api), "scripted", 1)


def test_what_is_written_is_how_long_it_rests(api, other, upstream):
    upstream.will(refusal(500))
    fail(api, other, api, other)
    assert row() is not None
    circuit_breaker._circuits.clear()
    assert_rests(api, upstream, 10)


def test_who_only_read_of_it_sends_one_to_find_out_too(api, other, upstream):
    gate = threading.Event()
    upstream.will([gate, *whole()], whole())
    other_process(30)
    assert_rests(api, upstream, 30)
    rest_ends()
    probe = gevent.spawn(ask, api)
    once(lambda: upstream.requests, gate.set)
    wait_until(lambda: upstream.requests)
    assert ask(other).status_code == 503
    assert probe.get().status_code == 200
    assert ask(other).status_code == 200
    assert len(upstream.requests) == 2


def test_what_was_on_its_way_when_it_was_read_of_does_not_prolong_it(api, other, upstream):
    gate = threading.Event()
    upstream.will([gate, *refusal(500)])
    running = gevent.spawn(ask, api)
    wait_until(lambda: upstream.requests)
    other_process(30)
    assert_rests(other, upstream, 30)
    gate.set()
    assert running.get().status_code == 502
    rest_ends()
    upstream.will(refusal(500))
    fail(other)
    assert_rests(api, upstream, 20)


def test_a_failure_where_it_was_only_read_of_counts_as_the_second_rest(api, upstream):
    upstream.will(refusal(500))
    other_process(30)
    assert_rests(api, upstream, 30)
    rest_ends()
    fail(api)
    assert_rests(api, upstream, 20)
