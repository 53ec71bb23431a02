"""What keeps this host from connecting says nothing about the provider: its circuit stays closed, here and elsewhere."""

import encodings.unicode_escape  # noqa: F401  of Django's log, which a test without descriptors could not import
import errno
import os
import resource
import threading
from contextlib import contextmanager

import pytest
from geventhttpclient.connectionpool import ConnectionPool

from completions.models import Completion, Route
from completions.relay import circuit_breaker, route_health
from tests import factories
from tests.completions.routes import add, assert_answered, assert_attempts, change_provider
from tests.completions.rows import ask, ask_streamed, disconnect
from tests.completions.rows import begin as read_until
from tests.conftest import client_for
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.monotonic_clock import use_clock
from tests.upstream import DONE, FINISH, ROLE, stream, usage, words

MESSAGE = "The gateway cannot connect to the model's provider. Try again later."


def circuits_that_failed():
    circuits = [each for route in circuit_breaker._routes.values() for each in (route.shared, *route.by_account.values())]
    return [circuit for circuit in circuits if circuit.failures]


@pytest.fixture(autouse=True)
def _rules(settings):
    settings.CIRCUIT_FAILURES = 2


@pytest.fixture(autouse=True)
def pause_clock(monkeypatch):
    """The clock of the pauses. It stands still, so they do not pass while a slow machine works."""
    clock = use_clock(monkeypatch, route_health)
    clock.stop()
    return clock


@contextmanager
def no_descriptors(large, settings):
    """Let the process open no further file. The connection that it has goes to another pool."""
    change_provider(large, connect_seconds=7)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_name(large, settings):
    address = large.routes.get().provider.base_url
    change_provider(large, base_url="http://upstream.invalid/v1")
    yield
    change_provider(large, base_url=address)


@contextmanager
def no_permission(large, settings):
    permitted = settings.PRIVATE_UPSTREAMS
    change_provider(large, connect_seconds=7)
    settings.PRIVATE_UPSTREAMS = []
    yield
    settings.PRIVATE_UPSTREAMS = permitted


@fault(
    "Network",
    "A host has no descriptor, name server or permitted way to a provider",
    "502, and one attempt per second. No circuit opens, also on other hosts",
)
@pytest.mark.parametrize("fault", [no_descriptors, no_name, no_permission])
def test_local_fault_opens_no_circuit_and_is_tried_once_a_second(
    api, alice, charlie, large, upstream, settings, pause_clock, caplog, fault
):
    clients = [api, client_for(factories.make_key(charlie)[1])]
    assert {ask(client).status_code for client in clients} == {200}  # they have their connections to the database
    assert ask(api, model="acme/none").status_code == 404  # the code of errors is loaded
    with fault(large, settings):
        for client in (*clients, api):
            answer = ask(client)
            assert (answer.status_code, answer.json()["error"]["message"]) == (502, MESSAGE)
            assert_attempts(1)
        for client in clients:
            answer = ask(client)
            assert (answer.status_code, answer.json()["error"]["message"]) == (502, MESSAGE)
            assert answer["Retry-After"] == "1"
            assert_attempts(0)
    assert (circuits_that_failed(), Route.objects.get().rests_until) == ([], None)
    assert caplog.text.count("this host cannot connect to scripted") == 1
    pause_clock.move_on(1)
    assert_answered(ask(api), "scripted", 1)
    assert route_health._faults == {}
    assert len(upstream.requests) == 3
    assert Completion.objects.filter(settlement="released", cost_nanos=0).count() == 5
    assert_ledger_is_consistent()


@fault(
    "Network",
    "This host's network loses the way to a provider",
    "502, and 503 with `Retry-After` once the circuit is open; no error blames the provider's load",
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_provider_out_of_reach_is_not_called_overloaded(api, alice, large, upstream, monkeypatch, path):
    def connect(pool, *address):
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(ConnectionPool, "_connect_socket", connect)
    request = {"model": "acme/large", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello"}]}
    answers = [api.post(path, request, format="json") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [502, 503]
    assert not any("overloaded" in answer.json()["error"]["message"] for answer in answers)
    assert answers[1].json()["error"]["message"] == (
        "The gateway does not ask the model's provider at the moment, because requests to it failed."
    )
    assert answers[1]["Retry-After"]
    assert_attempts(0)


def test_a_server_of_ones_own_network_that_is_switched_off_opens_its_circuit(api, alice, large, upstream, monkeypatch):
    def connect(pool, *address):
        raise OSError(errno.EHOSTUNREACH, "No route to host")  # what Linux says when nobody there answers to ARP

    monkeypatch.setattr(ConnectionPool, "_connect_socket", connect)
    for attempts in (2, 0):
        assert ask(api).status_code in (502, 503)
        assert_attempts(attempts)
    assert [circuit.openings for circuit in circuits_that_failed()] == [1]
    assert upstream.requests == []


def test_a_pool_whose_connections_are_all_in_use_opens_no_circuit(api, alice, large, upstream, settings):
    settings.UPSTREAM_CONNECTIONS_MAX = 1
    gate = threading.Event()
    upstream.will(stream(ROLE, 0.02, words("Hello "), gate, words("you"), FINISH, usage(), DONE))
    running = ask_streamed(api)
    read_until(running, "Hello ")
    change_provider(large, first_byte_seconds=1)
    for _ in range(2):
        answer = ask(api)
        assert (answer.status_code, answer.json()["error"]["message"]) == (502, MESSAGE)
    assert (circuits_that_failed(), len(upstream.requests)) == ([], 1)
    gate.set()
    disconnect(running)


def test_another_route_answers_after_a_local_fault_and_in_its_pause(api, alice, large, upstream, spare):
    change_provider(large, base_url="http://upstream.invalid/v1")
    add(large, spare)
    for attempts in (2, 2, 2, 1):
        assert_answered(ask(api), "spare", attempts)
    assert upstream.requests == []
    assert circuits_that_failed() == []
