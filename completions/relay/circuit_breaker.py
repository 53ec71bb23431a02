"""A circuit breaker for each route. A circuit is CLOSED, OPEN or HALF_OPEN:

    CLOSED      requests pass. ``CIRCUIT_FAILURES`` failures in a row open the circuit.
    OPEN        no request passes, for ``CIRCUIT_OPEN_SECONDS``. A ``Retry-After`` opens it too, at most that long.
    HALF_OPEN   the open time is over: one request, the probe, passes. Its success closes the circuit; its failure opens it
                again, for twice as long as before, up to two minutes.

Each process counts the failures that it sees, and its circuits are its own. When it opens one it also writes so on the route's
row, where the other processes find it when they next read the catalog, a second later: no request waits for this exchange. To
them the row is a hint and no more, because the fault may be that of the first one's host. A process that had a success within
``CIRCUIT_OPEN_SECONDS`` ignores it. In any other, one request at a time probes the route, and the rest ask their other routes
first. Those that have no other ask it all the same: a hint refuses nothing. A success ends the hint there, a failure opens the
circuit. What keeps this host from connecting at all is not counted here (``local_faults``).

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
from gateway_project import errors, metrics
from gateway_project.db import pool

logger = logging.getLogger("gateway.circuit_breaker")

_OPEN_SECONDS_MAX = 120
_TIMER_SECONDS = 0.1  # a timer may fire a little too early


class State(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(slots=True)
class _Circuit:
    """A route that failed since its last success; other routes have no circuit here. Times are by the monotonic clock."""

    provider_slug: str
    account_id: UUID | None  # the only account whose requests failed; None: there are several
    failures: int = 0  # in a row
    openings: int = 0  # for failures, in a row; a Retry-After alone is not counted, and no probe follows it
    opened_at: float = 0.0
    open_until: float = 0.0
    probe_until: float = 0.0  # while a probe runs, but no longer than this, no other request passes


_circuits: dict[int, _Circuit] = {}  # by route id
_succeeded_at: dict[int, float] = {}  # by route id: this process's latest success
_hint_probes: dict[int, float] = {}  # by route id: until when other requests prefer other routes, because one probes a hint


def allows_request(route: chat.Route, account_id: UUID) -> bool:
    """Return whether the route may be asked now. After True the caller must call one of the ``record_`` functions."""
    match state(route, account_id):
        case State.CLOSED:
            if _heeds_hint(route) and not stands_back(route):
                _begin_hint_probe(route)
            return True
        case State.OPEN:
            return False
        case State.HALF_OPEN:
            return _starts_probe(route, account_id)


def stands_back(route: chat.Route) -> bool:
    """Return whether other routes should be asked before this one: another process hints at a fault, and a probe runs."""
    return _heeds_hint(route) and _hint_probes.get(route.id, 0.0) > time.monotonic()


def state(route: chat.Route, account_id: UUID) -> State:
    """Return the state of the route's circuit for this account."""
    if open_seconds(route, account_id) > 0:
        return State.OPEN
    circuit = _circuit_for(route, account_id)
    return State.HALF_OPEN if circuit and circuit.openings else State.CLOSED


def open_seconds(route: chat.Route, account_id: UUID) -> float:
    """Return how long the circuit stays open for this account. Not above 0: it is not open."""
    circuit = _circuit_for(route, account_id)
    return circuit.open_until - time.monotonic() if circuit else 0.0


def record_success(route: chat.Route) -> None:
    """Close the circuit, for all accounts."""
    _succeeded_at[route.id] = time.monotonic()
    circuit = _circuits.pop(route.id, None)
    _hint_probes.pop(route.id, None)
    if circuit and circuit.opened_at:
        _log(route, "circuit closed: %s at %s, in this process")
        _show(route.provider_slug)


def record_no_verdict(route: chat.Route, account_id: UUID) -> None:
    """End a probe that says nothing about the route: the next request may probe it."""
    _hint_probes.pop(route.id, None)
    if circuit := _circuit_for(route, account_id):
        circuit.probe_until = 0.0


