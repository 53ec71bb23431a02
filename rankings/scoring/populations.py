"""The last snapshot of a source in memory: each board with its whole population, and the standings of our models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from completions.models import Category
from rankings.identity import mapping
from rankings.identity.mapping import ChosenStanding
from rankings.models import Snapshot, Source
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


@dataclass(frozen=True)
class Population:
    """A source's last snapshot that may be shown, by board. Without a snapshot there are no boards."""

    spec: FetchedSourceSpec
    snapshot: Snapshot | None
    boards: Mapping[str, PopulationBoard]

    def board(self, category: str) -> PopulationBoard:
        """Return the source's board of a category. For OPEN_SOURCE that is GENERAL: no source has a board of open weights."""
        return self.boards.get(_name(category), PopulationBoard())

    def version(self, category: str) -> str:
        """Return the version of the board that was read."""
        assert self.snapshot
        return str(self._about(category).get("version") or self.snapshot.version or self.spec.board(_name(category)).version)

    def as_of(self, category: str) -> datetime:
        """Return the date of the board: it may have stayed as it was before this snapshot."""
        assert self.snapshot
        moment = self._about(category).get("as_of")
        return datetime.fromisoformat(moment) if moment else self.snapshot.as_of

    def weight(self, category: str) -> float:
        """Return how much of the source's weight the board has in INTERNAL."""
        return self.spec.board(_name(category)).weight

    def _about(self, category: str) -> Mapping[str, str]:
        assert self.snapshot
        found: Mapping[str, str] = self.snapshot.boards.get(_name(category), {})
        return found

    def figures(self, category: str, chosen: ChosenStanding) -> StandingFigures:
        standing, board = chosen.standing, self.board(category)
        placement = Placement(standing.value, board.percentile(standing.value), board.values[-1], standing.facts)
        return self.spec.figures(placement)

    def freshness(self, category: str, moment: datetime) -> float:
        half_life_hours = parameters.in_force().half_lives_hours[self.spec.short_name]
        age_hours = (moment - self.as_of(category)).total_seconds() / 3_600
        return formula.freshness(age_hours=age_hours, half_life_hours=half_life_hours)


def _name(category: str) -> str:
    return Category.GENERAL.value if category == Category.OPEN_SOURCE else category


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
