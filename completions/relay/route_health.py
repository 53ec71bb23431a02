"""Decides whether a route may be asked: by its circuit, by the provider's verdict on our key, and by this host's network.

Each of the three is told how an attempt ended, so that only the one whose fault it was counts it.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from completions.chat import Route
from completions.providers import base
from completions.providers.base import FailureKind, ProviderFailed
from completions.relay import circuit_breaker, local_faults, provider_keys
from gateway_project import errors

# No further attempt helps after these, and they say nothing about the route.
FINAL = (FailureKind.INVALID_REQUEST, FailureKind.SHUTTING_DOWN, FailureKind.CLIENT_DISCONNECTED)
_SAY_NOTHING = (*FINAL, FailureKind.LOCAL_FAULT)

record_no_verdict = circuit_breaker.record_no_verdict  # ends a probe that said nothing about the route


def may_be_asked(route: Route, account_id: UUID) -> bool:
    """Return whether the route may be asked now. After True the caller must call one of the ``record_`` functions.

    The circuit comes before the key: a request that it refuses does not use up the one that probes a refused key.
    """
    if local_faults.wait_seconds(route) > 0:
        return False
    if not circuit_breaker.allows_request(route, account_id):
        return False
    if not provider_keys.allows_request(route):
        circuit_breaker.record_no_verdict(route, account_id)
        return False
    return True


def record_success(route: Route, account_id: UUID) -> None:
    circuit_breaker.record_success(route, account_id)
    local_faults.record_success(route)
    provider_keys.record_success(route)


def record_failure(route: Route, account_id: UUID, error: ProviderFailed, *, attempted_at: float, is_new_account: bool) -> None:
    """Note a failure where it belongs: with our key, with this host, or with the route. ``attempted_at`` is monotonic."""
    if error.key_refusal:
        status, reason = error.key_refusal
        provider_keys.record_refusal(route, account_id, status=status, reason=reason)
    elif error.kind is FailureKind.INVALID_REQUEST:  # it looked at the request, so it had accepted the key
        provider_keys.record_success(route)
    elif error.kind is FailureKind.LOCAL_FAULT:
        local_faults.record_fault(route)
    if error.kind in _SAY_NOTHING or error.key_refusal or error.is_scripted:
        circuit_breaker.record_no_verdict(route, account_id)
    else:
        circuit_breaker.record_failure(
            route, account_id, attempted_at=attempted_at, wait_seconds=error.wait_seconds, is_new_account=is_new_account
        )


def wait_seconds(route: Route, account_id: UUID) -> float:
    return max(
        circuit_breaker.open_seconds(route, account_id), provider_keys.wait_seconds(route), local_faults.wait_seconds(route)
    )


def refusal(routes: Sequence[Route], account_id: UUID) -> tuple[ProviderFailed, bool]:
    """Return why none of the routes may be asked, and whether that is because all of their circuits are open."""
    seconds = min(wait_seconds(route, account_id) for route in routes)
    headers = errors.retry_after(timedelta(seconds=min(seconds, errors.RETRY_AFTER_SECONDS_MAX)))
    if all(local_faults.wait_seconds(route) > 0 for route in routes):
        return ProviderFailed(base.not_connectable(headers=headers), upstream_worked=False), False
    if all(provider_keys.wait_seconds(route) > 0 for route in routes):
        return ProviderFailed(base.refusing(headers=headers), upstream_worked=False), False
    return ProviderFailed(base.failing(headers=headers), upstream_worked=False), True
