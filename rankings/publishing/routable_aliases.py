"""Writes the ids that callers send as ``model`` for the first of a ranking: best/coding, cheapest/general, fastest/open_source.

best/* lists only models of whose quality there is enough evidence, and fastest/* only models of known speed. Where there is
none, these ids do not exist, and requests for them are refused: an untested model is not the best.

An alias lists its models, best first. The first available model answers a request. Models that cannot be called now are
listed, too, beside enough others. The id with "@" and a day, such as best/coding@2026-11-22, is the alias as it was at
the end of that day.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from typing import Any

from django.db.models.functions import Now

from completions.models import Category, LanguageModel, RoutableAlias
from rankings.models import Entry
from rankings.scoring import parameters

KEPT_TIME = timedelta(days=90)
MODELS_MAX = 50  # of an alias, that are available, and as many that are not


def write(entries: Iterable[Entry], today: date) -> None:
    """Make the aliases those of INTERNAL's entries, and delete those of empty boards. Each has an id of ``today``, too."""
    entries = list(entries)
    models = LanguageModel.objects.of_chat().with_price_and_routes()
    available = {model.pk for model in models if model.is_available}
    wanted = {alias: row for category in Category for alias, row in _aliases(category, entries, available) if row.model_ids}
    RoutableAlias.objects.filter(pk__in=set(names()) - set(wanted)).delete()
    RoutableAlias.objects.filter(pk__contains="@", ranked_on__lt=today - KEPT_TIME).delete()
    RoutableAlias.objects.bulk_create(
        [
            RoutableAlias(id=id, model_ids=row.model_ids, qualities=row.qualities, ranked_on=today, updated_at=Now())
            for alias, row in sorted(wanted.items())
            for id in (alias, f"{alias}@{today}")
        ],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["model_ids", "qualities", "ranked_on", "updated_at"],
    )


def names() -> Iterator[str]:
    """Yield every alias that the rankings may write. Other rows of the table are not theirs."""
    return (f"{order}/{category.lower()}" for category in Category for order in _ORDERS)


def _aliases(category: Category, entries: Iterable[Entry], available: set[str]) -> Iterator[tuple[str, RoutableAlias]]:
    """Yield the aliases of a category, each with the models that it stands for and their qualities."""
    board = {entry.model_id: entry for entry in entries if entry.board == category}
    for order, key in _ORDERS.items():
        listed = [entry for entry in board.values() if _REQUIRES[order](entry)]
        model_ids = _first([entry.model_id for entry in sorted(listed, key=key)], available)
        qualities = [board[model_id].quality for model_id in model_ids]
        yield f"{order}/{category.lower()}", RoutableAlias(model_ids=model_ids, qualities=qualities)


def _first(model_ids: list[str], available: set[str]) -> list[str]:
    """Return the first MODELS_MAX available models, and as many of the others, in their order."""
    others = [model_id for model_id in model_ids if model_id not in available]
    kept = {*[model_id for model_id in model_ids if model_id in available][:MODELS_MAX], *others[:MODELS_MAX]}
    return [model_id for model_id in model_ids if model_id in kept]


# Models never tested in the category come after all that were. Cheapest is by the price, since cost scores end at 0 and 100.
_ORDERS: dict[str, Callable[[Entry], Any]] = {
    "best": lambda entry: entry.board_rank,
    "cheapest": lambda entry: (entry.quality is None, entry.inputs["cost"]["blended_usd"], entry.board_rank),
    "fastest": lambda entry: (entry.quality is None, -(entry.speed or 0), entry.board_rank),
}
_REQUIRES: dict[str, Callable[[Entry], bool]] = {
    "best": lambda entry: entry.quality is not None and entry.inputs["evidence"] >= parameters.in_force().evidence_min,
    "cheapest": lambda entry: True,
    "fastest": lambda entry: entry.speed is not None,
}
