"""INTERNAL: every model that is served, on every board, scored by the formula; and what each score was made of."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from completions.models import Category
from rankings.models import Entry, Source
from rankings.publishing import external
from rankings.scoring import benchmarks, formula, populations, telemetry, terms
from rankings.scoring.formula import Evidence, Scores, Terms
from rankings.scoring.populations import SHORT_NAMES, Population
from rankings.scoring.served_models import Served
from rankings.scoring.telemetry import Speed

# OpenRouter counts tokens: how much a model is used is no evidence of how good it is.
_WITNESSES = [Source.LMSYS_ARENA, Source.ARTIFICIAL_ANALYSIS, Source.HUGGINGFACE]


@dataclass(frozen=True)
class Known:
    """Everything that goes into the scores, read once."""

    now: datetime
    terms: Terms
    populations: Mapping[Source, Population]
    speeds: Mapping[str, Speed]


@dataclass(frozen=True)
class Testimony:
    """What a source says of a model in a category, if anything; and whether it could."""

    source: Source
    is_applicable: bool
    evidence: Evidence | None = None
    said: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        return SHORT_NAMES[self.source]

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
    testimonies: list[Testimony]
    pace: Pace


def entries(models: Mapping[str, Served], now: datetime) -> list[Entry]:
    known = Known(
        now=now,
        terms=terms.in_force(),
        populations={source: populations.latest(source) for source in _WITNESSES},
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
    testimonies = [_testimony(source, category, model, known) for source in _WITNESSES]
    pace = _pace(model, known)
    scores = formula.scores(
        known.terms,
        evidence={each.name: each.evidence for each in testimonies if each.evidence},
        applicable=[each.name for each in testimonies if each.is_applicable],
        speed=pace.score,
        cost=formula.cost(known.terms, model.blended_dollars),
    )
    return Scored(model, scores, testimonies, pace)


def _testimony(source: Source, category: Category, model: Served, known: Known) -> Testimony:
    """The Hub's boards are of open weights: that it is silent of others is no loss to them."""
    population = known.populations[source]
    board = population.board(category)
    is_applicable = len(board.values) >= known.terms.population_min and (source != Source.HUGGINGFACE or model.has_open_weights)
    chosen = board.ours.get(model.id)
    if chosen is None:
        return Testimony(source, is_applicable)
    evidence = Evidence(
        percentile=board.percentile(chosen.standing.value),
        identity=chosen.confidence,
        precision=external.precision(source, chosen.standing.facts),
        freshness=population.freshness(known.now),
    )
    return Testimony(source, is_applicable, evidence, external.said(population, category, chosen))


def _pace(model: Served, known: Known) -> Pace:
    """Our own measurement; without one, Artificial Analysis's."""
    if own := known.speeds.get(model.id):
        rate, begins = own.tokens_per_second, own.first_token_seconds
        score = formula.speed(known.terms, tokens_per_second=rate, first_token_seconds=begins)
        return Pace(score, rate, begins, own.streams, Source.INTERNAL)
    chosen = known.populations[Source.ARTIFICIAL_ANALYSIS].board(Category.GENERAL).ours.get(model.id)
    facts = chosen.standing.facts if chosen else {}
    score = external.speed(facts)
    if score is None:
        return Pace()
    return Pace(score, facts.get("tokens_per_second"), facts.get("first_token_seconds"), source=Source.ARTIFICIAL_ANALYSIS)


# --- Telling ------------------------------------------------------------------------------------------------------


def _entry(category: Category, scored: Scored, known: Known, *, rank: int, board_rank: int) -> Entry:
    scores, model = scored.scores, scored.model
    rating = known.populations[Source.LMSYS_ARENA].board(category).ours.get(model.id)
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
        elo=round(rating.standing.value) if rating else None,
        **{benchmark: figure.value for benchmark, figure in figures.items()},
        confidence=scores.confidence,
        last_updated=_oldest(scored, known),
        inputs=_inputs(scored, known),
    )


def _oldest(scored: Scored, known: Known) -> datetime:
    """The date of the oldest of what was heard. Prices and our own measurements are of now."""
    heard = {each.source for each in scored.testimonies if each.is_heard} | {scored.pace.source}
    snapshots = [population.snapshot for source, population in known.populations.items() if source in heard]
    return min((snapshot.as_of for snapshot in snapshots if snapshot), default=known.now)


def _inputs(scored: Scored, known: Known) -> dict[str, Any]:
    """Everything a page needs to do the sum again."""
    scores, model = scored.scores, scored.model
    return {
        "version": terms.version(),
        "weights": dict(known.terms.scores),
        "prior": {"quality": known.terms.prior, "weight": known.terms.prior_weight},
        "sources": [_source(each, known) for each in scored.testimonies],
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


def _source(testimony: Testimony, known: Known) -> dict[str, Any]:
    evidence = testimony.evidence
    return {
        "source": testimony.source,
        "weight": known.terms.sources[testimony.name],
        "is_applicable": testimony.is_applicable,
        "is_heard": testimony.is_heard,
        **(testimony.said or {}),
        **(asdict(evidence) if evidence else {}),
    }
