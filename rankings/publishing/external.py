"""Makes the entries of a fetched source: its own ranks and scores, for its models with a price here."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from completions.models import Category, LanguageModel
from gateway_project.text import dollars
from rankings.identity.mapping import ChosenStanding
from rankings.models import Entry, Profile, Source
from rankings.scoring import formula, parameters, populations
from rankings.scoring.populations import Population, PopulationBoard


@dataclass(frozen=True)
class PricedModel:
    """A model that has a price. Prices are in US dollars per million tokens: for scores only, never for charges."""

    id: str
    input_dollars: float
    output_dollars: float
    has_open_weights: bool

    @property
    def blended_dollars(self) -> float | None:
        return formula.blended_dollars(input_dollars=self.input_dollars, output_dollars=self.output_dollars)


def priced_models() -> dict[str, PricedModel]:
    """Return every enabled model with a price in force, by id; callable or not, as a rank says how good a model is."""
    profiles = dict(Profile.objects.values_list("pk", "open_weights"))
    return {
        model.pk: PricedModel(
            id=model.pk,
            input_dollars=model.prices_in_force[0].input_nanos / dollars.NANOS_PER_DOLLAR,
            output_dollars=model.prices_in_force[0].output_nanos / dollars.NANOS_PER_DOLLAR,
            has_open_weights=profiles.get(model.pk, model.category == Category.OPEN_SOURCE),
        )
        for model in LanguageModel.objects.of_chat().filter(is_enabled=True).with_price_and_routes()
        if model.prices_in_force
    }


def entries(source: Source, models: Mapping[str, PricedModel], now: datetime) -> list[Entry]:
    """Return the entries of a source, from its last snapshot. ``models`` are those with a price, by id."""
    population = populations.latest_population(source)
    ranked = [
        _entry(population, category, model_id, chosen, now)
        for category, board in population.items()
        if category != Category.OPEN_SOURCE
        for model_id, chosen in board.ours.items()
        if model_id in models
    ]
    open_general = [entry for entry in ranked if entry.board == Category.GENERAL and models[entry.model_id].has_open_weights]
    return [*ranked, *_open_source(open_general)]


def _entry(population: Population, category: Category, model_id: str, chosen: ChosenStanding, now: datetime) -> Entry:
    board, general = population[category], population[Category.GENERAL].ours.get(model_id, chosen)
    figures, freshness = board.figures(chosen), board.freshness(now)
    blended = formula.blended_dollars(input_dollars=figures.input_dollars, output_dollars=figures.output_dollars)
    used = parameters.in_force()
    return Entry(
        source=board.spec.source,
        board=category,
        model_id=model_id,
        rank=general.standing.rank,
        board_rank=chosen.standing.rank,
        overall=figures.overall,
        quality=figures.quality,
        speed=formula.speed(used, tokens_per_second=figures.tokens_per_second, first_token_seconds=figures.first_token_seconds),
        cost=formula.cost(used, blended),
        elo=figures.elo,
        confidence=chosen.confidence * figures.precision * freshness,
        last_updated=board.as_of,
        inputs={**source_inputs(board, chosen), "precision": figures.precision, "freshness": freshness},
    )


def source_inputs(board: PopulationBoard, chosen: ChosenStanding) -> dict[str, Any]:
    """Return the part of ``Entry.inputs`` that holds what a source says of a model (see ``publication``)."""
    standing = chosen.standing
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
        "as_of": board.as_of.isoformat(),
        "version": board.version,
        "attribution": board.attribution,
    }


def _open_source(general: list[Entry]) -> Iterator[Entry]:
    """Yield the entries of OPEN_SOURCE: those of GENERAL, ranked among themselves. Ties share a rank; no rank is skipped."""
    ranks = {rank: number for number, rank in enumerate(sorted({entry.rank for entry in general}), start=1)}
    for entry in general:
        duplicate = copy(entry)
        duplicate.board, duplicate.board_rank = Category.OPEN_SOURCE, ranks[entry.rank]
        yield duplicate
