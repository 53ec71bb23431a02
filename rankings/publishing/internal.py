"""Makes the entries of INTERNAL: every model with a price on every board, scored by the formula."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from completions.models import Category
from rankings.models import Entry, Source
from rankings.publishing import external
from rankings.publishing.external import PricedModel
from rankings.scoring import benchmarks, formula, parameters, populations, telemetry
from rankings.scoring.formula import Evidence, Scores
from rankings.scoring.parameters import FormulaParameters
from rankings.scoring.populations import Population, PopulationBoard
from rankings.scoring.telemetry import MeasuredSpeed
from rankings.sources import registry
from rankings.sources.base import StandingFigures


@dataclass(frozen=True)
class ScoringInputs:
    """Everything that goes into the scores, read once."""

    now: datetime
    parameters: FormulaParameters
    populations: Mapping[Source, Population]  # of the sources that count in the quality, the heaviest first
    speeds: Mapping[str, MeasuredSpeed]


@dataclass(frozen=True)
class SourceStatement:
    """A model's result on a board of a source: nothing without ``evidence``. ``fields`` go into ``Entry.inputs``."""

    board: PopulationBoard
    is_applicable: bool  # whether it could say anything of such a model there
    evidence: Evidence | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_counted(self) -> bool:
        return self.is_applicable and self.evidence is not None

    def as_input(self, parameters: FormulaParameters) -> dict[str, Any]:
        return {
            "source": self.board.spec.source,
            "weight": parameters.source_weights[self.board.spec.short_name] * self.board.weight,
            "is_applicable": self.is_applicable,
            "is_heard": self.is_counted,
            **self.fields,
        }


def entries(models: Mapping[str, PricedModel], now: datetime) -> list[Entry]:
    """Return all entries. ``models`` are those with a price, by id."""
    inputs = ScoringInputs(
        now=now,
        parameters=parameters.in_force(),
        populations={spec.source: populations.latest_population(spec.source) for spec in registry.weighted_specs()},
        speeds=telemetry.speeds(now),
    )
    boards = {category: _board(category, models, inputs) for category in Category}
    ranks = {entry.model_id: entry.board_rank for entry in boards[Category.GENERAL]}
    found = list(chain.from_iterable(boards.values()))
    for entry in found:
        entry.rank = ranks[entry.model_id]
    return found


def _board(category: Category, models: Mapping[str, PricedModel], inputs: ScoringInputs) -> list[Entry]:
    """Return the entries of a board, best first: by overall score, then by quality, then by id, so that no two share a rank."""
    eligible = [model for model in models.values() if category != Category.OPEN_SOURCE or model.has_open_weights]
    board = [_entry(category, model, inputs) for model in eligible]
    board.sort(key=lambda entry: (-(entry.overall or 0), -(entry.quality or 0), entry.model_id))
    for board_rank, entry in enumerate(board, start=1):
        entry.board_rank = board_rank
    return board


def _entry(category: Category, model: PricedModel, inputs: ScoringInputs) -> Entry:
    """Return the entry of a model on a board, without its ranks."""
    statements = [_statement(population[category], model, inputs) for population in inputs.populations.values()]
    speed = _speed(model, inputs)
    scores = formula.scores(
        inputs.parameters,
        evidence={each.board.spec.short_name: each.evidence for each in statements if each.evidence},
        applicable={each.board.spec.short_name: each.board.weight for each in statements if each.is_applicable},
        speed=speed["score"],
        cost=formula.cost(inputs.parameters, model.blended_dollars),
    )
    measured = benchmarks.figures().get(model.id, {})
    return Entry(
        source=Source.INTERNAL,
        board=category,
        model_id=model.id,
        overall=scores.overall,
        quality=scores.quality,
        speed=scores.speed,
        cost=scores.cost,
        elo=next((each.elo for _, each in _figures(category, model, inputs) if each.elo is not None), None),
        **{benchmark: figure.value for benchmark, figure in measured.items()},
        confidence=scores.confidence,
        last_updated=_oldest_date(statements, speed, inputs),
        inputs=_inputs(model, scores, statements, speed),
    )


def _statement(board: PopulationBoard, model: PricedModel, inputs: ScoringInputs) -> SourceStatement:
    """A closed model loses nothing when a source of open weights only does not list it."""
    could_list_it = model.has_open_weights or not board.spec.lists_open_weights_only
    is_applicable = len(board.values) >= inputs.parameters.population_min and could_list_it and board.weight > 0
    chosen = board.ours.get(model.id)
    if chosen is None:
        return SourceStatement(board, is_applicable)
    evidence = Evidence(
        percentile=board.percentile(chosen.standing.value),
        identity=chosen.confidence,
        precision=board.figures(chosen).precision,
        freshness=board.freshness(inputs.now),
    )
    fields = {**external.source_inputs(board, chosen), **asdict(evidence)}
    return SourceStatement(board, is_applicable, evidence, fields)


def _speed(model: PricedModel, inputs: ScoringInputs) -> dict[str, Any]:
    """Return the speed as this gateway measured it; if it did not, as the heaviest source with a speed says."""
    if own := inputs.speeds.get(model.id):
        return _measured(inputs, own, Source.INTERNAL, own.streams)
    theirs = (_measured(inputs, figures, source) for source, figures in _figures(Category.GENERAL, model, inputs))
    unknown: dict[str, Any] = dict.fromkeys(("score", "tokens_per_second", "first_token_seconds", "streams", "source"))
    return next((speed for speed in theirs if speed["score"] is not None), unknown)


def _measured(
    inputs: ScoringInputs, figures: MeasuredSpeed | StandingFigures, source: Source, streams: int | None = None
) -> dict[str, Any]:
    measured = {"tokens_per_second": figures.tokens_per_second, "first_token_seconds": figures.first_token_seconds}
    return {"score": formula.speed(inputs.parameters, **measured), **measured, "streams": streams, "source": source}


def _figures(category: Category, model: PricedModel, inputs: ScoringInputs) -> Iterator[tuple[Source, StandingFigures]]:
    """Yield the figures of the model at each source, the heaviest source first."""
    for source, population in inputs.populations.items():
        if chosen := population[category].ours.get(model.id):
            yield source, population[category].figures(chosen)


def _oldest_date(statements: list[SourceStatement], speed: Mapping[str, Any], inputs: ScoringInputs) -> datetime:
    """Return the date of the oldest board that counts. Prices and this gateway's own measurements are of now."""
    dates = [each.board.as_of for each in statements if each.is_counted]
    if measured := inputs.populations.get(speed["source"]):
        dates.append(measured[Category.GENERAL].as_of)
    return min(dates, default=inputs.now)


def _inputs(model: PricedModel, scores: Scores, statements: list[SourceStatement], speed: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``Entry.inputs``: everything that a page needs to do the sums again (see ``publication``)."""
    used = parameters.in_force()
    return {
        "version": parameters.version(),
        "weights": dict(used.score_weights),
        "prior": {"quality": used.prior, "weight": used.prior_weight},
        "sources": [each.as_input(used) for each in statements],
        "coverage": scores.coverage,
        "evidence": scores.evidence,
        "quality": scores.quality,
        "believed": scores.adjusted_quality,
        "speed": speed,
        "cost": {
            "input_usd": model.input_dollars,
            "output_usd": model.output_dollars,
            "blended_usd": model.blended_dollars,
            "score": scores.cost,
        },
        "benchmarks": [asdict(figure) for figure in benchmarks.figures().get(model.id, {}).values()],
    }
