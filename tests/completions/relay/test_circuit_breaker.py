"""The circuit breaker: a route that fails repeatedly gets no requests for a while, then one request probes it."""

import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import gevent
import pytest
from django.db.models.functions import Now
from django.utils import timezone

from completions.catalog import lookup
from completions.models import Completion, Route
from completions.relay import attempts, circuit_breaker
from completions.relay.circuit_breaker import State
from completions.statistics import measurements
from gateway_project import metrics
from gateway_project.db import repetition
from tests import factories
from tests.completions.routes import add, assert_answered, assert_attempts, once, wait_until
from tests.completions.rows import MESSAGES, ask, ask_streamed, events, text
from tests.conftest import client_for
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.monotonic_clock import use_clock
from tests.upstream import CLOSE, RESET, ROLE, refusal, stream, whole, words

pytestmark = pytest.mark.usefixtures("large")

FAILURES = 4


@pytest.fixture(autouse=True)
def _rules(settings):
    settings.CIRCUIT_FAILURES, settings.CIRCUIT_OPEN_SECONDS = FAILURES, 10
    settings.CIRCUIT_ACCOUNTS = 2
    settings.UPSTREAM_ATTEMPTS_MAX = 1  # so that each request is one attempt


@pytest.fixture(autouse=True)
def breaker_clock(monkeypatch):
    """The clock of the circuits. It stands still, so open times do not pass while a slow machine works."""
    clock = use_clock(monkeypatch, circuit_breaker, attempts, lookup)
    clock.stop()
    return clock


_writes: list[gevent.Greenlet] = []
_timers: list[Callable[[], None]] = []


@pytest.fixture(autouse=True)
def _awaited_writes(db, monkeypatch):
    """Openings that are still to be written to the route's row are written while there is a database."""

    def spawn(*call, **options):
        _writes.append(gevent.spawn(*call, **options))

    def spawn_later(seconds, function, *arguments):
        _timers.append(lambda: function(*arguments))

    _timers.clear()
    monkeypatch.setattr(circuit_breaker, "gevent", SimpleNamespace(spawn_later=spawn_later))
    monkeypatch.setattr(repetition, "gevent", SimpleNamespace(spawn=spawn))
    yield
    await_writes()


def await_writes():
    """Wait for the greenlets that write openings to the route's row."""
    gevent.joinall(_writes, raise_error=True)
    _writes.clear()


@pytest.fixture
def other(charlie):
    """A client of another account."""
    return client_for(factories.make_key(charlie)[1])


@pytest.fixture
def open_circuit(api, other, upstream):
    """Open the circuit for all accounts, and let the upstream recover."""
    upstream.will(refusal(500))
    fail(api, other, *[api] * (FAILURES - 2))
    upstream.will(whole())
    upstream.requests.clear()


def fail(*clients):
    for client in clients:
        assert ask(client).status_code == 502


def assert_open(client, upstream, seconds):
    """Assert that the client gets 503 with Retry-After at once, and the upstream no request."""
    asked = len(upstream.requests)
    answer = ask(client)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "upstream_error")
    assert seconds / 2 < int(answer["Retry-After"]) <= seconds  # where the row says it, by the database's running clock
    assert len(upstream.requests) == asked
    assert_attempts(0)


def end_open_time():
    """Move the end of the open time into the past."""
    await_writes()
    for circuit in circuits():
        circuit.open_until = 0.0
    Route.objects.update(rests_until=Now() - timedelta(seconds=1))


def circuits():
    """The circuits of all routes and accounts."""
    return [each for route in circuit_breaker._routes.values() for each in (route.shared, *route.by_account.values())]


def failures():
    return sum(circuit.failures for circuit in circuits())


def row():
    await_writes()
    return Route.objects.get(provider="scripted").rests_until


# --- Opening -----------------------------------------------------------------------------------------------------


@fault(
    "Provider",
    "A provider fails for requests of several accounts, one after another",
    "Its circuit opens: 503 with `Retry-After`, no attempt",
)
@pytest.mark.parametrize(
    "failure",
    [refusal(500), refusal(429), refusal(403), refusal(404), [RESET], [CLOSE], stream(b"nonsense")],
    ids=["500", "429", "403", "404", "reset", "cut", "nonsense"],
)
def test_consecutive_failures_open_the_circuit(api, alice, other, upstream, failure):
    upstream.will(failure)
    for client in [api, other, api, other]:
        assert ask(client).status_code in (502, 503)
    assert len(upstream.requests) == FAILURES
    for client in (api, other):
        assert_open(client, upstream, 10)
    assert row() is not None
    assert set(Completion.objects.values_list("settlement", "cost_nanos")) == {("released", 0)}
    alice.refresh_from_db()
    assert alice.held_nanos == 0
    assert_ledger_is_consistent()


