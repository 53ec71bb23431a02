"""What pages of the rankings show beside the entries: prices, health, credits, aliases. Read together, every few seconds.

When the database is away, what was read before still serves.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from completions.models import LanguageModel, Price, RoutableAlias
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from rankings.identity import mapping
from rankings.models import Source
from rankings.publishing import health, routable_aliases
from rankings.sources import registry
from rankings.sources.base import License

_KEPT_SECONDS = 10


@dataclass(frozen=True)
class Origin:
    """A source: how it fares, and what it wants to be said of it. No ``attribution``: nothing of it is shown."""

    title: str
    home: str
    is_healthy: bool
    is_off: bool
    reason: str
    last_sync_at: datetime | None
    as_of: datetime | None
    attribution: str
    license: License | None


@dataclass(frozen=True)
class Pointer:
    """An id that stands for the first of a ranking that can be called."""

    alias: str
    model_id: str


@dataclass(frozen=True)
class Facts:
    """``prices`` are in force, of the models that can be called. ``waiting``: models that only lack a provider's key."""

    prices: dict[str, Price]
    waiting: int
    origins: list[Origin]
    pointers: list[Pointer]


_facts: StaleWhileRefresh[None, Facts] = StaleWhileRefresh(seconds=_KEPT_SECONDS, stale_on=pool.DATABASE_ERRORS)


def current() -> Facts:
    """Raises the database's errors only while nothing was ever read."""
    return _facts.get(None, _read)


def forget() -> None:
    """Read everything again on the next call."""
    _facts.clear()


def _read(previous: Facts | None) -> Facts:
    with pool.time_limit():
        models = list(LanguageModel.objects.filter(is_enabled=True).with_price_and_routes())
        prices = {model.pk: model.prices_in_force[0] for model in models if model.is_available}
        now = pool.database_time()
        return Facts(
            prices=prices,
            waiting=sum(_waits(model) for model in models),
            origins=[_origin(found) for found in health.report(now)],
            pointers=_pointers(prices),
        )


def _waits(model: LanguageModel) -> bool:
    """For the key of one of its providers, and for nothing else."""
    is_offered = any(route.provider.is_enabled for route in model.enabled_routes)
    return bool(model.prices_in_force) and is_offered and not model.is_available


def _origin(found: health.SourceHealth) -> Origin:
    spec = registry.spec(found.source)
    snapshot: Any = mapping.latest_snapshot(found.source) if found.source != Source.INTERNAL else None
    return Origin(
        title=spec.title,
        home=spec.home_url,
        is_healthy=found.is_healthy,
        is_off=bool(spec.access().obstacle),
        reason=found.reason.removeprefix("off: "),  # which the page says beside it
        last_sync_at=found.last_sync_at,
        as_of=snapshot.as_of if snapshot else None,
        attribution=snapshot.attribution if snapshot else "",
        license=spec.license,
    )


def _pointers(prices: dict[str, Price]) -> list[Pointer]:
    """Of the rankings' own aliases, as ``routable_aliases.names`` has them."""
    found = dict(RoutableAlias.objects.values_list("pk", "model_ids"))
    first = {name: next((id for id in found.get(name, []) if id in prices), None) for name in routable_aliases.names()}
    return [Pointer(name, model_id) for name, model_id in first.items() if model_id]
