"""A circuit breaker for each route, and one for each account on it. A circuit is CLOSED, OPEN or HALF_OPEN:

    CLOSED      requests pass. ``CIRCUIT_FAILURES`` failures in a row open the circuit.
    OPEN        no request passes, for ``CIRCUIT_OPEN_SECONDS``. A ``Retry-After`` opens it too, at most that long.
    HALF_OPEN   the open time is over: one request, the probe, passes. Its success closes the circuit; its failure opens it
                again, for twice as long as before, up to two minutes. (The route's own needs several: see below.)

One caller may send requests all day that fail on every route. So what an account's requests provoke opens the circuit of that
account alone. The route's own circuit, which keeps everyone out, needs several accounts: of those that asked within the last
minute, ``CIRCUIT_ACCOUNTS`` must fail, and at least half of all. An account counts once, however much it sends; one that has
never paid counts a quarter. An account whose own latest request succeeded within that minute is not kept out by others.

The route's circuit opens again only when the probes of as many accounts failed, and none succeeded. Until then a failed probe
lets the next request probe at once: one account cannot keep a provider closed that answers the others.

Each process has circuits of its own. It writes the opening of a route's to the route's row, where other processes read it with
the catalog. To them that is a hint, as the fault may be that of the first one's host: it refuses nothing, and a success within
``CIRCUIT_OPEN_SECONDS`` outweighs it. One request at a time probes the route, and the rest ask their other routes first. One
failure of each of several accounts then opens the circuit. Faults of this host are not counted here (``route_health``).
"""

import logging
import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial
from uuid import UUID

import gevent
from django.conf import settings
from django.db.models.functions import Now

from completions import chat
from completions.models import Route
from gateway_project import metrics
from gateway_project.db import repetition

logger = logging.getLogger("gateway.circuit_breaker")

_OPEN_SECONDS_MAX = 120
_WINDOW_SECONDS = 60  # in which the accounts of a route are counted
_ACCOUNTS_MAX = 1_000  # of each route
_WEIGHT, _NEW_WEIGHT = 4, 1  # of an account, and of one that has never paid
_TIMER_SECONDS = 0.1  # a timer may fire a little too early


