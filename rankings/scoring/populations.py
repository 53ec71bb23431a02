"""The last snapshot of a source in memory: each board with its whole population, and the standings of our models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from completions.models import Category
from rankings.identity import mapping
from rankings.identity.mapping import ChosenStanding
from rankings.models import Source
from rankings.scoring import formula, parameters
from rankings.sources import registry
from rankings.sources.base import FetchedSourceSpec, Placement, StandingFigures


@dataclass(frozen=True)
class PopulationBoard:
    """A board of a source. ``values``: those of all models on it, sorted. ``ours``: the standings of our models, by id."""

    spec: FetchedSourceSpec
    weight: float  # how much of the source's weight the board has in INTERNAL
    values: list[float] = field(default_factory=list)
    ours: Mapping[str, ChosenStanding] = field(default_factory=dict)
    version: str = ""
    as_of: datetime = datetime.min.replace(tzinfo=UTC)  # the board may have stayed as it was before this snapshot
    attribution: str = ""

    def percentile(self, value: float) -> float:
        return formula.percentile(value, self.values)

    def figures(self, chosen: ChosenStanding) -> StandingFigures:
        standing = chosen.standing
        return self.spec.figures(Placement(standing.value, self.percentile(standing.value), self.values[-1], standing.facts))

    def freshness(self, moment: datetime) -> float:
        half_life_hours = parameters.in_force().half_lives_hours[self.spec.short_name]
        return formula.freshness(age_hours=(moment - self.as_of).total_seconds() / 3_600, half_life_hours=half_life_hours)


Population = Mapping[Category, PopulationBoard]


def latest_population(source: Source) -> Population:
    """Return the boards of a source's last snapshot that may be shown. A board that it does not have is empty.

    The board of OPEN_SOURCE is that of GENERAL: no source has a board of open weights.
    """
    spec, snapshot = registry.fetched_spec(source), mapping.latest_snapshot(source)
    boards = {category: PopulationBoard(spec, spec.board(category).weight) for category in Category}
    if snapshot:
        values: dict[Category, list[float]] = {}
        for board, value in snapshot.standings.order_by("value").values_list("board", "value"):
            values.setdefault(Category(board), []).append(value)
        ours = mapping.chosen_standings(snapshot)
        for category in values:
            about = snapshot.boards.get(category, {})
            boards[category] = PopulationBoard(
                spec,
                spec.board(category).weight,
                values[category],
                ours.get(category, {}),
                version=str(about.get("version") or snapshot.version or spec.board(category).version),
                as_of=datetime.fromisoformat(about["as_of"]) if about.get("as_of") else snapshot.as_of,
                attribution=snapshot.attribution,
            )
    return {**boards, Category.OPEN_SOURCE: boards[Category.GENERAL]}
