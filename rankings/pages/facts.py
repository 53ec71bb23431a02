"""What ranking pages show beside the entries: source status, attributions, aliases. Read together every few seconds.

While the database is unavailable, what was read last is shown.
"""

from dataclasses import dataclass
from typing import Any

from completions.models import RoutableAlias
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from rankings.identity import mapping
from rankings.models import Source
from rankings.publishing import health, listing, routable_aliases
from rankings.sources import registry

_CACHED_SECONDS = 10


@dataclass(frozen=True)
class Facts:
    """``sources``: of each its spec, its health and its snapshot, which is None while no data of the source is shown.

    ``aliases``: the ids that mean the first available model of a ranking, and that model's.
    """

    sources: list[dict[str, Any]]
    aliases: dict[str, str]


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
        stored = dict(RoutableAlias.objects.values_list("pk", "model_ids"))
        aliases = {name: next((id for id in stored.get(name, []) if id in available), "") for name in routable_aliases.names()}
        sources = [_source(each) for each in health.report(pool.database_time())]
        return Facts(sources, {name: model_id for name, model_id in aliases.items() if model_id})


def _source(report: health.SourceHealth) -> dict[str, Any]:
    spec = registry.spec(report.source)
    snapshot = mapping.latest_snapshot(report.source) if report.source != Source.INTERNAL else None
    return {"spec": spec, "health": report, "is_off": bool(spec.access().obstacle), "snapshot": snapshot}
