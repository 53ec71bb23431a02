"""Decides whether a route may be asked: by its circuit, by the provider's verdict on our key, and by this host's network.

Each of the three is told how an attempt ended, so that only the one whose fault it was counts it.

Local faults: no descriptor, no name server, no way to the provider. They say nothing about the provider: its circuit stays
closed, and other processes hear nothing. But a host without a connection need not try for each request. After ``_FAULTS_MAX``
in a row it leaves the route alone for ``_PAUSE_SECONDS``.

Refused keys: a provider's key counts as refused after ``_REFUSALS_401`` replies of 401 in a row, or ``_REFUSALS_403`` of 403,
or as soon as the requests of a second account are refused: one caller's may be refused for what is in them. Each process counts
for itself. A good reply begins the count anew, and so does one that finds a request invalid. The provider's row then has a
fingerprint of the key and the address that were refused, which all processes read with the catalog. It says nothing of another
key or address. A refusal passes by itself: ``lookup.PROBE_SECONDS`` later each process lets one request through, after twice
the time another one, and so on; a good reply clears the row. That this host has no credential to show is no refusal: staff read
it in the row, and other hosts still ask.
"""

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models.functions import Now

from completions.catalog import lookup
from completions.chat import Route
from completions.models import Provider
from completions.providers import base
from completions.providers.base import FailureKind, ProviderFailed
from completions.relay import circuit_breaker
from gateway_project import errors
from gateway_project.db import repetition

_faults_logger = logging.getLogger("gateway.circuit_breaker")
_keys_logger = logging.getLogger("gateway.provider_keys")

# No further attempt helps after these, and they say nothing about the route.
FINAL = (FailureKind.INVALID_REQUEST, FailureKind.SHUTTING_DOWN, FailureKind.CLIENT_DISCONNECTED)
_SAY_NOTHING = (*FINAL, FailureKind.LOCAL_FAULT, FailureKind.CREDENTIAL_RENEWED)

record_no_verdict = circuit_breaker.record_no_verdict  # ends a probe that said nothing about the route


def may_be_asked(route: Route, account_id: UUID) -> bool:
    """Return whether the route may be asked now. After True the caller must call one of the ``record_`` functions.

    The circuit comes before the key: a request that it refuses does not use up the one that probes a refused key. With an
    account's own key it always may: neither does that tell anything of ours, nor the other way round.
    """
    if route.own_key_id:
        return True
    if _fault_seconds(route) > 0:
        return False
    if not circuit_breaker.allows_request(route, account_id):
        return False
    if route.is_key_refused and not _may_probe_key(route):
        circuit_breaker.record_no_verdict(route, account_id)
        return False
    return True


def record_success(route: Route, account_id: UUID) -> None:
    if route.own_key_id:
        return
    circuit_breaker.record_success(route, account_id)
    _faults.pop(route.id, None)
    _record_accepted_key(route)


def record_failure(route: Route, account_id: UUID, error: ProviderFailed, *, attempted_at: float, is_new_account: bool) -> None:
    """Note a failure where it belongs: with our key, with this host, or with the route. ``attempted_at`` is monotonic."""
    if route.own_key_id:
        return
    if error.key_refusal:
        status, reason = error.key_refusal
        record_refused_key(route, account_id, status=status, reason=reason)
    elif error.kind is FailureKind.INVALID_REQUEST:  # it looked at the request, so it had accepted the key
        _record_accepted_key(route)
    elif error.kind is FailureKind.LOCAL_FAULT:
        _record_fault(route)
    if error.kind in _SAY_NOTHING or error.key_refusal or error.is_scripted:
        circuit_breaker.record_no_verdict(route, account_id)
    else:
        circuit_breaker.record_failure(
            route, account_id, attempted_at=attempted_at, wait_seconds=error.wait_seconds, is_new_account=is_new_account
        )


def wait_seconds(route: Route, account_id: UUID) -> float:
    """Return how long the route may not be asked. Not above 0: it may be. So do the two functions of its parts."""
    return max(circuit_breaker.open_seconds(route, account_id), _key_seconds(route), _fault_seconds(route))


def refusal(routes: Sequence[Route], account_id: UUID) -> tuple[ProviderFailed, bool]:
    """Return why none of the routes may be asked, and whether that is because all of their circuits are open."""
    seconds = min(wait_seconds(route, account_id) for route in routes)
    headers = errors.retry_after(timedelta(seconds=min(seconds, errors.RETRY_AFTER_SECONDS_MAX)))
    if all(_fault_seconds(route) > 0 for route in routes):
        return ProviderFailed(base.not_connectable(headers=headers), provider_worked=False), False
    if all(_key_seconds(route) > 0 for route in routes):
        return ProviderFailed(base.refusing(headers=headers), provider_worked=False), False
    return ProviderFailed(base.failing(headers=headers), provider_worked=False), True


# --- Local faults ---------------------------------------------------------------------------------------------------

_FAULTS_MAX = 3
_PAUSE_SECONDS = 1


@dataclass(slots=True)
class _Faults:
    count: int = 0
    paused_until: float = 0.0


_faults: dict[int, _Faults] = {}  # by route id