def test_a_success_resets_the_failure_count(api, upstream):
    failing = [refusal(500)] * (FAILURES - 1)
    upstream.will(*failing, whole(), *failing, whole())
    for _ in range(2):
        fail(*[api] * (FAILURES - 1))
        assert ask(api).status_code == 200
    assert len(upstream.requests) == 2 * FAILURES
    assert row() is None


def test_an_open_circuit_is_passed_over_without_an_attempt(api, open_circuit, large, upstream, spare):
    add(large, spare)
    assert_answered(ask(api), "spare", 1)
    assert upstream.requests == []


def test_what_one_account_provokes_counts_once_against_the_uptime_and_pages_nobody(api, other, upstream):
    since, own = timezone.now() - timedelta(hours=1), metrics.own_circuit_refusals_total._value
    before = own.get()
    upstream.will(whole(), *[refusal(500)] * FAILURES)
    assert [ask(api).status_code for _ in range(30)] == [200] + [502] * FAILURES + [503] * (29 - FAILURES)
    measured = measurements.measure_models(since)
    assert (measured["acme/large"].answered, measured["acme/large"].failed) == (1, 1)
    assert own.get() - before == 29 - FAILURES
    kept_out = Completion.objects.filter(failed_attempts=[])
    assert (kept_out.count(), set(kept_out.values_list("settlement", "attempts"))) == (25, {("released", 0)})
    assert measurements.measure(since)["scripted", "acme/large"].failed == FAILURES  # attempts alone
    upstream.will(refusal(500))
    fail(other)
    assert measurements.measure_models(since)["acme/large"].failed == 1 + 1
    assert ask(api).status_code == 503  # the fault is the route's now
    assert own.get() - before == 29 - FAILURES


def test_an_invalid_request_is_not_counted(api, other, upstream):
    upstream.will(refusal(400))
    for client in [api, other] * FAILURES:
        assert ask(client).status_code == 400
    assert len(upstream.requests) == 2 * FAILURES
    assert failures() == 0


def test_a_break_within_a_stream_is_not_counted(api, other, upstream):
    upstream.will(stream(ROLE, words("Hello "), 0.02, RESET))
    for client in [api, other] * FAILURES:
        assert text(events(ask_streamed(client))) == "Hello "
    assert len(upstream.requests) == 2 * FAILURES
    assert failures() == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("order", [{"status": 500}, {"break_after_tokens": 0}, {"break_after_tokens": 1}], ids=str)
def test_failures_ordered_from_the_echo_are_not_counted(api, other, echo_model, order, stream):
    asked = {"model": "demo/echo", "messages": MESSAGES, "stream": stream, "echo": order}
    for client in [api, other] * FAILURES:
        answer = client.post("/v1/chat/completions", asked)
        if answer.streaming:
            events(answer)
    assert failures() == 0
    assert ask(api, model="demo/echo").status_code == 200
    assert Route.objects.get(provider="echo").rests_until is None


def test_failures_of_earlier_requests_do_not_prolong_the_open_time(api, other, upstream):
    gate = threading.Event()
    upstream.will([gate, *refusal(500)])
    running = [gevent.spawn(ask, client) for client in [api, other] * FAILURES]
    once(lambda: len(upstream.requests) == 2 * FAILURES, gate.set)
    assert [answer.get().status_code for answer in running] == [502] * (2 * FAILURES)
    assert_open(api, upstream, 10)


