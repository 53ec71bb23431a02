"""A circuit breaker for the database: work is refused at once while the database is known not to answer.

Otherwise each request would find that out for itself, ten seconds later. Work that takes a second, or that fails for want of
the database, is a reason to probe: a greenlet opens a connection of its own and reads a row. If that fails, the circuit opens:
work that waits is cut off, and new work is refused. There is one probe at a time. It repeats until the database answers, and
then the circuit closes.

This takes place in web processes only. In others, no greenlet runs while the work waits.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any
from weakref import WeakSet

import gevent
import psycopg
from django.db import OperationalError
from gevent import monkey
from psycopg import pq

from gateway_project import errors, metrics
from gateway_project.db import direct_connections
from gateway_project.deadline import Alarm

logger = logging.getLogger("gateway.database")

SLOW_SECONDS = 1  # longer than nearly all work, so that probes are rare
PROBE_SECONDS = 2
PAUSE_SECONDS = 0.2  # between two probes


class CircuitBreaker:
    """``probe`` returns why the database does not answer, or nothing if it does."""

    def __init__(self, probe: Callable[[], str]) -> None:
        self._probe = probe
        self._prober: gevent.Greenlet | None = None
        self._opened_at: float | None = None
        self._connections: WeakSet[psycopg.Connection[Any]] = WeakSet()

    def require_closed(self) -> None:
        """Raises OperationalError while the circuit is open."""
        if self._opened_at is not None:
            seconds = time.monotonic() - self._opened_at
            raise OperationalError(f"the database does not answer, which is known for {seconds:.1f} seconds")

    def watch(self, connection: psycopg.Connection[Any]) -> None:
        """Cut the connection off when the circuit opens, so that nobody waits for it in vain."""
        self._connections.add(connection)

    def probe_if_slow(self) -> AbstractContextManager[None]:
        """Probe the database when the block takes longer than SLOW_SECONDS, or fails for want of it."""
        return _Suspicion(SLOW_SECONDS, self.suspect) if _has_event_loop() else nullcontext()

    def suspect(self) -> None:
        """Probe the database, unless a probe runs."""
        if self._prober is None and _has_event_loop():
            self._prober = gevent.spawn(self._probe_until_answered)

    def _probe_until_answered(self) -> None:
        try:
            while reason := self._probe():
                self._open(reason)
                gevent.sleep(PAUSE_SECONDS)
        finally:  # also when the probe itself fails: then each request finds out for itself again
            self._prober = None
            self._close()

    def _open(self, reason: str) -> None:
        if self._opened_at is None:
            self._opened_at = time.monotonic()
            metrics.database_circuit_opened_total.inc()
            logger.error("the database does not answer, and what needs it is refused until it does: %s", reason)
        for connection in list(self._connections):
            _cut_off(connection)

    def _close(self) -> None:
        if self._opened_at is not None:
            logger.warning("the database answers again, after %.1f seconds", time.monotonic() - self._opened_at)
            self._opened_at = None


class _Suspicion(Alarm):
    """Calls its function also when the block fails for want of the database."""

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._ticker.alarms.pop(self, None)
        if isinstance(error, OperationalError):
            self._action()


def _has_event_loop() -> bool:
    return bool(monkey.is_module_patched("socket"))


def _cut_off(connection: psycopg.Connection[Any]) -> None:
    """Shut the connection's socket down. Who waits for it gets the error of a lost connection."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


def _probe() -> str:
    """Ask the database for a row on a new connection. Return why it does not answer, or nothing if it does.

    A server that refuses this connection alone, because there are too many, does answer.
    """
    try:
        with gevent.Timeout(PROBE_SECONDS):
            with direct_connections.connect(connect_timeout=PROBE_SECONDS) as connection:
                connection.execute("SELECT 1")
            return ""
    except gevent.Timeout:
        return f"no answer within {PROBE_SECONDS} seconds"
    except psycopg.Error as error:
        return "" if _accepts_connections() else errors.reason(error)


def _accepts_connections() -> bool:
    # In a thread, because libpq does not give way to other greenlets here.
    conninfo = direct_connections.conninfo(connect_timeout=PROBE_SECONDS).encode()
    return bool(gevent.get_hub().threadpool.apply(pq.PGconn.ping, (conninfo,)) == pq.Ping.OK)


process_circuit = CircuitBreaker(_probe)
