"""Password hashing that does not delay other requests, although it takes a fifth of a second of a core on purpose.

Hashing runs outside the event loop, on a thread of low priority, one password at a time, and holds no database connection. An
attempt to sign in first waits behind others of its user and its address (``turn_of``). Without a known device it then waits for
a small share of a core, which all such attempts have together (``turn_within_share``).
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import gevent
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from gevent.lock import BoundedSemaphore
from gevent.threadpool import ThreadPool

from gateway_project import errors
from gateway_project.db import pool
from gateway_project.net import disconnects

# Of each process. Whoever waits behind all others waits for two seconds on an idle host.
_WAITING_MAX = 8
_WAIT_SECONDS_MAX = 10
_SHARE = 0.025  # of a core
_BURST_SECONDS = 2  # of a core, above the share: ten passwords on an idle host
_PRESENT_SECONDS = 0.1  # a client that leaves sooner has cost no hash
_NICENESS = 10  # a busy core then gives a completion nine times as much time as a password

_client: ContextVar[Any] = ContextVar("client", default=None)


class OffloadedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """Django's PBKDF2 hasher, in turns, on a thread: the same hashes. Raises ServiceUnavailable, RequestTimeout."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with _turns.turn(_client.get()):
            encoded, seconds = _run_in_thread(super().encode, password, salt, iterations)
            _share.spend(seconds)
        return encoded


@contextmanager
def hash_for(client: Any) -> Iterator[None]:
    """Hash no password in the block once ``client``, a gevent socket, has disconnected. None: do not check."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


@contextmanager
def turn_within_share(client: Any) -> Iterator[None]:
    """Let one request at a time into the block, and only while hashing has not used up its share of a core.

    A client must have stayed for _PRESENT_SECONDS, so that a flood that waits for no reply has no password hashed.
    Raises ServiceUnavailable if that takes too long, RequestTimeout for a client that left.
    """
    with _turns_within_share.turn(client):
        seconds = _share.seconds_until_free()
        if seconds > _WAIT_SECONDS_MAX:
            raise _busy()
        if client is not None:
            seconds = max(seconds, _PRESENT_SECONDS)
        with disconnects.raise_on_disconnect(client, _gone()):
            gevent.sleep(seconds)
        yield


@contextmanager
def turn_of(subject: str, client: Any) -> Iterator[None]:
    """Let one request of the subject, such as ``address 192.0.2.1``, into the block at a time: it takes one place of all."""
    turns = _turns_of.setdefault(subject, _Turns())
    try:
        with turns.turn(client):
            yield
    finally:
        if turns.is_idle:
            _turns_of.pop(subject, None)


class _Share:
    """The processor time that hashing has used, against a burst and then a share of a core (GCRA)."""

    _full_at = 0.0  # when the whole burst is available again

    def spend(self, seconds: float) -> None:
        self._full_at = max(self._full_at, time.monotonic()) + seconds / _SHARE

    def seconds_until_free(self) -> float:
        return max(self._full_at - _BURST_SECONDS / _SHARE - time.monotonic(), 0)


class _Turns:
    """One turn at a time, for which a bounded number of greenlets may wait."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(1)
        self._waiting = 0

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._free.locked()

    @contextmanager
    def turn(self, client: Any) -> Iterator[None]:
        """Wait for the turn, which lasts as long as the block. Raises ServiceUnavailable, RequestTimeout."""
        if self._waiting >= _WAITING_MAX:
            raise _busy()
        if disconnects.has_disconnected(client):
            raise _gone()
        pool.release_connection()  # others need it meanwhile
        self._waiting += 1
        try:
            with disconnects.raise_on_disconnect(client, _gone()):
                if not self._free.acquire(timeout=_WAIT_SECONDS_MAX):
                    raise _busy()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


def _busy() -> errors.ServiceUnavailable:
    message = "Too many people are signing in right now. Try again in a few seconds."
    return errors.NoRoom(message, headers={"Retry-After": "5"})


def _gone() -> errors.RequestTimeout:
    return errors.RequestTimeout("The client disconnected.")


_turns, _turns_within_share, _share = _Turns(), _Turns(), _Share()
_turns_of: dict[str, _Turns] = {}  # by subject: those that are waited for at this moment


def _run_in_thread(work: Callable[..., str], *arguments: Any) -> tuple[str, float]:
    """Return the result, and how many seconds of a core it took."""
    # A thread of its own, because a thread that has lowered its priority may not raise it again.
    threads = ThreadPool(1)
    try:
        result: tuple[str, float] = threads.apply(_run_at_low_priority, (work, *arguments))
        return result
    finally:
        threads.kill()


def _run_at_low_priority(work: Callable[..., str], *arguments: Any) -> tuple[str, float]:
    if sys.platform == "linux":  # which has a priority for each thread; elsewhere this would slow the whole process down
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    return work(*arguments), time.thread_time()
