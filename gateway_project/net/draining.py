"""LEAF. The end of a worker: who waits for an upstream is told in time to settle, before the server cuts everybody off."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gevent

_POLL_SECONDS = 0.2
_SETTLING_SECONDS = 3  # what telling everybody, settling and saying goodbye takes

_waiting: dict[Any, BaseException] = {}  # by greenlet: what to raise in it
_is_over = False


@contextmanager
def interruptible(goodbye: BaseException) -> Iterator[None]:
    """Around a wait for an upstream, and nothing else: when the worker must end, ``goodbye`` is raised in it."""
    if _is_over:
        raise goodbye
    waiter = gevent.getcurrent()
    _waiting[waiter] = goodbye
    try:
        yield
    finally:
        _waiting.pop(waiter, None)


def watch(is_alive: Callable[[], bool], grace_seconds: float) -> None:
    """In each worker: once it is told to stop, let what runs go on for most of the grace, then end it."""
    gevent.spawn(_watch, is_alive, grace_seconds)


def _watch(is_alive: Callable[[], bool], grace_seconds: float) -> None:
    while is_alive():
        gevent.sleep(_POLL_SECONDS)
    gevent.sleep(max(grace_seconds - _SETTLING_SECONDS, 0))
    end()


def end() -> None:
    """Raise their goodbye in all who wait, and in all who would from now on."""
    global _is_over
    _is_over = True
    # From the loop itself, where nobody can have stopped waiting between the look and the throw.
    gevent.get_hub().loop.run_callback(_interrupt)


def _interrupt() -> None:
    for waiter, goodbye in list(_waiting.items()):
        if waiter in _waiting:
            waiter.throw(goodbye)
