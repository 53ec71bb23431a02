"""Reads facts within a time limit, once for all who ask within a few seconds.

A scrape must end while the database or the broker does not answer, in processes with and without an event loop. So one thread
for each reading reads, and the scrape waits for it for a bounded time.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from gateway_project import errors

Value = TypeVar("Value")

logger = logging.getLogger("gateway.metrics")

WAIT_SECONDS = 3.0
KEPT_SECONDS = 5.0


class _Attempt(Generic[Value]):
    def __init__(self) -> None:
        self.started_at = time.monotonic()
        self.ended_at = 0.0
        self.ended = threading.Event()
        self.value: Value | None = None

    def is_outdated(self) -> bool:
        return self.ended.is_set() and time.monotonic() - self.ended_at > KEPT_SECONDS


class Reading(Generic[Value]):
    """What ``read`` returns. It may raise anything; ``what`` names it in the log."""

    def __init__(self, what: str, read: Callable[[], Value]) -> None:
        self._what, self._read = what, read
        self._lock = threading.Lock()
        self._attempt: _Attempt[Value] | None = None

    def latest(self) -> Value | None:
        """Return the reading of the last KEPT_SECONDS, or a new one. None: reading failed, or takes too long."""
        with self._lock:
            attempt = self._attempt
            if attempt is None or attempt.is_outdated():
                attempt = self._attempt = _Attempt()
                threading.Thread(target=self._run, args=(attempt,), name=f"reading of {self._what}", daemon=True).start()
        attempt.ended.wait(max(0.0, attempt.started_at + WAIT_SECONDS - time.monotonic()))
        return attempt.value

    def _run(self, attempt: _Attempt[Value]) -> None:
        try:
            attempt.value = self._read()
        except Exception as error:  # a scrape shows everything else, whatever is wrong here
            logger.warning("cannot read %s for the metrics: %s", self._what, errors.reason(error))
        finally:
            attempt.ended_at = time.monotonic()
            attempt.ended.set()
