"""Decides which sources are healthy, from the state that their runs stored, the settings and the clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway_project.db import pool
from gateway_project.text import timestamps
from rankings.identity import mapping
from rankings.models import Snapshot, Source, SourceState
from rankings.sources import registry
from rankings.sources.base import SourceSpec

FAILURES_MAX = 2  # in a row


@dataclass(frozen=True)
class SourceHealth:
    """The health of one source. Both reasons are empty if it is healthy."""

    source: Source
    last_sync_at: datetime | None
    reason: str  # for staff: without secrets, but with names of settings and hosts
    public_reason: str  # without these, too
    is_held: bool = False  # its last run waits for staff

    @property
    def is_healthy(self) -> bool:
        return not self.reason


def report(now: datetime | None = None) -> list[SourceHealth]:
    """Return the health of every source, in the order of ``Source``. ``now`` is the database's time unless given."""
    moment = now or pool.database_time()
    states = SourceState.objects.in_bulk()
    held = dict(Snapshot.objects.exclude(held_because="").values_list("source", "held_because"))
    found = []
    for spec in registry.specs():
        state, held_because = states.get(spec.source) or SourceState(source=spec.source), held.get(spec.source, "")
        reasons = _reasons(spec, state, held_because, moment)
        found.append(SourceHealth(spec.source, state.last_success_at, *reasons, is_held=bool(held_because)))
    return found


def report_for_api(now: datetime | None = None) -> list[dict[str, Any]]:
    """Return the report in the fields of the API. ``lastSyncAt`` is null before the first success."""
    return [
        {
            "source": health.source.value,
            "isHealthy": health.is_healthy,
            "lastSyncAt": timestamps.iso_millis(health.last_sync_at) if health.last_sync_at else None,
        }
        for health in report(now)
    ]


def _reasons(spec: SourceSpec, state: SourceState, held: str, now: datetime) -> tuple[str, str]:
    """Return the reason for staff, and the one for the public. ``held``: why its last run was held back, if it was."""
    if obstacle := spec.access().obstacle:
        return f"off: {obstacle}", "this gateway does not read it"
    if state.is_refused:
        return f"refused: {state.error}", "this gateway cannot read it at the moment"
    if held:
        return f"held back: {held}", "what it sent last is not published before we have checked it"
    if state.last_success_at is None:
        return (f"never read: {state.error}" if state.error else "never read"), "it has not been read yet"
    if state.failures > FAILURES_MAX:
        return f"failed {state.failures} times in a row: {state.error}", "it could not be read the last few times"
    if now - state.last_success_at > spec.age_max:
        since = f"not read since {timestamps.in_words(state.last_success_at)}"
        return since, since
    snapshot = mapping.latest_snapshot(spec.source) if spec.data_age_max else None
    if snapshot and spec.data_age_max and now - snapshot.as_of > spec.data_age_max:
        reason = f"its data is from {snapshot.as_of:%Y-%m-%d}"
        return reason, reason
    return "", ""
