"""Makes snapshots of sources, and aliases, without a source server."""

from datetime import timedelta

from gateway_project.db import pool
from rankings.models import Alias, Snapshot, Source, Standing
from rankings.sources import artificial_analysis, huggingface, lmsys_arena, openrouter

_KEY_KINDS = {module.SPEC.source: module.KEY_KIND for module in (artificial_analysis, huggingface, lmsys_arena, openrouter)}


def make_snapshot(source, boards, *, age_hours=0, crowd=0):
    """Create a snapshot of {board: {name: value, or (value, facts)}}. ``crowd`` is the number of other models on each board."""
    snapshot = Snapshot.objects.create(
        source=source, as_of=pool.database_time() - timedelta(hours=age_hours), fingerprint="f" * 64, attribution=f"by {source}"
    )
    for board, given in boards.items():
        everybody = {f"nobody-{number}": number for number in range(crowd)} | given
        figures = {name: figure if isinstance(figure, tuple) else (figure, {}) for name, figure in everybody.items()}
        values = [value for value, _ in figures.values()]
        Standing.objects.bulk_create(
            Standing(
                snapshot=snapshot,
                board=board,
                external_key=name,
                key_kind=_KEY_KINDS[Source(source)],
                name=name,
                rank=1 + sum(other > value for other in values),
                value=value,
                facts=facts,
            )
            for name, (value, facts) in figures.items()
        )
    return snapshot


def make_alias(source, name, model_id, confidence=1.0):
    """Create an alias: the source calls our model ``name``."""
    method = Alias.Method.STAFF if confidence == 1 else Alias.Method.RULE
    return Alias.objects.create(
        source=source,
        key_kind=_KEY_KINDS[Source(source)],
        external_key=name,
        model_id=model_id,
        method=method,
        confidence=confidence,
    )
