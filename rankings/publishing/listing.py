"""What is published, in memory: read again when its number has changed, which is asked once a second.

So a reply costs no query, and goes on when the database does not.
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

_ASK_EVERY_SECONDS = 1
_READ_EVERY_SECONDS = 30  # models come and go between publications


@dataclass(frozen=True, slots=True)
class Row:
    """An entry with its model, as the API shows it. ``head`` is its JSON up to what depends on the time of the reply."""

    model_id: str
    name: str
    maker: str
    is_commercial: bool
    rank: int
    change: int
    overall: float | None
    last_updated: datetime
    searched: str  # name, maker and id, without case
    head: bytes

    def json(self, now: datetime) -> bytes:
        """The ranking entry (spec 2.6). Its freshness is that of ``now``."""
        hours = max((now - self.last_updated).total_seconds() / 3600, 0)
        return b'%s,"dataFreshnessHours":%.1f}}' % (self.head, hours)


def _by_name(row: Row) -> Any:
    return row.name.casefold()


SORTS: dict[str, Callable[[Row], Any]] = {
    "rank": lambda row: row.rank,
    "score": lambda row: row.overall,
    "name": _by_name,
    "change": lambda row: row.change,
}


@dataclass(frozen=True)
class Board:
    """Rows, in the order of their model ids until they are ``ordered``."""

    rows: tuple[Row, ...]

    def found(self, search: str) -> "Board":
        """Those whose model's name, maker or id contains the text, in whatever case."""
        sought = search.strip().casefold()
        return Board(tuple(row for row in self.rows if sought in row.searched))

    def commercial(self) -> "Board":
        return Board(tuple(row for row in self.rows if row.is_commercial))

    def ordered(self, sort: str, *, descending: bool) -> "Board":
        """Ties by model id, and what has no figure last, in either direction: so pages neither repeat nor miss a row."""
        key = SORTS[sort]
        known = [row for row in self.rows if key(row) is not None]
        unknown = [row for row in self.rows if key(row) is None]
        known.sort(key=key, reverse=descending)  # stable, also in reverse
        return Board((*known, *unknown))


@dataclass(frozen=True, eq=False)
class Published:
    """Everything that is published under one number, of models that can be called now. Each reading equals only itself."""

    number: int
    boards: dict[tuple[str, str], Board]
    read_at: float  # by the monotonic clock, in seconds

    def board(self, source: str, category: str) -> Board:
        return self.boards.get((source, category), Board(()))


_published: StaleWhileRefresh[None, Published] = StaleWhileRefresh(seconds=_ASK_EVERY_SECONDS, stale_on=pool.DATABASE_ERRORS)


def published() -> Published:
    """Return what is published, as of about a second ago. Raises the database's errors only while nothing was ever read."""
    return _published.get(None, _refresh)


def forget() -> None:
    """Read everything again on the next call."""
    _published.clear()


def _refresh(previous: Published | None) -> Published:
    with pool.time_limit():
        number = Publication.objects.values_list("number", flat=True).first() or 0
        now = time.monotonic()
        if previous and previous.number == number and now - previous.read_at < _READ_EVERY_SECONDS:
            return previous
        return Published(number, _boards(), read_at=now)


def _boards() -> dict[tuple[str, str], Board]:
    callable_models = {model.pk: model for model in LanguageModel.objects.with_price_and_routes() if model.is_available}
    rows: dict[tuple[str, str], list[Row]] = {}
    for entry in Entry.objects.filter(model__in=callable_models).order_by("model_id"):
        rows.setdefault((entry.source, entry.board), []).append(_row(entry, callable_models[entry.model_id]))
    return {place: Board(tuple(found)) for place, found in rows.items()}


def _row(entry: Entry, model: LanguageModel) -> Row:
    shown = {
        "rank": entry.rank,
        "categoryRank": entry.board_rank,
        "change": entry.change,
        "model": _model(entry.board, model),
        "scores": _scores(entry),
        "metadata": {"confidence": round(entry.confidence, 2), "lastUpdated": timestamps.iso_millis(entry.last_updated)},
    }
    return Row(
        model_id=model.pk,
        name=model.name,
        maker=model.maker,
        is_commercial=model.commercial_use,
        rank=entry.rank,
        change=entry.change,
        overall=entry.overall,
        last_updated=entry.last_updated,
        searched=f"{model.name}\n{model.maker}\n{model.pk}".casefold(),
        head=compact_json.dumps(shown).removesuffix(b"}}"),
    )


def _model(board: str, model: LanguageModel) -> dict[str, Any]:
    """From the catalog, never from a source; ``category`` is the board that is asked for."""
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
    """What nobody has measured is null, and never 0."""
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
