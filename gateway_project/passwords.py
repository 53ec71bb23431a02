"""Password hashing that does not delay other requests, although it takes a fifth of a second of a core on purpose.

It runs outside the event loop, on a thread of low priority, one password at a time, and keeps no database connection. Few
requests may wait for their turn, and none whose client has disconnected.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from gevent.lock import BoundedSemaphore
from gevent.threadpool import ThreadPool

from gateway_project import errors
from gateway_project.db import pool
from gateway_project.net import disconnects

# Of each process. Whoever waits behind all others waits for two seconds on an idle host.
_WAITING_MAX = 8
_NICENESS = 10  # a busy core then gives a completion nine times as much time as a password

_client: ContextVar[Any] = ContextVar("client", default=None)


class OffloadedPBKDF2PasswordHasher(PBKDF2PasswordHasher):
    """Django's PBKDF2 hasher, in turns, on a thread: the same hashes. Raises ServiceUnavailable, RequestTimeout."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        pool.release_connection()
        with _turns.turn(_client.get()):
            return _run_in_thread(super().encode, password, salt, iterations)


@contextmanager
def hash_for(client: Any) -> Iterator[None]:
    """Hash no password in the block once ``client``, a gevent socket, has disconnected. None: do not check."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


class _Turns:
    """One turn at a time, for which a bounded number of greenlets may wait."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(1)
        self._waiting = 0

    @contextmanager
    def turn(self, client: Any) -> Iterator[None]:
        """Wait for the turn, which lasts as long as the block. Raises ServiceUnavailable, RequestTimeout."""
        if self._waiting >= _WAITING_MAX:
            message = "Too many people are signing in at this moment. Try again in a few seconds."
            raise errors.ServiceUnavailable(message, headers={"Retry-After": "5"})
        gone = errors.RequestTimeout("The client disconnected.")
        if client is not None and disconnects.peek(client) == b"":
            raise gone
        self._waiting += 1
        try:
            with disconnects.raise_on_disconnect(client, gone):
                self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


_turns = _Turns()


def _run_in_thread(work: Callable[..., str], *arguments: Any) -> str:
    # A thread of its own, because a thread that has lowered its priority may not raise it again.
    threads = ThreadPool(1)
    try:
        result: str = threads.apply(_run_at_low_priority, (work, *arguments))
        return result
    finally:
        threads.kill()


def _run_at_low_priority(work: Callable[..., str], *arguments: Any) -> str:
    if sys.platform == "linux":  # which has a priority for each thread; elsewhere this would slow the whole process down
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    return work(*arguments)