def record_failure(route: chat.Route, account_id: UUID, *, attempted_at: float, wait_seconds: float | None = None) -> None:
    """Count a failure. Open the circuit when it was one too many, or when the upstream sent a Retry-After.

    ``attempted_at`` is by the monotonic clock. ``wait_seconds`` is the Retry-After.
    """
    circuit = _circuits.setdefault(route.id, _Circuit(route.provider_slug, account_id))
    is_hinted = _heeds_hint(route)  # then requests of other accounts failed too, in another process
    if circuit.account_id is not None and (is_hinted or circuit.account_id != account_id):
        circuit = _circuits[route.id] = _Circuit(route.provider_slug, None, failures=circuit.failures)
    if attempted_at < circuit.opened_at:  # sent before the circuit opened: its failure is no news
        return
    circuit.failures += 1
    circuit.probe_until = 0.0
    if is_hinted or circuit.openings or circuit.failures >= settings.CIRCUIT_FAILURES:
        seconds = min(settings.CIRCUIT_OPEN_SECONDS * 2**circuit.openings, _OPEN_SECONDS_MAX)
        circuit.openings += 1
        _open(route, circuit, seconds)
    elif wait_seconds:
        _open(route, circuit, min(wait_seconds, settings.CIRCUIT_OPEN_SECONDS))


def _circuit_for(route: chat.Route, account_id: UUID) -> _Circuit | None:
    """Return the route's circuit, unless only another account's requests failed."""
    circuit = _circuits.get(route.id)
    return circuit if circuit and circuit.account_id in (None, account_id) else None


def _heeds_hint(route: chat.Route) -> bool:
    """Whether a circuit is open in another process, and this one had no success of late that outweighs it."""
    now = time.monotonic()
    return route.hinted_until > now and now - _succeeded_at.get(route.id, -math.inf) > settings.CIRCUIT_OPEN_SECONDS


def _starts_probe(route: chat.Route, account_id: UUID) -> bool:
    """Make the caller's request the probe. Return False while another probe runs.

    A probe keeps others out for a bounded time only, because a good reply may take minutes.
    """
    now, circuit = time.monotonic(), _circuit_for(route, account_id)
    if circuit is None or circuit.probe_until > now:
        return False
    circuit.probe_until = now + settings.CIRCUIT_OPEN_SECONDS
    _log(route, "circuit half-open: %s at %s: one request probes it")
    return True


def _begin_hint_probe(route: chat.Route) -> None:
    now = time.monotonic()
    _hint_probes[route.id] = now + settings.CIRCUIT_OPEN_SECONDS
    _log(route, "hint: the circuit of %s at %s is open in another process, for %s s", math.ceil(route.hinted_until - now))


def _open(route: chat.Route, circuit: _Circuit, seconds: float) -> None:
    circuit.opened_at = time.monotonic()
    circuit.open_until = circuit.opened_at + seconds
    metrics.circuit_opened_total.labels(route.provider_slug).inc()
    _hint_probes.pop(route.id, None)
    _show(route.provider_slug)
    if not circuit.openings:  # a Retry-After alone: when its time is over the circuit is closed, without any request
        gevent.spawn_later(seconds + _TIMER_SECONDS, _show, route.provider_slug)
    scope = f", for account {circuit.account_id} only" if circuit.account_id else "; a hint to other processes"
    _log(route, "circuit open: %s at %s for %s s, in this process%s", math.ceil(seconds), scope)
    if circuit.account_id is None:
        gevent.spawn(_write_to_row, route.id, timedelta(seconds=seconds))


def _log(route: chat.Route, message: str, *arguments: object) -> None:
    """Log a change of a circuit. The message begins with the names of the model and the provider."""
    facts = {"provider": route.provider_slug, "model": route.upstream_model}
    logger.warning(message, route.upstream_model, route.provider_slug, *arguments, extra=facts)


def _show(provider_slug: str) -> None:
    """Set the metric: how many circuits of this provider are open or half-open here."""
    now = time.monotonic()
    circuits = [circuit for circuit in _circuits.values() if circuit.provider_slug == provider_slug]
    metrics.circuits_open.labels(provider_slug).set(sum(each.openings > 0 or each.open_until > now for each in circuits))


def _write_to_row(route_id: int, open_time: timedelta) -> None:
    try:
        with pool.time_limit():
            Route.objects.filter(pk=route_id).update(rests_until=Now() + open_time)
    except pool.DATABASE_ERRORS as error:
        logger.warning("cannot tell other workers that the circuit of route %s is open: %s", route_id, errors.reason(error))
    finally:
        pool.release_connection()
