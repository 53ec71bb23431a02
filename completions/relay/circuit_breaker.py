"""Which routes rest. One that failed again and again is not asked for a while, then one request finds out how it is.

Each process counts what it sees; that a route rests it also writes on the route's row, where the others find it when they next
read the catalog, a second later. So no request waits for what workers tell each other.

There are requests that fail wherever they are asked, and somebody may send them all day. So a route that failed for one account
only rests for that account only; it takes the failure of a second one to say that it is the route.
"""

import logging
import math
import time
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import gevent
from django.conf import settings
from django.db.models.functions import Now

from completions import chat
from completions.models import Route
from gateway_project import metrics
from gateway_project.db import pool

logger = logging.getLogger("gateway.circuits")

_REST_SECONDS_MAX = 120  # it doubles each time that the first request after it fails, too


@dataclass(slots=True)
class _Circuit:
    """What is known of a route that failed last. All times are by the monotonic clock."""

    account_id: UUID | None  # for which alone it failed; None: for more than one
    failures: int = 0  # in a row
    rests: int = 0  # in a row
    rested_at: float = 0.0  # when the last rest began
    until: float = 0.0  # ... and when it ends
    probed_until: float = 0.0  # a first request after a rest is on its way; so long the others leave it alone


_circuits: dict[int, _Circuit] = {}  # by route id


def allows_request(route: chat.Route, account_id: UUID) -> bool:
    """Whether to ask this way now. Who is told so must say how it went: one of the ``record_`` functions."""
    _learn(route)
    if open_seconds(route, account_id) > 0:
        return False
    circuit = _concerning(route, account_id)
    if circuit and circuit.rests:
        if circuit.probed_until > time.monotonic():
            return False
        circuit.probed_until = time.monotonic() + settings.CIRCUIT_REST_SECONDS
    return True


def open_seconds(route: chat.Route, account_id: UUID) -> float:
    """How long it still rests for this account, by what this process saw or another one wrote."""
    circuit = _concerning(route, account_id)
    return max(route.rests_until, circuit.until if circuit else 0.0) - time.monotonic()


def record_success(route: chat.Route) -> None:
    _circuits.pop(route.id, None)


def record_no_verdict(route: chat.Route, account_id: UUID) -> None:
    """It ended in a way that says nothing about the route."""
    if circuit := _concerning(route, account_id):
        circuit.probed_until = 0.0


def record_failure(route: chat.Route, account_id: UUID, *, attempted_at: float, wait_seconds: float | None = None) -> None:
    """``attempted_at`` is by the monotonic clock; ``wait_seconds`` is for how long it asked not to be asked."""
    circuit = _circuits.setdefault(route.id, _Circuit(account_id))
    if circuit.account_id not in (None, account_id):
        circuit = _circuits[route.id] = _Circuit(None, failures=circuit.failures)
    if attempted_at < circuit.rested_at:  # it was on its way when the others failed, and says nothing new
        return
    circuit.failures += 1
    circuit.probed_until = 0.0
    if circuit.rests or circuit.failures >= settings.CIRCUIT_FAILURES:
        seconds = min(settings.CIRCUIT_REST_SECONDS * 2**circuit.rests, _REST_SECONDS_MAX)
        circuit.rests += 1
        _rest(route, circuit, seconds)
    elif wait_seconds:
        _rest(route, circuit, min(wait_seconds, settings.CIRCUIT_REST_SECONDS))


def _concerning(route: chat.Route, account_id: UUID) -> _Circuit | None:
    circuit = _circuits.get(route.id)
    return circuit if circuit and circuit.account_id in (None, account_id) else None


def _learn(route: chat.Route) -> None:
    """What another process wrote: here, too, the first request after the rest goes alone."""
    if route.rests_until > time.monotonic():
        circuit = _circuits.setdefault(route.id, _Circuit(None))
        circuit.account_id = None
        if not circuit.rests:
            circuit.rests, circuit.rested_at = 1, time.monotonic()


def _rest(route: chat.Route, circuit: _Circuit, seconds: float) -> None:
    circuit.rested_at = time.monotonic()
    circuit.until = circuit.rested_at + seconds
    metrics.route_rests_total.labels(route.provider_slug).inc()
    whom = f", for account {circuit.account_id} alone" if circuit.account_id else ""
    logger.warning("%s at %s rests for %s s%s", route.upstream_model, route.provider_slug, math.ceil(seconds), whom)
    if circuit.account_id is None:
        gevent.spawn(_tell_others, route.id, timedelta(seconds=seconds))


def _tell_others(route_id: int, rest: timedelta) -> None:
    try:
        with pool.time_limit():
            Route.objects.filter(pk=route_id).update(rests_until=Now() + rest)
    except pool.DATABASE_ERRORS as error:
        logger.warning("cannot tell other workers that route %s rests: %s", route_id, error)
    finally:
        pool.release_connection()
