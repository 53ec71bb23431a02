"""The published rankings in memory. They are read again when the publication number has changed, checked once a second.

So a reply costs no query, and goes on while the database is unavailable.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from completions.models import LanguageModel
from gateway_project import compact_json, timestamps
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from rankings.models import Entry, Publication

_CHECK_EVERY_SECONDS = 1
_READ_EVERY_SECONDS = 30  # models become available and unavailable between publications


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """An entry with what the catalog says of its model. Scores are exact, of 100; None where no source has measured it.

    ``json_head`` is its JSON in the API, up to the one field that depends on the time of the reply.
    """

    model_id: str
    name: str
    maker: str
    license: str | None
    is_commercial: bool
    rank: int
    board_rank: int
    change: int
    overall: float | None
    quality: float | None
    speed: float | None
    cost: float | None
    elo: int | None
    confidence: float
    last_updated: datetime
    search_text: str  # name, maker and id, casefolded
    json_head: bytes

    def json(self, now: datetime) -> bytes:
        """Return the ranking entry of the API, with its freshness as of ``now``."""
        hours = max((now - self.last_updated).total_seconds() / 3600, 0)
        return b'%s,"dataFreshnessHours":%.1f}}' % (self.json_head, hours)


def _by_name(entry: RankedEntry) -> Any:
    return entry.name.casefold()


SORTS: dict[str, Callable[[RankedEntry], Any]] = {
    "rank": lambda entry: entry.rank,
    "score": lambda entry: entry.overall,
    "name": _by_name,
    "change": lambda entry: entry.change,
}


@dataclass(frozen=True)
class Leaderboard:
    """Entries of one source on one board, in the order of their model ids until ``sort`` gives them another."""

    entries: tuple[RankedEntry, ...]

    def search(self, text: str) -> "Leaderboard":
        """Return those whose model's name, maker or id contains the text, ignoring case."""
        sought = text.strip().casefold()
        return Leaderboard(tuple(entry for entry in self.entries if sought in entry.search_text))

    def commercial_only(self) -> "Leaderboard":
        return Leaderboard(tuple(entry for entry in self.entries if entry.is_commercial))

    def sort(self, sort: str, *, is_descending: bool) -> "Leaderboard":
        """Return them in this order, so that pages neither repeat nor miss an entry.

        Ties are broken by model id, and entries without the figure come last, both in either direction.
        """
        key = SORTS[sort]
        known = [entry for entry in self.entries if key(entry) is not None]
        unknown = [entry for entry in self.entries if key(entry) is None]
        known.sort(key=key, reverse=is_descending)  # a stable sort keeps the order of ids, also in reverse
        return Leaderboard((*known, *unknown))


@dataclass(frozen=True, eq=False)
class PublishedRankings:
    """All entries of one publication, of models that are available now. Each reading equals only itself."""

    number: int
    leaderboards: dict[tuple[str, str], Leaderboard]  # by source and board
    read_at: float  # by the monotonic clock, in seconds

    def leaderboard(self, source: str, board: str) -> Leaderboard:
        return self.leaderboards.get((source, board), Leaderboard(()))


_published: StaleWhileRefresh[None, PublishedRankings] = StaleWhileRefresh(
    seconds=_CHECK_EVERY_SECONDS, stale_on=pool.DATABASE_ERRORS
)


def published() -> PublishedRankings:
    """Return what is published, as of about a second ago. Raises the database's errors only while nothing was ever read."""
    return _published.get(None, _refresh)


def forget() -> None:
    """Read everything again on the next call."""
    _published.clear()


def _refresh(previous: PublishedRankings | None) -> PublishedRankings:
    with pool.time_limit():
        number = Publication.objects.values_list("number", flat=True).first() or 0
        now = time.monotonic()
        if previous and previous.number == number and now - previous.read_at < _READ_EVERY_SECONDS:
            return previous
        return PublishedRankings(number, _read_leaderboards(), read_at=now)


def _read_leaderboards() -> dict[tuple[str, str], Leaderboard]:
    available = {model.pk: model for model in LanguageModel.objects.with_price_and_routes() if model.is_available}
    entries: dict[tuple[str, str], list[RankedEntry]] = {}
    for entry in Entry.objects.filter(model__in=available).order_by("model_id"):
        entries.setdefault((entry.source, entry.board), []).append(_ranked_entry(entry, available[entry.model_id]))
    return {source_and_board: Leaderboard(tuple(ranked)) for source_and_board, ranked in entries.items()}


def _ranked_entry(entry: Entry, model: LanguageModel) -> RankedEntry:
    shown = {
        "rank": entry.rank,
        "categoryRank": entry.board_rank,
        "change": entry.change,
        "model": _model(entry.board, model),
        "scores": _scores(entry),
        "metadata": {"confidence": round(entry.confidence, 2), "lastUpdated": timestamps.iso_millis(entry.last_updated)},
    }
    return RankedEntry(
        model_id=model.pk,
        name=model.name,
        maker=model.maker,
        license=model.license,
        is_commercial=model.commercial_use,
        rank=entry.rank,
        board_rank=entry.board_rank,
        change=entry.change,
        overall=entry.overall,
        quality=entry.quality,
        speed=entry.speed,
        cost=entry.cost,
        elo=entry.elo,
        confidence=entry.confidence,
        last_updated=entry.last_updated,
        search_text=f"{model.name}\n{model.maker}\n{model.pk}".casefold(),
        json_head=compact_json.dumps(shown).removesuffix(b"}}"),
    )


def _model(board: str, model: LanguageModel) -> dict[str, Any]:
    """Return the model as the catalog has it, never as a source does. ``category`` is the board that was asked for."""
    return {
        "id": model.pk,
        "name": model.name,
        "provider": model.maker,
        "category": board,
        "contextWindow": model.context_window,
        "imageSupport": model.image_support,
        "functionCalling": model.function_calling,
        "commercialUse": model.commercial_use,
        "license": model.license,
    }


def _scores(entry: Entry) -> dict[str, Any]:
    """Return the scores, rounded. A figure that no source has measured is null, never 0."""
    return {
        "overall": _tenths(entry.overall),
        "quality": _tenths(entry.quality),
        "speed": _tenths(entry.speed),
        "cost": _tenths(entry.cost),
        "elo": entry.elo,
        "benchmarks": {
            "mmlu": _tenths(entry.mmlu),
            "hellaswag": _tenths(entry.hellaswag),
            "humanEval": _tenths(entry.human_eval),
        },
    }


def _tenths(score: float | None) -> float | None:
    return None if score is None else round(score, 1)
