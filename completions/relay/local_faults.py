"""Pauses a route in this process after faults of its own host: no descriptor, no name server, no way to the provider.

Such faults say nothing about the provider: its circuit stays closed, and other processes hear nothing. But a host without a
connection need not try for each request. After ``_FAULTS_MAX`` in a row it leaves the route alone for ``_PAUSE_SECONDS``.
"""

import logging
import time
from dataclasses import dataclass

from completions.chat import Route

logger = logging.getLogger("gateway.circuit_breaker")

_FAULTS_MAX = 3
_PAUSE_SECONDS = 1


@dataclass(slots=True)
class _Faults:
    count: int = 0
    paused_until: float = 0.0


_faults: dict[int, _Faults] = {}  # by route id


def wait_seconds(route: Route) -> float:
    """Return how long the route may not be asked. Not above 0: it may be."""
    faults = _faults.get(route.id)
    return faults.paused_until - time.monotonic() if faults else 0.0


def record_success(route: Route) -> None:
    _faults.pop(route.id, None)


def record_fault(route: Route) -> None:
    """Count a fault. Pause the route when it was one too many."""
    faults = _faults.setdefault(route.id, _Faults())
    faults.count += 1
    if faults.count >= _FAULTS_MAX:
        if faults.count == _FAULTS_MAX:
            logger.warning(
                "this host cannot connect to %s: %s is tried once a second here, and its circuit stays as it is",
                route.provider_slug,
                route.upstream_model,
                extra={"provider": route.provider_slug, "model": route.upstream_model},
            )
        faults.paused_until = time.monotonic() + _PAUSE_SECONDS
