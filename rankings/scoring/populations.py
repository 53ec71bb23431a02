"""The last snapshot of a source: its boards with their whole populations, and which of them are our models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from completions.models import Category
from rankings.identity import mapping
from rankings.identity.mapping import Chosen
from rankings.models import Snapshot, Source
from rankings.scoring import formula, terms


@dataclass(frozen=True)
class Board:
    """``values``: of everybody on it, sorted. ``ours``: the standings of our models, by id."""

    values: list[float] = field(default_factory=list)
    ours: Mapping[str, Chosen] = field(default_factory=dict)

    def percentile(self, value: float) -> float:
        return formula.percentile(value, self.values)


@dataclass(frozen=True)
class Population:
    """What a source said last, and may be shown. Without a snapshot there are no boards."""

    source: Source
    snapshot: Snapshot | None
    boards: Mapping[str, Board]

    def board(self, category: str) -> Board:
        """OPEN_SOURCE is GENERAL, of which the caller takes the open weights."""
        said = Category.GENERAL.value if category == Category.OPEN_SOURCE else category
        return self.boards.get(said, Board())

    def freshness(self, moment: datetime) -> float:
        """By the age of the snapshot, as a share."""
        assert self.snapshot
        half_life_hours = terms.in_force().half_lives_hours[SHORT_NAMES[self.source]]
        age_hours = (moment - self.snapshot.as_of).total_seconds() / 3_600
        return formula.freshness(age_hours=age_hours, half_life_hours=half_life_hours)


# How sources are called in the settings.
SHORT_NAMES = {
    Source.LMSYS_ARENA: "arena",
    Source.ARTIFICIAL_ANALYSIS: "aa",
    Source.HUGGINGFACE: "hf",
    Source.OPENROUTER: "openrouter",
}


def latest(source: Source) -> Population:
    snapshot = mapping.latest(source)
    if snapshot is None:
        return Population(source, None, {})
    values: dict[str, list[float]] = {}
    for board, value in snapshot.standings.order_by("value").values_list("board", "value"):
        values.setdefault(board, []).append(value)
    ours = mapping.chosen(snapshot)
    return Population(source, snapshot, {board: Board(values[board], ours.get(Category(board), {})) for board in values})
