"""What is published of a source: its own ranks and scores, for those of its models that are ours and served."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from completions.models import Category
from rankings.identity.mapping import Chosen
from rankings.models import Entry, Source
from rankings.scoring import formula, populations, terms
from rankings.scoring.populations import Board, Population
from rankings.scoring.served_models import Served


@dataclass(frozen=True)
class Figures:
    """What a standing comes to. ``precision``: how far the source itself may be believed, as a share."""

    precision: float
    overall: float
    quality: float | None = None
    speed: float | None = None
    cost: float | None = None
    elo: int | None = None


def entries(source: Source, models: Mapping[str, Served], now: datetime) -> list[Entry]:
    population = populations.latest(source)
    found = [
        _entry(population, category, model_id, chosen, now)
        for category in Category
        if category != Category.OPEN_SOURCE
        for model_id, chosen in population.board(category).ours.items()
        if model_id in models
    ]
    return [*found, *_open_source([entry for entry in found if models[entry.model_id].has_open_weights])]


def _entry(population: Population, category: Category, model_id: str, chosen: Chosen, now: datetime) -> Entry:
    assert population.snapshot
    board, standing = population.board(category), chosen.standing
    general = population.board(Category.GENERAL).ours.get(model_id, chosen)
    figures = _FIGURES[population.source](board, chosen)
    freshness = population.freshness(now)
    return Entry(
        source=population.source,
        board=category,
        model_id=model_id,
        rank=general.standing.rank,
        board_rank=standing.rank,
        overall=figures.overall,
        quality=figures.quality,
        speed=figures.speed,
        cost=figures.cost,
        elo=figures.elo,
        confidence=chosen.confidence * figures.precision * freshness,
        last_updated=population.snapshot.as_of,
        inputs={**said(population, category, chosen), "precision": figures.precision, "freshness": freshness},
    )


def said(population: Population, category: str, chosen: Chosen) -> dict[str, Any]:
    """What a source says of a model, for the page that explains scores."""
    assert population.snapshot
    standing, board = chosen.standing, population.board(category)
    return {
        "name": standing.name,
        "key": standing.external_key,
        "rank": standing.rank,
        "value": standing.value,
        "facts": standing.facts,
        "population": len(board.values),
        "percentile": board.percentile(standing.value),
        "identity": chosen.confidence,
        "method": str(chosen.method),
        "as_of": population.snapshot.as_of.isoformat(),
        "version": population.snapshot.version,
        "attribution": population.snapshot.attribution,
    }


def _open_source(found: list[Entry]) -> Iterator[Entry]:
    """GENERAL again, of open weights only, and ranked among them: ties share a rank, and none is left out."""
    general = [entry for entry in found if entry.board == Category.GENERAL]
    ranks = {rank: number for number, rank in enumerate(sorted({entry.rank for entry in general}), start=1)}
    for entry in general:
        again = copy(entry)
        again.board, again.board_rank = Category.OPEN_SOURCE, ranks[entry.rank]
        yield again


# --- Each source --------------------------------------------------------------------------------------------------


def _arena(board: Board, chosen: Chosen) -> Figures:
    standing = chosen.standing
    percentile = board.percentile(standing.value)
    return Figures(precision(Source.LMSYS_ARENA, standing.facts), percentile, percentile, elo=round(standing.value))


def _hugging_face(board: Board, chosen: Chosen) -> Figures:
    standing = chosen.standing
    return Figures(precision(Source.HUGGINGFACE, standing.facts), standing.value, standing.value)


def _artificial_analysis(board: Board, chosen: Chosen) -> Figures:
    facts, value = chosen.standing.facts, chosen.standing.value
    return Figures(
        precision(Source.ARTIFICIAL_ANALYSIS, facts),
        value,
        value,
        speed=speed(facts),
        cost=formula.cost(
            terms.in_force(),
            formula.blended_dollars(input_dollars=facts.get("input_usd"), output_dollars=facts.get("output_usd")),
        ),
    )


def _openrouter(board: Board, chosen: Chosen) -> Figures:
    """Tokens, of the most used model's. Its prices and speeds may be looked at, but not published."""
    share = chosen.standing.value / board.values[-1] if board.values[-1] > 0 else 0.0
    return Figures(precision(Source.OPENROUTER, chosen.standing.facts), 100 * share)


_FIGURES = {
    Source.LMSYS_ARENA: _arena,
    Source.HUGGINGFACE: _hugging_face,
    Source.ARTIFICIAL_ANALYSIS: _artificial_analysis,
    Source.OPENROUTER: _openrouter,
}


def speed(facts: Mapping[str, Any]) -> float | None:
    """As Artificial Analysis measured it."""
    return formula.speed(
        terms.in_force(),
        tokens_per_second=facts.get("tokens_per_second"),
        first_token_seconds=facts.get("first_token_seconds"),
    )


def precision(source: Source, facts: Mapping[str, Any]) -> float:
    if source == Source.LMSYS_ARENA:
        return formula.rating_precision(facts.get("lower"), facts.get("upper"))
    if source == Source.HUGGINGFACE:
        return formula.PRECISION_VERIFIED if facts.get("verified") else formula.PRECISION_UNVERIFIED
    if source == Source.OPENROUTER:
        return formula.PRECISION_SAMPLED if facts.get("is_sampled") else formula.PRECISION_COUNTED
    return formula.PRECISION_OF_INDEX
