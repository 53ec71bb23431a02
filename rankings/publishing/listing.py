"""The published rankings in memory, with what the catalog says of each model and whether it can be called now.

They are made anew when the publication number has changed, checked once per second, or what they show of the catalog, checked
every few seconds. So a reply costs no query, and continues while the database is unavailable.
"""

import functools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db.models import F

from completions.models import LanguageModel, Obstacle
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from gateway_project.text import compact_json, timestamps
from rankings.models import Entry, Publication

_CHECK_EVERY_SECONDS = 1
_READ_CATALOG_EVERY_SECONDS = 5  # models become available and unavailable between publications
_PREVIOUS_SECONDS_MAX = 30  # beside a request that reads the next: a process may have been idle for hours
_MEASURED = ("tokens_per_second", "first_token_seconds")


@dataclass(frozen=True)
class CatalogModel:
    """The row of a model that the catalog offers at a price."""

    id: str
    name: str
    maker: str
    license: str | None
    category: str
    context_window: int
    image_support: bool
    function_calling: bool
    commercial_use: bool
    is_available: bool
    waits_for_key: bool  # nothing but the key of a provider is missing
    input_nanos: int  # per million tokens
    output_nanos: int

    @property
    def price_nanos(self) -> int:
        return (3 * self.input_nanos + self.output_nanos) // 4  # the blended price, of three input tokens to one output token


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """An entry with what the catalog says of its model. ``category_rank`` is the rank among the models of its category.

    ``json_head`` is its JSON in the API, up to the one field that depends on the time of the reply. The speeds are those of
    which the score of INTERNAL is made.
    """

    entry: Entry
    model: CatalogModel
    category_rank: int
    search_text: str  # name, maker and id, casefolded
    json_head: bytes
    tokens_per_second: float | None
    first_token_seconds: float | None

    def contains(self, text: str) -> bool:
        return text.strip().casefold() in self.search_text

    def json(self, now: datetime) -> bytes:
        """Return the ranking entry of the API, with its freshness as of ``now``."""
        hours = max((now - self.entry.last_updated).total_seconds() / 3600, 0)
        return b'%s,"dataFreshnessHours":%.1f}}' % (self.json_head, hours)


SORTS: dict[str, Callable[[RankedEntry], Any]] = {
    "rank": attrgetter("entry.board_rank"),
    "score": attrgetter("entry.overall"),
    "name": lambda ranked: ranked.model.name.casefold(),
    "change": attrgetter("entry.change"),
    "quality": attrgetter("entry.quality"),
    "speed": attrgetter("entry.speed"),
    "price": attrgetter("model.price_nanos"),
    "context": attrgetter("model.context_window"),
}


@dataclass(frozen=True, eq=False)
class PublishedRankings:
    """All entries of one publication, of models that the catalog offers at a price. Each reading equals only itself."""

    number: int
    models: dict[str, CatalogModel]  # by id
    unpriced_ids: frozenset[str]  # of the models that the catalog has beside them
    leaderboards: dict[tuple[str, str], list[RankedEntry]]  # by source and board; in the order of model ids

    @functools.cached_property
    def makers(self) -> set[str]:
        return {model.maker for model in self.models.values()}

    def leaderboard(self, source: str, board: str) -> list[RankedEntry]:
        return self.leaderboards.get((source, board), [])


_published: StaleWhileRefresh[None, PublishedRankings] = StaleWhileRefresh(
    seconds=_CHECK_EVERY_SECONDS, stale_seconds_max=_PREVIOUS_SECONDS_MAX, stale_on=pool.DATABASE_ERRORS
)
_Catalog = tuple[dict[str, CatalogModel], frozenset[str]]
_catalog = StaleWhileRefresh[None, _Catalog](seconds=_READ_CATALOG_EVERY_SECONDS, stale_seconds_max=_PREVIOUS_SECONDS_MAX)


def published() -> PublishedRankings:
    """Return what is published, as of about a second ago. Raises the database's errors only while nothing was ever read."""
    return _published.get(None, _refresh)


