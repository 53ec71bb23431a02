"""What is shown: made of what sources said last, replaced as a whole, a source at a time.

``Entry.inputs`` holds what each score was made of. Of INTERNAL: ``version`` and ``weights`` of the formula, ``prior``; for
each of ``sources`` its ``weight``, whether it ``is_applicable`` and ``is_heard``, what it said (``name``, ``key``, ``rank``,
``value``, ``population``, ``facts``, ``method``, ``as_of``, ``version``, ``attribution``) and as what that counts
(``percentile``, ``identity``, ``precision``, ``freshness``); ``coverage``, ``quality`` and ``believed``, which is the quality
that the sum is made with; ``speed`` with its ``source`` and ``streams``; ``cost`` with the prices; ``benchmarks`` with where
each stands. Of any other source: what it said, and as what that counts.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from gateway_project.db import pool
from rankings.models import DailyRank, Entry, Publication, Source, SourceState
from rankings.publishing import external, internal, routable_aliases
from rankings.scoring import served_models

_CHANGE_DAYS = 7


def publish(*sources: Source | str) -> int:
    """Show what these sources said last; how many entries of the first. INTERNAL, made of all, is computed anew behind them."""
    counts = [_replace(source) for source in map(Source, sources) if source != Source.INTERNAL]
    counts.append(_publish_internal())
    return counts[0]


def _publish_internal() -> int:
    """INTERNAL has no refresh: that it was computed is what it is healthy by."""
    try:
        return _replace(Source.INTERNAL)
    except Exception as error:
        _note(last_attempt_at=Now(), failures=F("failures") + 1, error=type(error).__name__)
        raise


@transaction.atomic
def _replace(source: Source) -> int:
    _wait_for_others(source)
    now = pool.database_time()
    entries = _entries(source, now)
    _tell_changes(source, entries, now.date())
    Entry.objects.filter(source=source).delete()
    Entry.objects.bulk_create(entries)
    _keep_ranks(entries, now.date())
    if source == Source.INTERNAL:
        routable_aliases.write(entries)
        _note(last_attempt_at=Now(), last_success_at=Now(), failures=0, error="")
    _count_publication()
    return len(entries)


def _wait_for_others(source: Source) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"rankings.publishing.publication.{source}"])


def _entries(source: Source, now: datetime) -> list[Entry]:
    models = served_models.served()
    return internal.entries(models, now) if source == Source.INTERNAL else external.entries(source, models, now)


# --- History ------------------------------------------------------------------------------------------------------


def _tell_changes(source: Source, entries: Iterable[Entry], today: date) -> None:
    """Ranks gained on a board since a week ago, or since the first day there is; who is new has gained none."""
    before = _ranks_before(source, today)
    for entry in entries:
        entry.change = before.get((entry.board, entry.model_id), entry.board_rank) - entry.board_rank


def _ranks_before(source: Source, today: date) -> dict[tuple[str, str], int]:
    """By board and model: the rank of the last day that is a week ago or longer; else of the oldest day."""
    days = DailyRank.objects.filter(source=source, day__lt=today).distinct("board", "model_id")
    oldest = days.order_by("board", "model_id", "day")
    last = days.filter(day__lte=today - timedelta(days=_CHANGE_DAYS)).order_by("board", "model_id", "-day")
    return {(row.board, row.model_id): row.rank for rows in (oldest, last) for row in rows}


def _keep_ranks(entries: Iterable[Entry], today: date) -> None:
    DailyRank.objects.bulk_create(
        [
            DailyRank(
                source=entry.source,
                board=entry.board,
                model_id=entry.model_id,
                day=today,
                rank=entry.board_rank,
                overall=entry.overall,
            )
            for entry in entries
        ],
        update_conflicts=True,
        unique_fields=["source", "board", "model", "day"],
        update_fields=["rank", "overall"],
    )


# --- Who must know ------------------------------------------------------------------------------------------------


def _note(**columns: object) -> None:
    SourceState.objects.bulk_create([SourceState(source=Source.INTERNAL)], ignore_conflicts=True)
    SourceState.objects.filter(pk=Source.INTERNAL).update(**columns)


def _count_publication() -> None:
    """Whoever has cached what was shown sees by the number that it is another now."""
    Publication.objects.bulk_create([Publication(pk=1)], ignore_conflicts=True)
    Publication.objects.update(number=F("number") + 1, changed_at=Now())
