"""Refusals of a key that has as many requests in flight as it may: the first come at once, the next at a rate."""

from contextlib import closing, suppress
from uuid import uuid4

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


@pytest.mark.parametrize(("fields", "status"), [({"temperature": 3}, 400), ({"model": "demo/none"}, 404)])
def test_each_invalid_request_is_counted_and_no_other(alice, echo_model, fields, status):
    """No limit per minute counts it, and the next one must wait: it costs a process as much as a completion."""
    key, secret = factories.make_key(alice)
    client = client_for(secret)
    assert chat.ask(client).status_code == 200
    assert slots.process_slots._refused_until.get(key.pk) is None
    assert chat.ask(client, **fields).status_code == status
    assert slots.process_slots._refused_until.get(key.pk)


# --- Slots of one key ---------------------------------------------------------------------------------------------


@pytest.fixture
def of_process(settings):
    settings.KEY_REQUESTS_IN_FLIGHT, settings.ACCOUNT_REQUESTS_IN_FLIGHT = 2, 3
    return slots.ProcessSlots()


ACCOUNT_ID = uuid4()


def count_taken(of_process, *key_ids, is_repeatable=False):
    """Take slots for the keys of one account until they are refused."""
    for key_id in key_ids:
        for _ in range(10):
            with suppress(errors.TooManyInFlight):
                of_process.take(key_id, ACCOUNT_ID, is_repeatable=is_repeatable)
    return of_process.taken


def test_a_key_that_the_process_has_not_read_takes_no_more_than_the_deployments_maximum(of_process):
    assert count_taken(of_process, "a") == 2


def test_requests_whose_replies_may_be_stored_take_twice_as_many_slots(of_process):
    assert count_taken(of_process, "a", is_repeatable=True) == 4


def test_the_keys_of_an_account_take_no_more_than_its_maximum(of_process):
    assert count_taken(of_process, "a", "b", "c") == 3
    of_process.take("d", uuid4(), is_repeatable=False)


def test_released_slots_are_free_again_and_leave_nothing_behind(of_process):
    for _ in range(5):
        of_process.take("a", ACCOUNT_ID, is_repeatable=False)
        of_process.release("a", ACCOUNT_ID)
    assert (of_process.taken, dict(of_process._by_owner)) == (0, {})


def test_no_refusal_is_held_back_where_all_slots_are_taken(refusals, settings):
    settings.WORKER_CONNECTIONS = 10
    refusals.taken = 9
    refusals.hold_back("a", None)
    assert refusals.taken == 9