def test_pending_retry_gives_up_when_circuit_opens(api, other, upstream, settings, monkeypatch):
    settings.UPSTREAM_ATTEMPTS_MAX = 2

    def pause(seconds):
        wait_until(lambda: any(circuit.openings for circuit in circuits()))

    monkeypatch.setattr(attempts, "gevent", SimpleNamespace(sleep=pause))
    gate = threading.Event()
    upstream.will([gate, *refusal(500)])
    running = [gevent.spawn(ask, client) for client in [api, other] * (FAILURES // 2)]
    once(lambda: len(upstream.requests) == FAILURES, gate.set)
    assert [answer.get().status_code for answer in running] == [502] * FAILURES
    assert len(upstream.requests) == FAILURES
    assert_open(api, upstream, 10)


def test_an_opening_is_counted_and_logged(api, other, upstream, caplog):
    counted = metrics.circuit_opened_total.labels("scripted")._value
    before = counted.get()
    upstream.will(refusal(500))
    fail(api, other, api, other)
    assert counted.get() - before == 1
    assert caplog.text.count("circuit open: large-2026 at scripted for 10 s, in this process; a hint to other processes") == 1


# --- By account --------------------------------------------------------------------------------------------------


def test_failures_of_one_account_open_the_circuit_for_that_account_only(api, alice, other, upstream):
    upstream.will(*[refusal(500)] * FAILURES, whole())
    fail(*[api] * FAILURES)
    assert_open(api, upstream, 10)
    assert row() is None
    assert ask(other).status_code == 200
    assert row() is None


@fault(
    "Provider",
    "A provider fails for requests of one account only",
    "Other accounts are served by it",
)
def test_repeated_failures_of_one_account_never_open_the_circuit_for_others(api, other, upstream):
    upstream.will(*[refusal(500)] * FAILURES, *[whole()] * 5)
    fail(*[api] * FAILURES)
    for _ in range(5):
        assert ask(other).status_code == 200
        assert_open(api, upstream, 10)  # what it provoked is not forgotten by the success of another
    assert len(upstream.requests) == FAILURES + 5
    assert row() is None


def accounts(number, **options):
    """Return clients of so many accounts."""
    made = [factories.make_account(f"Account {index}", cents=1000, **options) for index in range(number)]
    return [client_for(factories.make_key(account)[1]) for account in made]


@fault(
    "Provider",
    "Several accounts send failing requests while others are served",
    "The others are served as before",
)
def test_an_account_that_is_served_is_not_kept_out_by_failures_of_others(api, upstream):
    upstream.will(whole(), *[refusal(500)] * 4, whole())
    assert ask(api).status_code == 200
    fail(*accounts(4))
    assert row() is not None  # it is open for those who know nothing better
    assert ask(api).status_code == 200


def test_an_account_that_was_served_is_kept_out_once_it_failed_itself(api, upstream):
    upstream.will(whole(), refusal(500))
    assert ask(api).status_code == 200
    fail(*accounts(4), api)
    assert_open(api, upstream, 10)


def test_failures_of_fewer_than_half_of_the_accounts_open_it_for_none_of_the_others(api, upstream, other):
    upstream.will(*[whole()] * 5, *[refusal(500)] * 4, whole())
    for client in accounts(5):
        assert ask(client).status_code == 200
    fail(*accounts(2) * 2)
    assert ask(other).status_code == 200
    assert row() is None


def test_accounts_that_asked_more_than_a_minute_ago_do_not_count(api, other, upstream, breaker_clock):
    upstream.will(refusal(500))
    fail(*[api] * (FAILURES - 1))
    breaker_clock.move_on(61)
    fail(*[other] * (FAILURES - 1))
    assert row() is None


def test_accounts_that_never_paid_count_a_quarter(upstream, settings):
    upstream.will(refusal(500))
    fail(*accounts(7, is_new=True))
    assert row() is None
    fail(*accounts(1, is_new=True))
    assert row() is not None


def test_the_accounts_that_a_route_remembers_are_bounded(upstream, api, monkeypatch):
    monkeypatch.setattr(circuit_breaker, "_ACCOUNTS_MAX", 3)
    upstream.will(whole())
    for client in accounts(5):
        assert ask(client).status_code == 200
    assert len(circuits()) == 1 + 3


def test_failures_of_all_keys_of_an_account_count_together(api, alice, upstream):
    upstream.will(refusal(500))
    others = [client_for(factories.make_key(alice, name=str(number))[1]) for number in range(FAILURES - 1)]
    fail(api, *others)
    for client in [api, *others]:
        assert_open(client, upstream, 10)
    assert row() is None


def test_a_failure_of_a_second_account_opens_the_circuit_for_all(api, other, upstream):
    upstream.will(refusal(500))
    fail(*[api] * FAILURES)
    fail(other)
    assert len(upstream.requests) == FAILURES + 1
    for client in (api, other):
        assert_open(client, upstream, 10)
    assert row() is not None


def test_the_doubled_open_time_of_one_account_does_not_apply_to_others(api, other, upstream):
    upstream.will(refusal(500))
    fail(*[api] * FAILURES)
    for _ in range(3):
        end_open_time()
        fail(api)
    assert_open(api, upstream, 60)
    fail(other)
    assert_open(other, upstream, 10)


# --- Retry-After -------------------------------------------------------------------------------------------------


def test_a_retry_after_opens_the_circuit_for_that_time(api, other, upstream):
    upstream.will(refusal(429, retry_after="7"))
    assert ask(api)["Retry-After"] == "7"
    assert_open(api, upstream, 7)
    assert row() is None
    assert ask(other)["Retry-After"] == "7"  # the limit may be that of the first account alone
    assert len(upstream.requests) == 2
    assert_open(api, upstream, 7)
    assert row() is not None


def test_a_retry_after_opens_the_circuit_no_longer_than_failures_do(api, upstream):
    upstream.will(refusal(429, retry_after="3000"))
    assert ask(api).status_code == 503
    assert_open(api, upstream, 10)


# --- States ------------------------------------------------------------------------------------------------------


def state(account):
    [route] = lookup.find_offer("acme/large").routes
    return circuit_breaker.state(route, account.pk)


def test_a_circuit_is_closed_then_open_then_half_open_then_closed(api, alice, other, upstream):
    assert state(alice) is State.CLOSED
    upstream.will(*[refusal(500)] * FAILURES, whole())
    fail(api, other, api, other)
    assert state(alice) is State.OPEN
    end_open_time()
    assert state(alice) is State.HALF_OPEN
    assert_answered(ask(api), "scripted", 1)
    assert state(alice) is State.CLOSED


# --- Half open ---------------------------------------------------------------------------------------------------


def test_a_successful_probe_closes_the_circuit(api, other, open_circuit, upstream):
    end_open_time()
    assert_answered(ask(api), "scripted", 1)
    for client in (api, other):
        assert_answered(ask(client), "scripted", 1)
    assert failures() == 0


def test_failed_probes_of_several_accounts_double_the_open_time_up_to_a_bound(api, other, open_circuit, upstream):
    upstream.will(refusal(500))
    for seconds in (20, 40, 60, 60, 60):  # 80 and 120 are never sent as Retry-After: no client waits that long
        end_open_time()
        fail(api, other)
        assert_open(other, upstream, seconds)
    [circuit] = [each.shared for each in circuit_breaker._routes.values()]
    assert circuit.open_until - circuit.opened_at == pytest.approx(120)
    end_open_time()
    upstream.will(whole())
    assert ask(other).status_code == 200
    upstream.will(refusal(500))
    fail(api, other, api, other)
    assert_open(api, upstream, 10)


def test_failed_probes_of_one_account_keep_out_no_other(api, other, open_circuit, upstream):
    upstream.will(*[refusal(500)] * 5, whole())
    for _ in range(5):
        end_open_time()
        fail(api)
    assert_open(api, upstream, 60)  # its own circuit
    assert_answered(ask(other), "scripted", 1)


def test_failed_probes_of_accounts_that_never_paid_count_a_quarter(api, open_circuit, upstream):
    end_open_time()
    upstream.will(refusal(500))
    fail(*accounts(7, is_new=True))
    assert circuits()[0].open_until == 0.0
    fail(*accounts(1, is_new=True))
    assert_open(api, upstream, 20)


def test_a_half_open_circuit_lets_exactly_one_request_pass(api, alice, other, open_circuit, upstream):
    gate = threading.Event()
    upstream.will([gate, *whole()], whole())
    end_open_time()
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
def test_an_invalid_request_is_no_verdict_and_the_next_one_probes(api, other, open_circuit, upstream, status):
    upstream.will(refusal(status), whole())
    end_open_time()
    assert ask(api).status_code == 400
    assert_answered(ask(other), "scripted", 1)
    assert failures() == 0


def test_a_slow_probe_blocks_other_requests_for_one_open_time_only(api, other, open_circuit, upstream, breaker_clock):
    gate = threading.Event()
    upstream.will([gate, *whole()], whole())
    end_open_time()
    probe = gevent.spawn(ask, api)
    wait_until(lambda: upstream.requests)
    breaker_clock.move_on(9)
    assert ask(other).status_code == 503
    breaker_clock.move_on(1)
    assert_answered(ask(other), "scripted", 1)
    gate.set()
    assert probe.get().status_code == 200


# --- Between processes -------------------------------------------------------------------------------------------


def another_process_opens(seconds):
    """Store an open circuit in the database row. This process has seen neither a failure nor a success."""
    circuit_breaker._routes.clear()
    Route.objects.update(rests_until=Now() + timedelta(seconds=seconds))


def test_a_hint_is_outweighed_by_a_recent_success(api, other, upstream, breaker_clock, caplog):
    assert_answered(ask(api), "scripted", 1)
    gate = threading.Event()
    upstream.will([gate, *whole()], whole())
    Route.objects.update(rests_until=Now() + timedelta(seconds=60))
    running = gevent.spawn(ask, api)
    once(lambda: upstream.requests[1:], gate.set)
    for _ in range(FAILURES):
        assert_answered(ask(other), "scripted", 1)  # not one of them waits for another
    assert running.get().status_code == 200
    assert "half-open" not in caplog.text


def test_a_hint_refuses_no_request_that_has_no_other_route(api, other, upstream, settings, caplog):
    gate = threading.Event()
    upstream.will([gate, *whole()])
    another_process_opens(30)
    running = [gevent.spawn(ask, client) for client in [api, other] * 10]
    once(lambda: len(upstream.requests) == 20, gate.set)
    assert [answer.get().status_code for answer in running] == [200] * 20
    assert len(upstream.requests) == 20
    assert caplog.text.count("hint: the circuit of large-2026 at scripted is open in another process, for 30 s") == 1


def test_while_one_request_probes_a_hint_the_others_use_the_next_route(api, other, large, upstream, spare):
    another_process_opens(30)
    add(large, spare)
    gate = threading.Event()
    upstream.will([gate, *whole()])
    probe = gevent.spawn(ask, api)
    wait_until(lambda: upstream.requests)
    assert_answered(ask(other), "spare", 1)
    gate.set()
    assert probe.get()["x-gateway-provider"] == "scripted"


def test_after_a_good_probe_of_a_hint_the_route_has_its_place_again(api, other, large, upstream, spare):
    another_process_opens(30)
    add(large, spare)
    for client in (api, other, api):
        assert_answered(ask(client), "scripted", 1)
    assert spare.requests == []


def test_a_route_with_a_hint_answers_where_the_others_fail(api, other, large, upstream, spare, settings):
    settings.UPSTREAM_ATTEMPTS_MAX = 3
    another_process_opens(30)
    add(large, spare)
    gate = threading.Event()
    upstream.will([gate, *whole()], whole())
    spare.will(refusal(500))
    probe = gevent.spawn(ask, api)
    wait_until(lambda: upstream.requests)
    assert_answered(ask(other), "scripted", 2)
    gate.set()
    assert probe.get().status_code == 200


def test_failed_probes_of_a_hint_open_the_circuit_when_they_are_of_several_accounts(api, other, upstream):
    upstream.will(refusal(500))
    another_process_opens(30)
    fail(api, other)
    assert len(upstream.requests) == 2  # fewer than open it without a hint
    for client in (api, other):
        assert_open(client, upstream, 10)


def test_under_a_hint_failures_of_one_account_keep_out_no_other(api, other, large, upstream, spare):
    upstream.will(*[refusal(500)] * FAILURES, whole())
    another_process_opens(30)
    fail(*[api] * FAILURES)
    assert_open(api, upstream, 10)
    add(large, spare)
    assert_answered(ask(other), "scripted", 1)  # it probes at once


def test_an_open_time_of_the_past_is_ignored(api, upstream):
    another_process_opens(-1)
    assert_answered(ask(api), "scripted", 1)
    assert [each.hint_probe_until for each in circuit_breaker._routes.values()] == [0.0]


def test_an_opening_is_written_to_the_row_and_leaves_another_process_asking(api, other, upstream):
    upstream.will(refusal(500))
    fail(api, other, api, other)
    assert row() > timezone.now()
    circuit_breaker._routes.clear()  # as in a process that saw none of it
    upstream.will(whole())
    assert_answered(ask(api), "scripted", 1)
    assert_answered(ask(other), "scripted", 1)


def test_metric_has_the_circuits_that_are_open_in_this_process(api, other, upstream):
    metrics.circuits_open.labels("scripted").set(0)  # as in a process that begins
    shown = metrics.circuits_open.labels("scripted")._value
    another_process_opens(30)
    assert_answered(ask(api), "scripted", 1)
    assert shown.get() == 0
    upstream.will(refusal(500))
    fail(api, other, api, other)
    assert shown.get() == 1
    end_open_time()
    upstream.will(whole())
    assert ask(api).status_code == 200
    assert shown.get() == 0


def test_metric_leaves_out_a_circuit_whose_retry_after_has_passed(api, alice, upstream, breaker_clock):
    shown = metrics.circuits_open.labels("scripted")._value
    upstream.will(refusal(429, retry_after="7"))
    ask(api)
    assert shown.get() == 1
    breaker_clock.move_on(7)
    assert state(alice) is State.CLOSED
    [end] = _timers
    end()
    assert shown.get() == 0
