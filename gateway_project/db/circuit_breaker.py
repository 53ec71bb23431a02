"""A circuit breaker for the database: while it is known not to answer, work is refused at once, and not after ten seconds.

Work that takes a second, or fails for want of the database, is a reason to probe: a greenlet opens a connection of its own and
reads a row. A probe that fails proves little, as this host may be busy. The circuit opens if meanwhile more statements of this
process failed for want of the database, or had no answer, than were answered. Then the connections without an answer are cut
off, and new work is refused. The probe repeats until the database answers. Then the circuit is half-open: one greenlet at a
time may work, and the first answer that it gets closes the circuit.

A server that answers may refuse new connections: of this role, or because there are too many. That opens nothing, as open
connections serve, but work waits for no other one until a probe gets one.

In processes other than web processes, no greenlet runs while the work waits, and nothing probes.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from types import TracebackType
from typing import Any

import gevent
import psycopg
from django.db import OperationalError
from gevent import monkey
from psycopg import pq

from gateway_project import errors, metrics
from gateway_project.db import direct_connections
from gateway_project.deadline import Alarm, ends_within

logger = logging.getLogger("gateway.database")

SLOW_SECONDS = 1  # longer than nearly all work, so that probes are rare
PROBE_SECONDS = 2
TRIAL_SECONDS = 2  # of the greenlet that may work while the circuit is half-open; then another one may, too
PAUSE_SECONDS = 0.2  # between two probes
REFUSED_SECONDS = 0.2  # how long to wait for a connection that another one may return, while new ones are refused

# Class 08 is about connections; the others say that the server stops or starts. All other errors are answers.
_NO_ANSWER = ("08", "57P01", "57P02", "57P03")


class Refusal(str):
    """Why a server that answers refuses a new connection."""

    __slots__ = ()


class CircuitBreaker:
    """``probe`` returns why the database does not answer, a Refusal if it refuses to be connected, or nothing if it answers.

    The circuit is closed while ``_opened_at`` is None. After that it is open while a prober runs, and otherwise half-open.
    """

    def __init__(self, probe: Callable[[], str]) -> None:
        self._probe = probe
        self._prober: gevent.Greenlet | None = None
        self._opened_at: float | None = None
        self._trial: tuple[Any, float] = (None, 0)  # the greenlet that may work while half-open, and until when alone
        self._unanswered: dict[Any, float] = {}  # when the statement was sent for which a connection waits
        self._answered = self._failed = 0  # statements since the probe began
        self.refusal = ""  # why new connections are refused, while they are

    def require_closed(self) -> None:
        """Raises OperationalError while the circuit is open, and to all but one greenlet while it is half-open."""
        if self._opened_at is not None and not self._begin_trial():
            seconds = time.monotonic() - self._opened_at
            raise OperationalError(f"the database does not answer, which is known for {seconds:.1f} seconds")

    def _begin_trial(self) -> bool:
        """Return whether this greenlet may work although the circuit is not closed."""
        if self._prober is not None:
            return False
        greenlet, until = self._trial
        if (now := time.monotonic()) >= until:
            greenlet = gevent.getcurrent()
            self._trial = greenlet, now + TRIAL_SECONDS
        return greenlet is gevent.getcurrent()

    def statement(self, connection: psycopg.Connection[Any] | None = None) -> "_Statement":
        """Count whether what the block sends is answered. Without a connection, the block opens one. May be used again."""
        return _Statement(self, connection)

    def probe_if_slow(self) -> AbstractContextManager[None]:
        """Probe the database when the block takes longer than SLOW_SECONDS, or fails for want of it."""
        return _Suspicion(SLOW_SECONDS, self.suspect) if _has_event_loop() else nullcontext()

    def suspect(self) -> None:
        """Probe the database, unless a probe runs."""
        if self._prober is None and _has_event_loop():
            self._answered = self._failed = 0
            self._prober = gevent.spawn(self._probe_until_answered)

    def _probe_until_answered(self) -> None:
        try:
            began_at = time.monotonic()
            while reason := self._probe():
                stalled = [connection for connection, sent_at in self._unanswered.items() if sent_at < began_at]
                if isinstance(reason, Refusal) and self._opened_at is None:
                    if not self.refusal:
                        logger.error(
                            "the database refuses new connections, and nobody waits for one until it does not: %s", reason
                        )
                    self.refusal = reason
                elif self._opened_at is not None or self._is_outage(len(stalled)):
                    self._open(reason, stalled)
                elif not stalled:  # what is slow next is probed for again
                    break
                gevent.sleep(PAUSE_SECONDS)
                began_at = time.monotonic()
                self._answered = self._failed = 0
        finally:  # also when the probe itself fails: then one request after another finds out for itself
            self._prober, self._trial, self.refusal = None, (None, 0), ""

    def _is_outage(self, stalled: int) -> bool:
        """Return whether statements, too, say that the database does not answer. Without any, the probe is believed."""
        return not self._answered or self._failed + stalled > self._answered

    def _open(self, reason: str, stalled: list[psycopg.Connection[Any]]) -> None:
        if self._opened_at is None:
            self._opened_at = time.monotonic()
            metrics.database_circuit_opened_total.inc()
            logger.error("the database does not answer, and what needs it is refused until it does: %s", reason)
        for connection in stalled:  # shut its socket down: who waits for it gets the error of a lost connection
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)

    def _close_if_half_open(self) -> None:
        if self._opened_at is not None and self._prober is None:
            logger.warning("the database answers again, after %.1f seconds", time.monotonic() - self._opened_at)
            self._opened_at = None


class _Statement:
    """Notes that a connection waits for an answer, from when the block begins until it ends."""

    __slots__ = ("_circuit", "_connection")

    def __init__(self, circuit: CircuitBreaker, connection: psycopg.Connection[Any] | None) -> None:
        self._circuit, self._connection = circuit, connection

    def __enter__(self) -> None:
        if self._connection is not None:
            self._circuit._unanswered[self._connection] = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._connection is not None:
            self._circuit._unanswered.pop(self._connection, None)
        if error is None or _is_answer(error):
            self._circuit._answered += 1
            if self._circuit._opened_at is not None:
                self._circuit._close_if_half_open()
        elif isinstance(error, (psycopg.OperationalError, OperationalError)):
            self._circuit.suspect()
            self._circuit._failed += 1


class _Suspicion(Alarm):
    """Calls its function also when the block fails for want of the database."""

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._ticker.alarms.pop(self, None)
        if isinstance(error, OperationalError):
            self._action()


@cache
def _has_event_loop() -> bool:
    return bool(monkey.is_module_patched("socket"))


def _is_answer(error: BaseException) -> bool:
    """Return whether the error is one with which the server answered. Django keeps psycopg's error as the cause."""
    state = getattr(error.__cause__ or error, "sqlstate", None)
    return state is not None and not state.startswith(_NO_ANSWER)


def _probe() -> str:
    """Ask for a row on a new connection. Return why the database does not answer, or nothing if it does."""
    asking = gevent.spawn(_ask)
    if ends_within(asking, PROBE_SECONDS):
        reason: str = asking.get()
        return reason
    asking.kill()
    return f"no answer within {PROBE_SECONDS} seconds"


def _ask() -> str:
    """The same without a time limit of its own."""
    try:
        with direct_connections.connect(connect_timeout=PROBE_SECONDS) as connection:
            connection.execute("SELECT 1")
        return ""
    except psycopg.Error as error:
        conninfo = direct_connections.conninfo(connect_timeout=PROBE_SECONDS).encode()
        # In a thread, because libpq does not give way to other greenlets here.
        accepts_connections = gevent.get_hub().threadpool.apply(pq.PGconn.ping, (conninfo,)) == pq.Ping.OK
        return Refusal(errors.reason(error)) if accepts_connections else errors.reason(error)


process_circuit = CircuitBreaker(_probe)
