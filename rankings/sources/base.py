"""What every source is asked for, and what it may answer.

An adapter reads its source's wire shapes and nothing else; that it is asked, how often, and what becomes of the answer is
``refresh``'s. What a standing's ``facts`` hold, by source; what the source did not say is None:

- LMSYS_ARENA: ``lower``, ``upper`` (the rating's 95 % interval), ``votes``
- HUGGINGFACE: ``verified``
- ARTIFICIAL_ANALYSIS: ``slug``, ``tokens_per_second``, ``first_token_seconds``, ``input_usd``, ``output_usd`` (per million
  tokens)
- OPENROUTER: ``tokens`` (a string: they are many), ``is_sampled``, ``id``, ``hf_repo``; ``input_usd``, ``output_usd`` (strings,
  per million tokens; its catalog is for cross-checks only: do not publish them, nor scores made of them)
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol

from completions.models import Category
from rankings.models import Source
from rankings.sources.client import Client


class Unchanged(Exception):
    """Nothing has happened since the reading that ``known`` is of."""


@dataclass(frozen=True)
class StandingRow:
    """Where the source puts one of its models on one of its boards. Columns as in ``models.Standing``."""

    board: Category
    external_key: str
    key_kind: str
    name: str
    organization: str
    rank: int
    value: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """All a source said at one time. ``as_of`` is the source's own date; None where it names none.

    ``revision`` is what the source calls this state of its data: if it calls it so again, nothing has changed.
    ``notes`` say what was left out, for people.
    """

    standings: list[StandingRow]
    as_of: datetime | None = None
    version: str = ""
    attribution: str = ""
    revision: str = ""
    notes: list[str] = field(default_factory=list)


class Adapter(Protocol):
    """A source. A good answer has at least ``rows_min`` rows on GENERAL.

    ``is_conditional``: its documents keep their addresses, so "unchanged" of each of them is "unchanged" of the source.
    """

    source: ClassVar[Source]
    rows_min: ClassVar[int]
    is_conditional: ClassVar[bool]

    def read(self, client: Client, *, revision: str) -> Reading:
        """Everything, or nothing. ``revision`` is the last reading's. Raises Unchanged, Refused, Unavailable, Implausible."""
        ...


def ranked(standings: list[tuple[Any, float]]) -> list[tuple[Any, float, int]]:
    """Each with its rank, the highest value first. Equal values share a rank, and the next one is missing."""
    ordered = sorted(standings, key=lambda pair: -pair[1])
    ranks: dict[float, int] = {}
    for position, (_, value) in enumerate(ordered, start=1):
        ranks.setdefault(value, position)
    return [(item, value, ranks[value]) for item, value in ordered]


def once(standings: list[StandingRow], notes: list[str]) -> list[StandingRow]:
    """Every model once on each board. Of several rows the worst stays: silently taking the best would flatter."""
    kept: dict[tuple[str, str], StandingRow] = {}
    for row in standings:
        known = kept.get((row.board, row.external_key))
        if known is None or (row.value, -row.rank) < (known.value, -known.rank):
            kept[row.board, row.external_key] = row
    if len(kept) < len(standings):
        notes.append(f"{len(standings) - len(kept)} rows repeat a model")
    return list(kept.values())
