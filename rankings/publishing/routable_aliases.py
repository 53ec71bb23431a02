"""Ids that callers send as ``model`` for whoever ranks first: best/coding, cheapest/general, fastest/open_source.

Here they are written; which of the models answers is decided when a request comes, by what is served then.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models.functions import Now

from completions.models import Category, RoutableAlias
from rankings.models import Entry

# So many may have gone out of service since, before nobody answers.
MODELS_MAX = 50


def write(entries: Iterable[Entry]) -> None:
    """Make the aliases those of INTERNAL's entries. One whose board is empty goes."""
    found = list(entries)
    wanted = {alias: model_ids for category in Category for alias, model_ids in _of(category, found) if model_ids}
    RoutableAlias.objects.filter(pk__in=set(names()) - set(wanted)).delete()
    RoutableAlias.objects.bulk_create(
        [RoutableAlias(id=alias, model_ids=model_ids, updated_at=Now()) for alias, model_ids in sorted(wanted.items())],
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["model_ids", "updated_at"],
    )


def names() -> Iterator[str]:
    """Every alias that there may be. Others in the table are somebody else's."""
    return (f"{order}/{category.lower()}" for category in Category for order in _ORDERS)


def _of(category: Category, entries: Iterable[Entry]) -> Iterator[tuple[str, list[str]]]:
    board = [entry for entry in entries if entry.board == category]
    for order, key in _ORDERS.items():
        yield f"{order}/{category.lower()}", [entry.model_id for entry in sorted(board, key=key)][:MODELS_MAX]


def _best(entry: Entry) -> Any:
    return entry.board_rank


def _cheapest(entry: Entry) -> Any:
    """By the price, as scores end at their anchors. Who was never tested in the category comes after all who were."""
    return entry.quality is None, entry.inputs["cost"]["blended_usd"], entry.board_rank


def _fastest(entry: Entry) -> Any:
    """Who was never measured comes last, and before them who was never tested in the category."""
    return entry.speed is None, entry.quality is None, -(entry.speed or 0), entry.board_rank


_ORDERS = {"best": _best, "cheapest": _cheapest, "fastest": _fastest}