def _fault_seconds(route: Route) -> float:
    faults = _faults.get(route.id)
    return faults.paused_until - time.monotonic() if faults else 0.0


def _record_fault(route: Route) -> None:
    """Count a fault. Pause the route when it was one too many."""
    faults = _faults.setdefault(route.id, _Faults())
    faults.count += 1
    if faults.count >= _FAULTS_MAX:
        if faults.count == _FAULTS_MAX:
            message = "this host cannot connect to %s: %s is tried once a second here, and its circuit stays as it is"
            facts = {"provider": route.provider_slug, "model": route.upstream_model}
            _faults_logger.warning(message, route.provider_slug, route.upstream_model, extra=facts)
        faults.paused_until = time.monotonic() + _PAUSE_SECONDS


# --- Refused keys ---------------------------------------------------------------------------------------------------

_REFUSALS_401 = 3
_REFUSALS_403 = 5
_PROBE_SECONDS_MAX = 60

_ProviderKey = tuple[str, str]  # the slug, and the fingerprint of key and address


class _Probe(NamedTuple):
    """When this process may next ask whether a key is accepted, by the monotonic clock, and how long it waits for that."""

    next_at: float
    pause_seconds: float


# The accounts whose requests were refused in a row.
_refusals: defaultdict[_ProviderKey, deque[UUID]] = defaultdict(partial(deque, maxlen=_REFUSALS_403))
_probes: dict[_ProviderKey, _Probe] = {}
_REPORT_SECONDS = 30
_reported_at: dict[str, float] = {}  # by the monotonic clock, of each provider


def _may_probe_key(route: Route) -> bool:
    """Return whether the provider, which refused its key, may be asked now: not, if another request probed it a moment ago."""
    if _key_seconds(route) > 0:
        return False
    last = _probes.get(_key(route))
    pause_seconds = min(2 * last.pause_seconds, _PROBE_SECONDS_MAX) if last else lookup.PROBE_SECONDS
    _probes[_key(route)] = _Probe(time.monotonic() + pause_seconds, pause_seconds)
    return True


def _key_seconds(route: Route) -> float:
    if not route.is_key_refused:
        return 0.0
    last = _probes.get(_key(route))
    return (last.next_at if last else route.probed_from) - time.monotonic()


def _record_accepted_key(route: Route) -> None:
    if _refusals:
        _refusals.pop(_key(route), None)
    if _probes:
        _probes.pop(_key(route), None)
    if route.is_key_refused:
        _spawn(_clear, route)


def record_refused_key(route: Route, account_id: UUID, *, status: int, reason: str) -> None:
    """Count a refusal of the key. Write it to the provider's row when it was one too many, or when a probe failed."""
    if status == base.NO_CREDENTIAL:
        _report_missing(route, reason)
        return
    refusals = _refusals[_key(route)]
    refusals.append(account_id)
    refusals_max = _REFUSALS_401 if status == 401 else _REFUSALS_403
    if route.is_key_refused or len(set(refusals)) > 1 or len(refusals) >= refusals_max:
        refusal = f"{status}: {reason}" if reason else str(status)
        _spawn(_mark, route, status, refusal)


def _report_missing(route: Route, reason: str) -> None:
    """Tell staff why this host has no credential to show; at most so often. Other hosts may have one, and ask the provider."""
    now = time.monotonic()
    if now >= _reported_at.get(route.provider_slug, 0.0) + _REPORT_SECONDS:
        _reported_at[route.provider_slug] = now
        _spawn(_note_missing, route, reason[: Provider.KEY_REFUSAL_CHARACTERS_MAX])


def _note_missing(route: Route, reason: str) -> None:
    others = Provider.objects.filter(pk=route.provider_slug).exclude(refused_key=route.key_fingerprint)
    others.update(refused_key="", key_refused_at=Now(), key_refusal=reason)


def _key(route: Route) -> _ProviderKey:
    return route.provider_slug, route.key_fingerprint


def _mark(route: Route, status: int, reason: str) -> None:
    provider = Provider.objects.filter(pk=route.provider_slug)
    is_news = provider.exclude(refused_key=route.key_fingerprint).exists()
    provider.update(
        refused_key=route.key_fingerprint, key_refused_at=Now(), key_refusal=reason[: Provider.KEY_REFUSAL_CHARACTERS_MAX]
    )
    if is_news:
        message = (
            "provider %s refuses its API key (%s): its models are not available until the key is changed or accepted again"
        )
        _keys_logger.warning(message, route.provider_slug, status, extra={"provider": route.provider_slug})


def _clear(route: Route) -> None:
    refused = Provider.objects.filter(pk=route.provider_slug, refused_key=route.key_fingerprint)
    if refused.update(refused_key="", key_refused_at=None, key_refusal=""):
        facts = {"provider": route.provider_slug}
        message = "provider %s accepts its API key again: its models are available"
        _keys_logger.warning(message, route.provider_slug, extra=facts)


def _spawn(write: Callable[..., None], route: Route, *given: Any) -> None:
    failure = f"cannot tell other processes whether provider {route.provider_slug} accepts its key"
    repetition.spawn_write(partial(write, route, *given), logger=_keys_logger, failure=failure)