def _refresh(previous: PublishedRankings | None) -> PublishedRankings:
    """Return the previous reading while neither the publication nor the catalog has changed, so that caches stay valid."""
    with pool.time_limit():
        number = Publication.objects.values_list("number", flat=True).first() or 0
        models, unpriced_ids = _catalog.get(None, lambda _: _read_catalog(), version=number)
        if previous and (previous.number, previous.models, previous.unpriced_ids) == (number, models, unpriced_ids):
            return previous
        return PublishedRankings(number, models, unpriced_ids, _read_leaderboards(models))


def _read_catalog() -> _Catalog:
    """Return the enabled models: by id those that have a price, and the ids of the others."""
    enabled = list(LanguageModel.objects.of_chat().filter(is_enabled=True).with_price_and_routes())
    models = {model.pk: _catalog_model(model) for model in enabled if model.prices_in_force}
    return models, frozenset(model.pk for model in enabled).difference(models)


def _catalog_model(model: LanguageModel) -> CatalogModel:
    [price] = model.prices_in_force
    return CatalogModel(
        id=model.pk,
        name=model.name,
        maker=model.maker,
        license=model.license,
        category=model.category,
        context_window=model.context_window,
        image_support=model.image_support,
        function_calling=model.function_calling,
        commercial_use=model.commercial_use,
        is_available=model.is_available,
        waits_for_key=waits_for_key(model),
        input_nanos=price.input_nanos,
        output_nanos=price.output_nanos,
    )


def waits_for_key(model: LanguageModel) -> bool:
    """Return whether only the key of a provider is missing, or another than the one that it refused."""
    return set(model.obstacles()) == {Obstacle.UNREACHABLE} and any(route.provider.is_enabled for route in model.enabled_routes)


def _read_leaderboards(models: dict[str, CatalogModel]) -> dict[tuple[str, str], list[RankedEntry]]:
    entries: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    measured = {name: F(f"inputs__speed__{name}") for name in _MEASURED}
    for entry in Entry.objects.filter(model__in=models).defer("inputs").annotate(**measured).order_by("model_id"):
        entries[entry.source, entry.board].append(entry)
    return {key: list(_ranked_entries(listed, models)) for key, listed in entries.items()}


def _ranked_entries(entries: list[Entry], models: dict[str, CatalogModel]) -> Iterator[RankedEntry]:
    """Yield the entries of one leaderboard. Equal ranks are equal in their category, too, and the next one is skipped."""
    ranks: dict[str, list[int]] = defaultdict(list)  # of the models of a category
    for entry in sorted(entries, key=lambda each: each.board_rank):
        ranks[models[entry.model_id].category].append(entry.board_rank)
    for entry in entries:
        model = models[entry.model_id]
        yield _ranked_entry(entry, model, category_rank=1 + bisect_left(ranks[model.category], entry.board_rank))


def _ranked_entry(entry: Entry, model: CatalogModel, *, category_rank: int) -> RankedEntry:
    shown = {
        "rank": entry.board_rank,
        "categoryRank": category_rank,
        "change": entry.change,
        "model": {
            "id": model.id,
            "name": model.name,
            "provider": model.maker,
            "category": model.category,
            "contextWindow": model.context_window,
            "imageSupport": model.image_support,
            "functionCalling": model.function_calling,
            "commercialUse": model.commercial_use,
            "license": model.license,
        },
        "scores": _scores(entry),
        "metadata": {
            "confidence": round(entry.confidence, 2),
            "available": model.is_available,
            "lastUpdated": timestamps.iso_millis(entry.last_updated),
        },
    }
    search_text = f"{model.name}\n{model.maker}\n{model.id}".casefold()
    json_head, measured = compact_json.dumps(shown).removesuffix(b"}}"), (vars(entry)[name] for name in _MEASURED)
    return RankedEntry(entry, model, category_rank, search_text, json_head, *measured)


def _scores(entry: Entry) -> dict[str, Any]:
    """Return the scores, rounded. A figure that no source has measured is null, never 0."""
    return {
        **{name: _tenths(getattr(entry, name)) for name in ("overall", "quality", "speed", "cost")},
        "elo": entry.elo,
        "benchmarks": {
            "mmlu": _tenths(entry.mmlu),
            "hellaswag": _tenths(entry.hellaswag),
            "humanEval": _tenths(entry.human_eval),
        },
    }


def _tenths(score: float | None) -> float | None:
    return None if score is None else round(score, 1)