class State(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(slots=True)
class _Circuit:
    """The circuit of a route, or of one account on it. Times are by the monotonic clock."""

    account_id: UUID | None = None  # None: for everybody
    failures: int = 0  # in a row
    openings: int = 0  # for failures, in a row; a Retry-After alone is not counted, and no probe follows it
    opened_at: float = 0.0
    open_until: float = 0.0
    probe_until: float = 0.0  # while a probe runs, but no longer than this, no other request passes
    ended_at: float = 0.0  # when the account's latest request succeeded or failed
    weight: int = _WEIGHT


@dataclass(slots=True)
class _RouteCircuits:
    provider_slug: str
    shared: _Circuit = field(default_factory=_Circuit)
    by_account: OrderedDict[UUID, _Circuit] = field(default_factory=OrderedDict)
    failed_probes: dict[UUID, int] = field(default_factory=dict)  # weights of accounts, since the open time of ``shared`` ended
    succeeded_at: float = -math.inf  # this process's latest success
    hint_probe_until: float = 0.0  # until then other requests prefer other routes, because one probes a hint

    def note(self, account_id: UUID) -> _Circuit:
        circuit = self.by_account.get(account_id)
        if circuit is None:
            circuit = self.by_account[account_id] = _Circuit(account_id)
            if len(self.by_account) > _ACCOUNTS_MAX:
                self.by_account.popitem(last=False)
        else:
            self.by_account.move_to_end(account_id)
        circuit.ended_at = time.monotonic()
        return circuit

    def applying_to(self, account_id: UUID) -> list[_Circuit]:
        """Return the circuits that decide whether a request of the account may pass."""
        own = self.by_account.get(account_id)
        if own is None:
            return [self.shared]
        has_succeeded = not own.failures and own.ended_at > time.monotonic() - _WINDOW_SECONDS
        return [own] if has_succeeded else [own, self.shared]

    def fails_for_several(self) -> tuple[bool, int]:
        """Return whether the requests of enough accounts fail, and how many failures in a row these have together."""
        since = time.monotonic() - _WINDOW_SECONDS
        asked_weight = failed_weight = failures = 0
        for circuit in reversed(self.by_account.values()):
            if circuit.ended_at < since:
                break
            asked_weight += circuit.weight
            failed_weight += circuit.weight if circuit.failures else 0
            failures += circuit.failures
        return _are_several(failed_weight) and 2 * failed_weight >= asked_weight, failures

    def count_failed_probe(self, account_id: UUID, weight: int) -> bool:
        """Count an account whose probe of ``shared`` failed. Return whether these are enough; then the next count begins."""
        self.failed_probes[account_id] = weight
        are_enough = _are_several(sum(self.failed_probes.values()))
        if are_enough:
            self.failed_probes.clear()
        return are_enough


def _are_several(weight: int) -> bool:
    return weight >= settings.CIRCUIT_ACCOUNTS * _WEIGHT


_routes: dict[int, _RouteCircuits] = {}  # by route id


def allows_request(route: chat.Route, account_id: UUID) -> bool:
    """Return whether the route may be asked now. After True the caller must call one of the ``record_`` functions."""
    match state(route, account_id):
        case State.CLOSED:
            if _has_hint(route) and not stands_back(route):
                now = time.monotonic()
                _circuits(route).hint_probe_until = now + settings.CIRCUIT_OPEN_SECONDS
                seconds = math.ceil(route.hinted_until - now)
                _log(route, "hint: the circuit of %s at %s is open in another process, for %s s", seconds)
            return True
        case State.OPEN:
            return False
        case State.HALF_OPEN:
            return _starts_probe(route, account_id)


def stands_back(route: chat.Route) -> bool:
    """Return whether other routes should be asked before this one: another process hints at a fault, and a probe runs."""
    return _has_hint(route) and _circuits(route).hint_probe_until > time.monotonic()


def state(route: chat.Route, account_id: UUID) -> State:
    """Return the state of the route for this account: of its own circuit and the route's the one that lets less pass."""
    applying, now = _circuits(route).applying_to(account_id), time.monotonic()
    if any([circuit.open_until > now for circuit in applying]):  # noqa: C419  faster
        return State.OPEN
    return State.HALF_OPEN if any([circuit.openings for circuit in applying]) else State.CLOSED  # noqa: C419


def open_seconds(route: chat.Route, account_id: UUID) -> float:
    """Return how long the route stays closed to this account by an open circuit. Not above 0: it does not."""
    open_until = max(circuit.open_until for circuit in _circuits(route).applying_to(account_id))
    return open_until - time.monotonic() if open_until else 0.0


def fails_for_several(route: chat.Route) -> bool:
    """Return whether the fault is the route's: it fails for several accounts, or its circuit is not closed, or a hint holds."""
    if _has_hint(route):
        return True
    circuits = _circuits(route)
    shared = circuits.shared
    return shared.openings > 0 or shared.open_until > time.monotonic() or circuits.fails_for_several()[0]


def has_succeeded_since(route: chat.Route, moment: float) -> bool:
    """Return whether a request of this process had an answer of the route since a moment of the monotonic clock."""
    return _circuits(route).succeeded_at >= moment


def record_success(route: chat.Route, account_id: UUID) -> None:
    """Close the account's circuit, and the route's. If that was open, the fault was the route's: close all of it."""
    circuits = _circuits(route)
    own, shared = circuits.note(account_id), circuits.shared
    circuits.succeeded_at, circuits.hint_probe_until = own.ended_at, 0.0
    if not (own.failures or own.opened_at or shared.opened_at):
        return
    was_open = bool(own.opened_at or shared.opened_at)
    if shared.opened_at:
        circuits.shared = _Circuit()
        circuits.by_account.clear()
        circuits.failed_probes.clear()
    circuits.by_account[account_id] = _Circuit(account_id, ended_at=own.ended_at)
    if was_open:
        _log(route, "circuit closed: %s at %s, in this process")
        _show(route.provider_slug)


def record_no_verdict(route: chat.Route, account_id: UUID) -> None:
    """End a probe that says nothing about the route: the next request may probe it."""
    circuits = _circuits(route)
    circuits.hint_probe_until = 0.0
    for circuit in circuits.applying_to(account_id):
        circuit.probe_until = 0.0


def record_failure(
    route: chat.Route, account_id: UUID, *, attempted_at: float, wait_seconds: float | None = None, is_new_account: bool = False
) -> None:
    """Count a failure, which may open circuits. ``attempted_at`` is monotonic, ``wait_seconds`` the provider's Retry-After."""
    circuits, is_hinted = _circuits(route), _has_hint(route)
    own, shared = circuits.note(account_id), circuits.shared
    own.weight = _NEW_WEIGHT if is_new_account else _WEIGHT
    if attempted_at >= own.opened_at:  # otherwise sent before the circuit opened: its failure is no news
        own.failures += 1
        own.probe_until = 0.0
        _open_after_failure(route, own, own.failures, wait_seconds)
    if attempted_at < shared.opened_at or shared.open_until > own.ended_at:  # or it was let pass because it had been served
        return
    shared.probe_until = 0.0  # unless the circuit opens below, the next request probes
    circuits.hint_probe_until = 0.0
    if shared.openings:
        if circuits.count_failed_probe(account_id, own.weight):
            _open_for_failures(route, shared)
        return
    are_several, failures = circuits.fails_for_several()
    if are_several and is_hinted:
        _open_for_failures(route, shared)
    elif are_several:
        _open_after_failure(route, shared, failures, wait_seconds)


def _circuits(route: chat.Route) -> _RouteCircuits:
    if route.own_key_id:  # what comes of an account's own key says nothing about ours, and is not kept
        return _RouteCircuits(route.provider_slug)
    circuits = _routes.get(route.id)
    if circuits is None:
        circuits = _routes[route.id] = _RouteCircuits(route.provider_slug)
    return circuits


def _has_hint(route: chat.Route) -> bool:
    """Return whether a circuit is open in another process, and this one had no recent success that outweighs it."""
    now = time.monotonic()
    return route.hinted_until > now and now - _circuits(route).succeeded_at > settings.CIRCUIT_OPEN_SECONDS


def _starts_probe(route: chat.Route, account_id: UUID) -> bool:
    """Make the caller's request the probe. Return False while another runs, for a bounded time: a reply may take minutes."""
    now, circuits = time.monotonic(), [each for each in _circuits(route).applying_to(account_id) if each.openings]
    if any(circuit.probe_until > now for circuit in circuits):
        return False
    for circuit in circuits:
        circuit.probe_until = now + settings.CIRCUIT_OPEN_SECONDS
    _log(route, "circuit half-open: %s at %s: one request probes it")
    return True


def _open_after_failure(route: chat.Route, circuit: _Circuit, failures: int, wait_seconds: float | None) -> None:
    """Open the circuit if these failures in a row are enough, or else for the time of a Retry-After."""
    if circuit.openings or failures >= settings.CIRCUIT_FAILURES:
        _open_for_failures(route, circuit)
    elif wait_seconds:
        _open(route, circuit, min(wait_seconds, settings.CIRCUIT_OPEN_SECONDS))


def _open_for_failures(route: chat.Route, circuit: _Circuit) -> None:
    seconds = min(settings.CIRCUIT_OPEN_SECONDS * 2**circuit.openings, _OPEN_SECONDS_MAX)
    circuit.openings += 1
    _open(route, circuit, seconds)


def _open(route: chat.Route, circuit: _Circuit, seconds: float) -> None:
    circuit.opened_at = time.monotonic()
    circuit.open_until = circuit.opened_at + seconds
    metrics.circuit_opened_total.labels(route.provider_slug).inc()
    _circuits(route).hint_probe_until = 0.0
    _show(route.provider_slug)
    if not circuit.openings:  # a Retry-After alone: when its time is over the circuit is closed, without any request
        gevent.spawn_later(seconds + _TIMER_SECONDS, _show, route.provider_slug)
    scope = f", for account {circuit.account_id} only" if circuit.account_id else "; a hint to other processes"
    _log(route, "circuit open: %s at %s for %s s, in this process%s", math.ceil(seconds), scope)
    if circuit.account_id is None:
        until = Now() + timedelta(seconds=seconds)
        failure = f"cannot tell other workers that the circuit of route {route.id} is open"
        repetition.spawn_write(
            partial(Route.objects.filter(pk=route.id).update, rests_until=until), logger=logger, failure=failure
        )


def _log(route: chat.Route, message: str, *arguments: object) -> None:
    facts = {"provider": route.provider_slug, "model": route.upstream_model}
    logger.warning(message, route.upstream_model, route.provider_slug, *arguments, extra=facts)


def _show(provider_slug: str) -> None:
    """Set the metric: how many circuits of this provider are open or half-open here."""
    now, of_provider = time.monotonic(), [each for each in _routes.values() if each.provider_slug == provider_slug]
    circuits = [circuit for each in of_provider for circuit in (each.shared, *each.by_account.values())]
    metrics.circuits_open.labels(provider_slug).set(sum(each.openings > 0 or each.open_until > now for each in circuits))
