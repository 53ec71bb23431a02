"""Notes which routes serve a service tier that the price has no rates for. Such replies are charged at the standard rates.

A metric counts the replies. The row of the route has the last tier, for the desk, written at most once per minute by a process.
"""

import logging
import time
from functools import partial

from django.db.models.functions import Now

from completions import models
from completions.chat import Route
from completions.pricing import meters
from completions.providers import served_tiers
from gateway_project import metrics
from gateway_project.db import repetition

logger = logging.getLogger("gateway.unrated_tiers")

_PAUSE_SECONDS = 60
_next_at: dict[int, float] = {}  # by route, by the monotonic clock


def record(route: Route, tier: str) -> None:
    """Count a reply. ``tier`` is one of ours, or the provider's word for one that the gateway does not know."""
    metrics.unrated_tiers_total.labels(route.provider_slug, tier if tier in meters.TIERS else served_tiers.UNKNOWN).inc()
    if time.monotonic() < _next_at.get(route.id, 0):
        return
    _next_at[route.id] = time.monotonic() + _PAUSE_SECONDS
    failure = f"cannot note that {route.provider_slug} served {route.upstream_model} at a tier without rates"
    shown = tier[: models.Route.UNRATED_TIER_CHARACTERS_MAX]
    update = partial(models.Route.objects.filter(pk=route.id).update, unrated_tier=shown, unrated_tier_at=Now())
    repetition.spawn_write(update, logger=logger, failure=failure)
