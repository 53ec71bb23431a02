"""How the sources fare, told from what their runs wrote down, the settings and the clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gateway_project.db import pool
from gateway_project.timestamps import iso_millis
from rankings import sources
from rankings.identity import mapping
from rankings.models import Source, SourceState

FAILURES_MAX = 2  # in a row
AGE_MAX = {
    Source.INTERNAL: timedelta(hours=2),
    Source.LMSYS_ARENA: timedelta(hours=72),
    Source.HUGGINGFACE: timedelta(hours=72),
    Source.ARTIFICIAL_ANALYSIS: timedelta(hours=48),
    Source.OPENROUTER: timedelta(hours=72),
}
ARENA_DATA_AGE_MAX = timedelta(days=21)  # it answers, and nobody publishes there any more


@dataclass(frozen=True)
class Health:
    """Of one source. ``reason`` says, for people, why it is not healthy; it holds no secret."""

    source: Source
    last_sync_at: datetime | None
    reason: str

    @property
    def is_healthy(self) -> bool:
        return not self.reason


def report(now: datetime | None = None) -> list[Health]:
    """All five, in the order of the enumeration."""
    moment = now or pool.database_time()
    states = SourceState.objects.in_bulk()
    return [_health(source, states.get(source) or SourceState(source=source), moment) for source in Source]


def items(now: datetime | None = None) -> list[dict[str, Any]]:
    """The same as the API says it. ``lastSyncAt`` is null before the first success."""
    return [
        {
            "source": health.source.value,
            "isHealthy": health.is_healthy,
            "lastSyncAt": iso_millis(health.last_sync_at) if health.last_sync_at else None,
        }
        for health in report(now)
    ]


def _health(source: Source, state: SourceState, now: datetime) -> Health:
    return Health(source, state.last_success_at, _reason(source, state, now))


def _reason(source: Source, state: SourceState, now: datetime) -> str:
    if obstacle := sources.access(source).obstacle:
        return f"off: {obstacle}"
    if state.is_refused:
        return f"refused: {state.error}"
    if state.last_success_at is None:
        return f"never read: {state.error}" if state.error else "never read"
    if state.failures > FAILURES_MAX:
        return f"failed {state.failures} times in a row: {state.error}"
    if now - state.last_success_at > AGE_MAX[source]:
        return f"not read since {state.last_success_at:%Y-%m-%d %H:%M} UTC"
    return _age_of_data(source, now)


def _age_of_data(source: Source, now: datetime) -> str:
    snapshot = mapping.latest(source) if source is Source.LMSYS_ARENA else None
    if snapshot is not None and now - snapshot.as_of > ARENA_DATA_AGE_MAX:
        return f"its data is of {snapshot.as_of:%Y-%m-%d}"
    return ""
