"""Publishes: replaces all entries of one source at a time, made from the last snapshots.

``Entry.inputs`` holds what each score was made of. Of INTERNAL: ``version`` and ``weights`` of the formula, ``prior``; for
each of ``sources`` its ``weight``, whether it could rank the model (``is_applicable``) and counts (``is_heard``), what it says
(``name``, ``key``, ``rank``, ``value``, ``population``, ``facts``, ``method``, ``as_of``, ``version``, ``attribution``) and
how the formula reads this (``percentile``, ``identity``, ``precision``, ``freshness``); ``coverage``, ``quality``,
``evidence`` (the confidence if all data were new) and ``believed``, the adjusted quality of the overall score; ``speed`` with
its ``source`` and ``streams``; ``cost`` with the prices; ``benchmarks`` with where each is published. Of any other source:
what it says, and how the formula reads this.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import date, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from gateway_project.db import cell, pool
from rankings.models import DailyRank, Entry, Publication, Source, SourceState
from rankings.publishing import external, internal, routable_aliases
from rankings.sources.base import series

_CHANGE_DAYS = 7


def publish(*sources: Source | str) -> None:
    """Publish these sources and then INTERNAL, which is made of all."""
    for source in map(Source, sources):
        if source != Source.INTERNAL:
            _replace(source)
    try:  # INTERNAL has no refresh run, so its health is whether it was computed: that is stored here
        _replace(Source.INTERNAL)
    except Exception as error:
        _update_internal_state(last_attempt_at=Now(), failures=F("failures") + 1, error=type(error).__name__)
        raise


@transaction.atomic
def _replace(source: Source) -> None:
    # Wait until no other transaction publishes this source, and keep others waiting.
    cell.take_turn(f"rankings.publishing.publication.{source}")
    now = pool.database_time()
    models = external.priced_models()
    entries = internal.entries(models, now) if source == Source.INTERNAL else external.entries(source, models, now)
    _set_changes(source, entries, now.date())
    Entry.objects.filter(source=source).delete()
    Entry.objects.bulk_create(entries)
    _store_daily_ranks(entries, now.date())
    if source == Source.INTERNAL:
        routable_aliases.write(entries, now.date())
        _update_internal_state(last_attempt_at=Now(), last_success_at=Now(), failures=0, error="")
    Publication.objects.bulk_create([Publication(pk=1)], ignore_conflicts=True)
    Publication.objects.update(number=F("number") + 1, changed_at=Now())  # every cache sees that what is published has changed


def _set_changes(source: Source, entries: Collection[Entry], today: date) -> None:
    """Set the ranks that each entry gained on its board in a week, or since its first day; a new entry has gained none."""
    before = _ranks_before(source, today, {entry.board: series(entry.inputs["version"]) for entry in entries})
    for entry in entries:
        entry.change = before.get((entry.board, entry.model_id), entry.board_rank) - entry.board_rank


def _ranks_before(source: Source, today: date, boards: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """Return, by board and model, the rank of the newest day that is at least a week ago; else of the oldest day.

    Only days of the series that each of ``boards`` has now count, and those before there were series.
    """
    comparable = Q(series="")
    for board, now in boards.items():
        comparable |= Q(board=board, series=now)
    days = DailyRank.objects.filter(comparable, source=source, day__lt=today).distinct("board", "model_id")
    oldest = days.order_by("board", "model_id", "day")
    last = days.filter(day__lte=today - timedelta(days=_CHANGE_DAYS)).order_by("board", "model_id", "-day")
    return {(row.board, row.model_id): row.rank for rows in (oldest, last) for row in rows}


def _store_daily_ranks(entries: Iterable[Entry], today: date) -> None:
    DailyRank.objects.bulk_create(
        [
            DailyRank(
                source=entry.source,
                board=entry.board,
                model_id=entry.model_id,
                day=today,
                rank=entry.board_rank,
                overall=entry.overall,
                series=series(entry.inputs["version"]),
            )
            for entry in entries
        ],
        update_conflicts=True,
        unique_fields=["source", "board", "model", "day"],
        update_fields=["rank", "overall", "series"],
    )


def _update_internal_state(**columns: object) -> None:
    SourceState.objects.bulk_create([SourceState(source=Source.INTERNAL)], ignore_conflicts=True)
    SourceState.objects.filter(pk=Source.INTERNAL).update(**columns)
