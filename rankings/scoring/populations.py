"""The last snapshot of a source in memory: each board with its whole population, and the standings of our models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from completions.models import Category
from rankings.identity import mapping
from rankings.identity.mapping import ChosenStanding
from rankings.models import Snapshot, Source, Standing
from rankings.scoring import formula, parameters
from rankings.sources import registry
from rankings.sources.base import FetchedSourceSpec, Placement, StandingFigures


@dataclass(frozen=True)
class PopulationBoard:
    """A board of a source. ``values``: those of all models on it, sorted. ``ours``: the standings of our models, by id."""

    values: list[float] = field(default_factory=list)
    ours: Mapping[str, ChosenStanding] = field(default_factory=dict)

    def percentile(self, value: float) -> float:
        return formula.percentile(value, self.values)

    def placement(self, standing: Standing) -> Placement:
        return Placement(standing.value, self.percentile(standing.value), self.values[-1], standing.facts)


@dataclass(frozen=True)
class Population:
    """A source's last snapshot that may be shown, by board. Without a snapshot there are no boards."""

    spec: FetchedSourceSpec
    snapshot: Snapshot | None
    boards: Mapping[str, PopulationBoard]

    def board(self, category: str) -> PopulationBoard:
        """Return the source's board of a category. For OPEN_SOURCE that is GENERAL: no source has a board of open weights."""
        name = Category.GENERAL.value if category == Category.OPEN_SOURCE else category
        return self.boards.get(name, PopulationBoard())

    def figures(self, category: str, chosen: ChosenStanding) -> StandingFigures:
        """Return what the standing of one of our models contributes."""
        return self.spec.figures(self.board(category).placement(chosen.standing))

    def freshness(self, moment: datetime) -> float:
        """Return how fresh the snapshot is, as a share."""
        assert self.snapshot
        half_life_hours = parameters.in_force().half_lives_hours[self.spec.short_name]
        age_hours = (moment - self.snapshot.as_of).total_seconds() / 3_600
        return formula.freshness(age_hours=age_hours, half_life_hours=half_life_hours)


def latest_population(source: Source) -> Population:
    spec, snapshot = registry.fetched_spec(source), mapping.latest_snapshot(source)
    if snapshot is None:
        return Population(spec, None, {})
    values: dict[str, list[float]] = {}
    for board, value in snapshot.standings.order_by("value").values_list("board", "value"):
        values.setdefault(board, []).append(value)
    ours = mapping.chosen_standings(snapshot)
    return Population(
        spec, snapshot, {board: PopulationBoard(values[board], ours.get(Category(board), {})) for board in values}
    )
