"""Notes which providers refuse our API key, so that their models are not offered until the key is changed or accepted again.

A provider's key counts as refused after ``_REFUSALS_401`` replies of 401 in a row, or ``_REFUSALS_403`` of 403, or as soon as
the requests of a second account are refused: one caller's may be refused for what is in them. Each process counts for itself. A
good reply begins the count anew, and so does one that finds a request invalid.

The provider's row then has a fingerprint of the key and the address that were refused, which all processes read with the
catalog. It says nothing of another key or address. A refusal passes by itself: ``lookup.PROBE_SECONDS`` later each process lets
one request through, after twice the time another one, and so on; a good reply clears the row.
"""

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models.functions import Now

from completions.catalog import lookup
from completions.chat import Route
from completions.models import Provider
from gateway_project.db import repetition

logger = logging.getLogger("gateway.provider_keys")

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


def allows_request(route: Route) -> bool:
    """Return whether the provider may be asked now: not, if it refused its key, or another request probed it, a moment ago."""
    if not route.is_key_refused:
        return True
    if wait_seconds(route) > 0:
        return False
    last = _probes.get(_key(route))
    pause_seconds = min(2 * last.pause_seconds, _PROBE_SECONDS_MAX) if last else lookup.PROBE_SECONDS
    _probes[_key(route)] = _Probe(time.monotonic() + pause_seconds, pause_seconds)
    return True


def wait_seconds(route: Route) -> float:
    """Return how long the provider may not be asked because it refused its key. Not above 0: it may be."""
    if not route.is_key_refused:
        return 0.0
    last = _probes.get(_key(route))
    return (last.next_at if last else route.probed_from) - time.monotonic()


def record_success(route: Route) -> None:
    if _refusals:
        _refusals.pop(_key(route), None)
    if _probes:
        _probes.pop(_key(route), None)
    if route.is_key_refused:
        _spawn(_clear, route)


def record_refusal(route: Route, account_id: UUID, *, status: int, reason: str) -> None:
    """Count a refusal of the key. Write it to the provider's row when it was one too many, or when a probe failed."""
    refusals = _refusals[_key(route)]
    refusals.append(account_id)
    refusals_max = _REFUSALS_401 if status == 401 else _REFUSALS_403
    if route.is_key_refused or len(set(refusals)) > 1 or len(refusals) >= refusals_max:
        refusal = f"{status}: {reason}" if reason else str(status)
        _spawn(_mark, route, status, refusal)


def _key(route: Route) -> _ProviderKey:
    return route.provider_slug, route.key_fingerprint


def _mark(route: Route, status: int, reason: str) -> None:
    provider = Provider.objects.filter(pk=route.provider_slug)
    is_news = provider.exclude(refused_key=route.key_fingerprint).exists()
    provider.update(
        refused_key=route.key_fingerprint, key_refused_at=Now(), key_refusal=reason[: Provider.KEY_REFUSAL_CHARACTERS_MAX]
    )
    if is_news:
        logger.warning(
            "provider %s refuses its API key (%s): its models are not available until the key is changed or accepted again",
            route.provider_slug,
            status,
            extra={"provider": route.provider_slug},
        )


def _clear(route: Route) -> None:
    refused = Provider.objects.filter(pk=route.provider_slug, refused_key=route.key_fingerprint)
    if refused.update(refused_key="", key_refused_at=None, key_refusal=""):
        facts = {"provider": route.provider_slug}
        logger.warning("provider %s accepts its API key again: its models are available", route.provider_slug, extra=facts)


def _spawn(write: Callable[..., None], route: Route, *given: Any) -> None:
    failure = f"cannot tell other processes whether provider {route.provider_slug} accepts its key"
    repetition.spawn_write(partial(write, route, *given), logger=logger, failure=failure)
