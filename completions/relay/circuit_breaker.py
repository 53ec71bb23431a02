"""A circuit breaker for each route. A circuit is CLOSED, OPEN or HALF_OPEN:

    CLOSED      requests pass. ``CIRCUIT_FAILURES`` failures in a row open the circuit.
    OPEN        no request passes, for ``CIRCUIT_OPEN_SECONDS``. A ``Retry-After`` opens it too, at most that long.
    HALF_OPEN   the open time is over: one request, the probe, passes. Its success closes the circuit; its failure opens it
                again, for twice as long as before, up to two minutes.

Each process counts the failures that it sees. When it opens a circuit it also writes so on the route's row. The other processes
find it there when they next read the catalog, a second later, so no request waits for this exchange.

Some requests fail on every route, and one caller may send them all day. So failures for one account open the circuit for that
account only. It opens for everybody when the requests of a second account fail too: then the fault is the route's.
"""

import logging
import math
import time
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from uuid import UUID

import gevent
from django.conf import settings
from django.db.models.functions import Now

from completions import chat
from completions.models import Route
from gateway_project import metrics
from gateway_project.db import pool

logger = logging.getLogger("gateway.circuit_breaker")

_OPEN_SECONDS_MAX = 120


class State(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(slots=True)
class _Circuit:
    """A route that failed since its last success; other routes have no circuit here. Times are by the monotonic clock."""

    account_id: UUID | None  # the only account whose requests failed; None: there are several
    failures: int = 0  # in a row
    openings: int = 0  # for failures, in a row; a Retry-After alone is not counted, and no probe follows it
    opened_at: float = 0.0
    open_until: float = 0.0
    probe_until: float = 0.0  # while a probe runs, but no longer than this, no other request passes


_circuits: dict[int, _Circuit] = {}  # by route id


def allows_request(route: chat.Route, account_id: UUID) -> bool:
    """Return whether the route may be asked now. After True the caller must call one of the ``record_`` functions."""
    _learn_from_row(route)
    match state(route, account_id):
        case State.CLOSED:
            return True
        case State.OPEN:
            return False
        case State.HALF_OPEN:
            return _starts_probe(_circuits[route.id])


def state(route: chat.Route, account_id: UUID) -> State:
    """Return the state of the route's circuit for this account."""
    if open_seconds(route, account_id) > 0:
        return State.OPEN
    circuit = _circuit_for(route, account_id)
    return State.HALF_OPEN if circuit and circuit.openings else State.CLOSED


def open_seconds(route: chat.Route, account_id: UUID) -> float:
    """Return how long the circuit stays open for this account, by this process or by the route's row. Not above 0: not open."""
    circuit = _circuit_for(route, account_id)
    return max(route.open_until, circuit.open_until if circuit else 0.0) - time.monotonic()


def record_success(route: chat.Route) -> None:
    """Close the circuit, for all accounts."""
    _circuits.pop(route.id, None)


def record_no_verdict(route: chat.Route, account_id: UUID) -> None:
    """End a probe that says nothing about the route: the next request may probe it."""
    if circuit := _circuit_for(route, account_id):
        circuit.probe_until = 0.0


def record_failure(route: chat.Route, account_id: UUID, *, attempted_at: float, wait_seconds: float | None = None) -> None:
    """Count a failure. Open the circuit when it was one too many, or when the upstream sent a Retry-After.

    ``attempted_at`` is by the monotonic clock. ``wait_seconds`` is the Retry-After.
    """
    circuit = _circuits.setdefault(route.id, _Circuit(account_id))
    if circuit.account_id not in (None, account_id):
        circuit = _circuits[route.id] = _Circuit(None, failures=circuit.failures)
    if attempted_at < circuit.opened_at:  # sent before the circuit opened: its failure is no news
        return
    circuit.failures += 1
    circuit.probe_until = 0.0
    if circuit.openings or circuit.failures >= settings.CIRCUIT_FAILURES:
        seconds = min(settings.CIRCUIT_OPEN_SECONDS * 2**circuit.openings, _OPEN_SECONDS_MAX)
        circuit.openings += 1
        _open(route, circuit, seconds)
    elif wait_seconds:
        _open(route, circuit, min(wait_seconds, settings.CIRCUIT_OPEN_SECONDS))


def _circuit_for(route: chat.Route, account_id: UUID) -> _Circuit | None:
    """Return the route's circuit, unless only another account's requests failed."""
    circuit = _circuits.get(route.id)
    return circuit if circuit and circuit.account_id in (None, account_id) else None


def _starts_probe(circuit: _Circuit) -> bool:
    """Make the caller's request the probe. Return False while another probe runs.

    A probe keeps others out for one open time only, because a good reply may take minutes.
    """
    if circuit.probe_until > time.monotonic():
        return False
    circuit.probe_until = time.monotonic() + settings.CIRCUIT_OPEN_SECONDS
    return True


def _learn_from_row(route: chat.Route) -> None:
    """Treat a circuit that another process opened like one opened here: after the open time this process probes it, too."""
    if route.open_until > time.monotonic():
        circuit = _circuits.setdefault(route.id, _Circuit(None))
        circuit.account_id = None
        if not circuit.openings:
            circuit.openings, circuit.opened_at = 1, time.monotonic()


def _open(route: chat.Route, circuit: _Circuit, seconds: float) -> None:
    circuit.opened_at = time.monotonic()
    circuit.open_until = circuit.opened_at + seconds
    metrics.circuit_opened_total.labels(route.provider_slug).inc()
    scope = f", for account {circuit.account_id} only" if circuit.account_id else ""
    logger.warning("circuit open: %s at %s for %s s%s", route.upstream_model, route.provider_slug, math.ceil(seconds), scope)
    if circuit.account_id is None:
        gevent.spawn(_write_to_row, route.id, timedelta(seconds=seconds))


def _write_to_row(route_id: int, open_time: timedelta) -> None:
    try:
        with pool.time_limit():
            Route.objects.filter(pk=route_id).update(rests_until=Now() + open_time)
    except pool.DATABASE_ERRORS as error:
        logger.warning("cannot tell other workers that the circuit of route %s is open: %s", route_id, error)
    finally:
        pool.release_connection()
