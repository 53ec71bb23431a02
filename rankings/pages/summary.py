"""The scores of models, in short, for their pages in the catalog: ours, the figures of the sources, and benchmarks."""

from collections.abc import Collection
from typing import Any

from completions.models import Category
from gateway_project.db import pool
from rankings.models import Source
from rankings.pages.explanation import BENCHMARKS
from rankings.pages.query import BOARD_TITLES
from rankings.pages.rows import tenths
from rankings.publishing import listing
from rankings.publishing.listing import PublishedRankings
from rankings.scoring import benchmarks
from rankings.sources import registry


def summarize(model_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the summaries by id, without models that are not ranked; none while nothing can be read."""
    try:
        published = listing.published()
    except pool.DATABASE_ERRORS:
        return {}
    return {model_id: _summary(model_id, published) for model_id in model_ids if model_id in published.models}


def _summary(model_id: str, published: PublishedRankings) -> dict[str, Any]:
    places = sorted(published.leaderboards, key=lambda each: (Source.values.index(each[0]), Category.values.index(each[1])))
    entries = [each.entry for place in places for each in published.leaderboard(*place) if each.model.id == model_id]
    own = next((each for each in entries if (each.source, each.board) == (Source.INTERNAL, Category.GENERAL)), None)
    return {
        "own": own,
        "quality": tenths(own.quality if own else None),
        "models": len(published.leaderboard(Source.INTERNAL, Category.GENERAL)),
        "sources": [
            {"spec": registry.spec(each.source), "board": BOARD_TITLES[each.board], "entry": each}
            for each in entries
            if each.source != Source.INTERNAL
        ],
        "benchmarks": [
            {"name": BENCHMARKS[each.benchmark], "figure": each} for each in benchmarks.figures().get(model_id, {}).values()
        ],
    }
