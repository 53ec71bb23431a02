"""What ranking pages show beside the entries: source status, attributions, aliases. Read together every few seconds.

While the database is unavailable, what was read last is shown.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from completions.models import RoutableAlias
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from rankings.identity import mapping
from rankings.models import Source
from rankings.publishing import health, listing, routable_aliases
from rankings.sources import registry
from rankings.sources.base import License

_CACHED_SECONDS = 10


@dataclass(frozen=True)
class SourceStatus:
    """A source, its health, and its attribution. The attribution is empty while no data of the source is shown."""

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
class AliasTarget:
    """An id that means the first available model of a ranking, and that model."""

    alias: str
    model_id: str


@dataclass(frozen=True)
class Facts:
    sources: list[SourceStatus]
    aliases: list[AliasTarget]


_facts: StaleWhileRefresh[None, Facts] = StaleWhileRefresh(seconds=_CACHED_SECONDS, stale_on=pool.DATABASE_ERRORS)


def current() -> Facts:
    """Return what was read last. Raises the database's errors only while nothing was ever read."""
    return _facts.get(None, _read)


def forget() -> None:
    """Read everything again on the next call."""
    _facts.clear()


def _read(previous: Facts | None) -> Facts:
    with pool.time_limit():
        available = {model.id for model in listing.published().models.values() if model.is_available}
        now = pool.database_time()
        return Facts(
            sources=[_source_status(each) for each in health.report(now)],
            aliases=_alias_targets(available),
        )


def _source_status(report: health.SourceHealth) -> SourceStatus:
    spec = registry.spec(report.source)
    snapshot: Any = mapping.latest_snapshot(report.source) if report.source != Source.INTERNAL else None
    return SourceStatus(
        title=spec.title,
        home=spec.home_url,
        is_healthy=report.is_healthy,
        is_off=bool(spec.access().obstacle),
        reason=report.public_reason,
        last_sync_at=report.last_sync_at,
        as_of=snapshot.as_of if snapshot else None,
        attribution=snapshot.attribution if snapshot else "",
        license=spec.license,
    )


def _alias_targets(available: set[str]) -> list[AliasTarget]:
    """Return the rankings' own aliases that mean an available model, in the order of ``routable_aliases.names``."""
    stored = dict(RoutableAlias.objects.values_list("pk", "model_ids"))
    first = {name: next((id for id in stored.get(name, []) if id in available), None) for name in routable_aliases.names()}
    return [AliasTarget(name, model_id) for name, model_id in first.items() if model_id]
