"""Passwords are hashed outside the event loop, one at a time, to the same hashes as Django's."""

import os
from contextlib import closing

import gevent
import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connection
from gevent import socket

from gateway_project import errors, passwords
from gateway_project.passwords import OffloadedPBKDF2PasswordHasher


def test_the_stored_hash_equals_djangos():
    encoded = OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    assert encoded == PBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    assert OffloadedPBKDF2PasswordHasher().verify("secret", encoded)
    assert not OffloadedPBKDF2PasswordHasher().verify("other", encoded)


def test_other_greenlets_run_while_a_password_is_hashed():
    hashing = gevent.spawn(OffloadedPBKDF2PasswordHasher().encode, "secret", "salt", 1_000_000)
    turns = 0
    while not hashing.ready():
        turns += 1
        gevent.sleep(0.001)
    assert turns > 1  # hashed in the event loop itself, it would be ready after the first


def test_no_database_connection_is_kept_meanwhile(transactional_db):
    connection.ensure_connection()
    OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    assert connection.connection is None
    connection.ensure_connection()
    with passwords.turn_of("address 192.0.2.1", None):
        assert connection.connection is None  # nor while a turn is waited for


def test_the_priority_of_the_process_is_unchanged():
    before = os.getpriority(os.PRIO_PROCESS, 0)
    OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_few_requests_may_wait_and_the_next_is_refused():
    hasher = OffloadedPBKDF2PasswordHasher()
    with passwords._turns.turn(None):  # as if a password were being hashed
        waiting = [gevent.spawn(hasher.encode, "secret", "salt", 1_000) for _ in range(passwords._WAITING_MAX)]
        gevent.sleep(0)
        with pytest.raises(errors.ServiceUnavailable) as refused:
            hasher.encode("secret", "salt", 1_000)
        assert refused.value.headers["Retry-After"] == "5"
    assert {greenlet.get() for greenlet in waiting} == {hasher.encode("secret", "salt", 1_000)}


def test_who_waits_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(passwords, "_WAIT_SECONDS_MAX", 0.01)
    with passwords._turns.turn(None), pytest.raises(errors.ServiceUnavailable):
        OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    assert OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)


@pytest.mark.parametrize("leaves", ["before", "while waiting"])
def test_nothing_is_hashed_for_a_client_that_disconnected(leaves):
    here, there = socket.socketpair()

    def hash_password() -> None:
        with passwords.hash_for(here):
            OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)

    with closing(here), closing(there), passwords._turns.turn(None):
        if leaves == "before":
            there.close()
        hashing = gevent.spawn(hash_password)
        gevent.sleep(0)
        there.close()
        with pytest.raises(errors.RequestTimeout):
            hashing.get()
        assert passwords._turns._waiting == 0


# --- The share -------------------------------------------------------------------------------------------------------


@pytest.fixture
def share(monkeypatch):
    """The share of a process that has just started."""
    monkeypatch.setattr(passwords, "_share", passwords._Share())
    return passwords._share


def test_each_hash_takes_from_the_share_what_it_took_of_a_core(share):
    OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    little = share._full_at
    OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 100_000)
    assert 0 < little < share._full_at


def test_a_burst_is_let_in_at_once_and_then_one_as_its_share_allows(share):
    share.spend(passwords._BURST_SECONDS)
    assert share.seconds_until_free() == 0
    share.spend(0.2)
    assert 0 < share.seconds_until_free() <= 0.2 / passwords._SHARE  # 8 seconds


def test_a_request_that_waits_for_its_share_gets_in_once_those_before_it_have_left(share):
    share.spend(passwords._BURST_SECONDS + 0.05 * passwords._SHARE)
    let_in = []

    def enter(client, name) -> None:
        with passwords.turn_within_share(client):
            let_in.append(name)

    pairs = [socket.socketpair() for _ in range(3)]
    waiting = [gevent.spawn(enter, here, number) for number, (here, _) in enumerate(pairs)]
    gevent.sleep(0)
    for _, there in pairs[:2]:
        there.close()
    gevent.joinall(waiting)
    assert let_in == [2]
    assert [type(greenlet.exception) for greenlet in waiting[:2]] == [errors.RequestTimeout] * 2
    for here, there in pairs:
        here.close()
        there.close()


def test_a_client_that_leaves_at_once_does_not_get_its_turn(share):
    here, there = socket.socketpair()
    let_in = []

    def enter() -> None:
        with passwords.turn_within_share(here):
            let_in.append("let in")

    with closing(here), closing(there):
        waiting = gevent.spawn(enter)
        gevent.sleep(0)
        there.close()
        gevent.joinall([waiting])
    assert let_in == []
    assert type(waiting.exception) is errors.RequestTimeout
    assert passwords._turns_within_share._free.counter == 1  # the next one has it
