"""Refusals of a key that has as many requests in flight as it may: the first come at once, the next at a rate."""

from contextlib import closing

import gevent
import pytest
from gevent import socket

from completions.relay import slots
from gateway_project import errors
from gateway_project.db import pool
from tests import chat, factories, usage
from tests.conftest import client_for


@pytest.fixture
def refusals(monkeypatch):
    """The slots of a process in which refusals wait from the first one on, five seconds each."""
    monkeypatch.setattr(slots, "_REFUSALS_BURST", 0)
    monkeypatch.setattr(slots, "_REFUSALS_PER_SECOND", 0.2)
    return slots.ProcessSlots(clock=lambda: 100.0)


def test_a_few_refusals_are_not_held_back_and_the_next_wait_in_turn(refusals, monkeypatch):
    monkeypatch.setattr(slots, "_REFUSALS_BURST", 2)
    assert [refusals._wait_seconds("a") for _ in range(6)] == [0, 0, 5, 10, 10, 10]
    assert refusals._wait_seconds("b") == 0


def test_a_client_that_leaves_is_held_back_no_longer(refusals):
    here, there = socket.socketpair()
    with closing(here), closing(there):
        held = gevent.spawn(refusals.hold_back, "a", here)
        gevent.sleep(0)
        assert refusals.taken == 1  # so probes and pages keep their connections
        there.close()
        with pytest.raises(errors.RequestTimeout):
            held.get()
    assert refusals.taken == 0


def test_no_more_than_a_quarter_of_the_slots_hold_refusals_back(refusals, settings):
    settings.WORKER_CONNECTIONS = 10  # nine slots
    held = [gevent.spawn(refusals.hold_back, "a", None) for _ in range(3)]
    gevent.sleep(0)
    assert (refusals.taken, [greenlet.ready() for greenlet in held]) == (2, [False, False, True])
    gevent.killall(held)
    assert refusals.taken == 0


@pytest.mark.parametrize("runs_in", ["this process", "another"])
def test_each_refusal_for_requests_in_flight_is_counted(alice, echo_model, runs_in):
    """Also those of admission, which alone knows what other processes run."""
    key, secret = factories.make_key(alice, requests_in_flight_max=1)
    client = client_for(secret)
    running = chat.ask(client, stream=True) if runs_in == "this process" else None
    if running is None:
        usage.reserve(key, day=pool.database_time().date(), amount_nanos=0)
    assert chat.ask(client).status_code == 429
    assert slots.process_slots._refused_until.get(key.pk)
    if running:
        running.getvalue()
