"""The shutdown of a worker: ends the waits for providers early enough to settle, before the server closes all connections."""

from collections.abc import Callable
from types import TracebackType
from typing import Any

import gevent

_POLL_SECONDS = 0.2
_SETTLING_SECONDS = 3  # the time to end all waits, settle, and send the last events

_waiting: dict[Any, Callable[[], BaseException]] = {}  # by greenlet: makes the exception to raise in it
_has_ended = False


class interruptible:  # noqa: N801  a context manager
    """Raises what ``failure`` makes in a block, or several in turn, that must only wait, when the worker must end."""

    __slots__ = ("_failure", "_waiter")

    def __init__(self, failure: Callable[[], BaseException]) -> None:
        self._failure = failure

    def __enter__(self) -> None:
        if _has_ended:
            raise self._failure()
        self._waiter = waiter = gevent.getcurrent()
        _waiting[waiter] = self._failure

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        _waiting.pop(self._waiter, None)


def watch(is_alive: Callable[[], bool], grace_seconds: float) -> None:
    """Call ``end`` near the end of the grace period that begins when ``is_alive`` turns false. Each worker calls this once."""

    def wait() -> None:
        while is_alive():
            gevent.sleep(_POLL_SECONDS)
        gevent.sleep(max(grace_seconds - _SETTLING_SECONDS, 0))
        end()

    gevent.spawn(wait)


def end() -> None:
    """Raise its exception in every ``interruptible`` block, now and from now on."""
    global _has_ended
    _has_ended = True
    # From the event loop itself: no greenlet can end its wait between the check in _interrupt and the throw.
    gevent.get_hub().loop.run_callback(_interrupt)


def _interrupt() -> None:
    for waiter, failure in list(_waiting.items()):
        if waiter in _waiting:
            waiter.throw(failure())
