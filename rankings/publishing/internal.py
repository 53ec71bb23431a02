"""INTERNAL: every model that is served, on every board, scored by the formula; and what each score was made of."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from completions.models import Category
from rankings.models import Entry, Source
from rankings.publishing import external
from rankings.scoring import benchmarks, formula, parameters, populations, telemetry
from rankings.scoring.formula import Evidence, Scores
from rankings.scoring.parameters import FormulaParameters
from rankings.scoring.populations import Population
from rankings.scoring.served_models import Served
from rankings.scoring.telemetry import Speed
from rankings.sources import registry
from rankings.sources.base import FetchedSourceSpec, StandingFigures


@dataclass(frozen=True)
class Known:
    """Everything that goes into the scores, read once."""

    now: datetime
    parameters: FormulaParameters
    populations: Mapping[Source, Population]  # of the sources that count in the quality, the heaviest first
    speeds: Mapping[str, Speed]


@dataclass(frozen=True)
class SourceStatement:
    """What a source says of a model in a category, if anything; and whether it could."""

    spec: FetchedSourceSpec
    is_applicable: bool
    evidence: Evidence | None = None
    said: Mapping[str, Any] | None = None

    @property
    def is_heard(self) -> bool:
        return self.is_applicable and self.evidence is not None


@dataclass(frozen=True)
class Pace:
    """How fast a model is, and who says so: INTERNAL is this gateway."""

    score: float | None = None
    tokens_per_second: float | None = None
    first_token_seconds: float | None = None
    streams: int | None = None
    source: Source | None = None


@dataclass(frozen=True)
class Scored:
    model: Served
    scores: Scores
    statements: list[SourceStatement]
    pace: Pace


def entries(models: Mapping[str, Served], now: datetime) -> list[Entry]:
    known = Known(
        now=now,
        parameters=parameters.in_force(),
        populations={spec.source: populations.latest(spec.source) for spec in registry.weighted_specs()},
        speeds=telemetry.speeds(now),
    )
    boards = {category: _board(category, models, known) for category in Category}
    ranks = {scored.model.id: rank for rank, scored in enumerate(boards[Category.GENERAL], start=1)}
    return [
        _entry(category, scored, known, rank=ranks[scored.model.id], board_rank=board_rank)
        for category, board in boards.items()
        for board_rank, scored in enumerate(board, start=1)
    ]


def _board(category: Category, models: Mapping[str, Served], known: Known) -> list[Scored]:
    """The best first: by the whole, then by quality, then by id, so that no two share a rank."""
    on_it = [model for model in models.values() if category != Category.OPEN_SOURCE or model.has_open_weights]
    scored = [_scored(category, model, known) for model in on_it]
    return sorted(scored, key=lambda each: (-each.scores.overall, -(each.scores.quality or 0), each.model.id))


def _scored(category: Category, model: Served, known: Known) -> Scored:
    statements = [_statement(population, category, model, known) for population in known.populations.values()]
    pace = _pace(model, known)
    scores = formula.scores(
        known.parameters,
        evidence={each.spec.short_name: each.evidence for each in statements if each.evidence},
        applicable=[each.spec.short_name for each in statements if each.is_applicable],
        speed=pace.score,
        cost=formula.cost(known.parameters, model.blended_dollars),
    )
    return Scored(model, scores, statements, pace)


def _statement(population: Population, category: Category, model: Served, known: Known) -> SourceStatement:
    """A closed model loses nothing when a source of open weights only does not list it."""
    spec, board = population.spec, population.board(category)
    could_list_it = model.has_open_weights or not spec.lists_open_weights_only
    is_applicable = len(board.values) >= known.parameters.population_min and could_list_it
    chosen = board.ours.get(model.id)
    if chosen is None:
        return SourceStatement(spec, is_applicable)
    evidence = Evidence(
        percentile=board.percentile(chosen.standing.value),
        identity=chosen.confidence,
        precision=population.figures(category, chosen).precision,
        freshness=population.freshness(known.now),
    )
    return SourceStatement(spec, is_applicable, evidence, external.said(population, category, chosen))


def _pace(model: Served, known: Known) -> Pace:
    """Our own measurement; without one, that of the heaviest source that has one."""
    if own := known.speeds.get(model.id):
        return _measured(known, own.tokens_per_second, own.first_token_seconds, own.streams, Source.INTERNAL)
    theirs = (
        _measured(known, figures.tokens_per_second, figures.first_token_seconds, None, source)
        for source, figures in _figures(Category.GENERAL, model, known)
    )
    return next((pace for pace in theirs if pace.score is not None), Pace())


def _measured(known: Known, rate: float | None, begins: float | None, streams: int | None, source: Source) -> Pace:
    score = formula.speed(known.parameters, tokens_per_second=rate, first_token_seconds=begins)
    return Pace(score, rate, begins, streams, source)


def _figures(category: Category, model: Served, known: Known) -> Iterator[tuple[Source, StandingFigures]]:
    """What each source has of the model on its own board, the heaviest source first."""
    for source, population in known.populations.items():
        if chosen := population.board(category).ours.get(model.id):
            yield source, population.figures(category, chosen)


# --- Telling ------------------------------------------------------------------------------------------------------


def _entry(category: Category, scored: Scored, known: Known, *, rank: int, board_rank: int) -> Entry:
    scores, model = scored.scores, scored.model
    ratings = [figures.elo for _, figures in _figures(category, model, known) if figures.elo is not None]
    figures = benchmarks.figures().get(model.id, {})
    return Entry(
        source=Source.INTERNAL,
        board=category,
        model_id=model.id,
        rank=rank,
        board_rank=board_rank,
        overall=scores.overall,
        quality=scores.quality,
        speed=scores.speed,
        cost=scores.cost,
        elo=ratings[0] if ratings else None,
        **{benchmark: figure.value for benchmark, figure in figures.items()},
        confidence=scores.confidence,
        last_updated=_oldest(scored, known),
        inputs=_inputs(scored, known),
    )


def _oldest(scored: Scored, known: Known) -> datetime:
    """The date of the oldest of what was heard. Prices and our own measurements are of now."""
    heard = {each.spec.source for each in scored.statements if each.is_heard} | {scored.pace.source}
    snapshots = [population.snapshot for source, population in known.populations.items() if source in heard]
    return min((snapshot.as_of for snapshot in snapshots if snapshot), default=known.now)


def _inputs(scored: Scored, known: Known) -> dict[str, Any]:
    """Everything a page needs to do the sum again."""
    scores, model = scored.scores, scored.model
    return {
        "version": parameters.version(),
        "weights": dict(known.parameters.score_weights),
        "prior": {"quality": known.parameters.prior, "weight": known.parameters.prior_weight},
        "sources": [_source(each, known) for each in scored.statements],
        "coverage": scores.coverage,
        "quality": scores.quality,
        "believed": scores.believed,
        "speed": asdict(scored.pace),
        "cost": {
            "input_usd": model.input_dollars,
            "output_usd": model.output_dollars,
            "blended_usd": model.blended_dollars,
            "score": scores.cost,
        },
        "benchmarks": [asdict(figure) for figure in benchmarks.figures().get(model.id, {}).values()],
    }


def _source(statement: SourceStatement, known: Known) -> dict[str, Any]:
    evidence = statement.evidence
    return {
        "source": statement.spec.source,
        "weight": known.parameters.source_weights[statement.spec.short_name],
        "is_applicable": statement.is_applicable,
        "is_heard": statement.is_heard,
        **(statement.said or {}),
        **(asdict(evidence) if evidence else {}),
    }
