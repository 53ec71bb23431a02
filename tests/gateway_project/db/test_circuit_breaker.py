"""The circuit breaker of the database: what opens it, whom it cuts off, and how it closes."""

import socket
from collections.abc import Iterator
from typing import Any

import gevent
import psycopg
import pytest
from django.db import OperationalError
from gevent.event import Event
from psycopg.errors import LockNotAvailable

from gateway_project.db import circuit_breaker
from gateway_project.db.circuit_breaker import CircuitBreaker, Refusal


class Probe:
    """Fails until it is told otherwise. Each turn of it ends when the test says so."""

    def __init__(self) -> None:
        self.reason = "no answer"
        self.runs, self.ends = Event(), Event()

    def __call__(self) -> str:
        self.runs.set()
        self.ends.wait()
        self.ends.clear()
        return self.reason


@pytest.fixture
def probe(monkeypatch) -> Probe:
    monkeypatch.setattr(circuit_breaker, "_has_event_loop", lambda: True)
    monkeypatch.setattr(circuit_breaker, "PAUSE_SECONDS", 0)
    return Probe()


@pytest.fixture
def circuit(probe) -> Iterator[CircuitBreaker]:
    circuit = CircuitBreaker(probe)
    yield circuit
    if circuit._prober:
        circuit._prober.kill()


@pytest.fixture
def near_and_far() -> Iterator[tuple[Any, Any]]:
    """Both ends of a connection of which a statement waits."""
    near, far = socket.socketpair()
    far.settimeout(60)
    with near, far:
        yield near, far


def end(circuit: CircuitBreaker, probe: Probe, reason: str = "no answer") -> None:
    """End the probe, and return when the next one runs, or when it was the last."""
    probe.runs.clear()
    probe.reason = reason
    probe.ends.set()
    while circuit._prober and not probe.runs.is_set():
        gevent.sleep(0)


def answer(circuit: CircuitBreaker, connection: Any = None) -> None:
    with circuit.statement(connection):
        pass


def fail(circuit: CircuitBreaker, error: Exception) -> None:
    with pytest.raises(type(error)), circuit.statement():
        raise error


def lost() -> psycopg.OperationalError:
    return psycopg.OperationalError("the connection was lost")


def is_open(circuit: CircuitBreaker) -> bool:
    try:
        circuit.require_closed()
    except OperationalError:
        return True
    return False


def opened(circuit: CircuitBreaker, probe: Probe) -> None:
    fail(circuit, lost())
    assert probe.runs.wait(60)
    end(circuit, probe)
    assert is_open(circuit)


def test_a_probe_that_fails_while_most_statements_are_answered_opens_nothing_and_cuts_nobody_off(circuit, probe, near_and_far):
    near, far = near_and_far
    with circuit.statement(near):
        circuit.suspect()
        assert probe.runs.wait(60)
        for _ in range(2):
            answer(circuit)
        end(circuit, probe)
        assert not is_open(circuit)
        near.send(b"works")
        assert far.recv(5) == b"works"


def test_statements_of_which_most_fail_open_the_circuit_when_a_probe_fails_too(circuit, probe):
    fail(circuit, lost())
    assert probe.runs.wait(60)
    answer(circuit)
    fail(circuit, lost())
    assert not is_open(circuit)
    end(circuit, probe)
    assert is_open(circuit)


def test_an_error_of_the_server_is_an_answer(circuit, probe):
    fail(circuit, LockNotAvailable("canceling statement due to lock timeout"))
    assert circuit._prober is None
    circuit.suspect()
    assert probe.runs.wait(60)
    fail(circuit, LockNotAvailable("canceling statement due to lock timeout"))
    end(circuit, probe)
    assert not is_open(circuit)


def test_only_a_connection_that_had_no_answer_since_the_probe_began_is_cut_off(circuit, probe, near_and_far):
    near, far = near_and_far
    stalled, other = socket.socketpair()
    with stalled, other, circuit.statement(stalled), circuit.statement(near):
        circuit.suspect()
        assert probe.runs.wait(60)
        fail(circuit, lost())
        circuit.statement(near).__exit__(None, None, None)  # answered, and another one is sent
        with circuit.statement(near):
            end(circuit, probe)
            assert is_open(circuit)
            near.send(b"works")
            assert far.recv(5) == b"works"
            assert stalled.recv(1) == b""


def test_a_probe_that_succeeds_lets_one_greenlet_work_and_its_first_answer_closes_the_circuit(circuit, probe):
    opened(circuit, probe)
    end(circuit, probe, "")
    assert gevent.spawn(is_open, circuit).get() is False
    assert is_open(circuit)  # to everybody else
    answer(circuit)
    assert not is_open(circuit)


def test_a_failure_of_the_one_that_works_opens_the_circuit_again(circuit, probe):
    opened(circuit, probe)
    end(circuit, probe, "")
    circuit.require_closed()
    fail(circuit, lost())
    assert is_open(circuit)
    assert probe.runs.wait(60)
    end(circuit, probe, "")
    assert not is_open(circuit)


def test_a_greenlet_that_works_and_asks_nothing_does_not_keep_others_out_for_long(circuit, probe, monkeypatch):
    opened(circuit, probe)
    end(circuit, probe, "")
    monkeypatch.setattr(circuit_breaker, "TRIAL_SECONDS", 0)
    assert gevent.spawn(is_open, circuit).get() is False
    assert not is_open(circuit)


def test_a_server_that_refuses_new_connections_opens_nothing_and_is_known_until_it_accepts_one(circuit, probe):
    fail(circuit, lost())
    assert probe.runs.wait(60)
    for _ in range(2):
        end(circuit, probe, Refusal("too many connections"))
        assert (circuit.refusal, is_open(circuit)) == ("too many connections", False)
    end(circuit, probe, "")
    assert (circuit.refusal, is_open(circuit)) == ("", False)


def test_a_server_that_refuses_connections_after_an_outage_is_away_still(circuit, probe):
    opened(circuit, probe)
    end(circuit, probe, Refusal("password authentication failed"))
    assert is_open(circuit)
