"""What the rest of the app knows of a source (``SourceSpec``), and what reading one returns (``FetchedSnapshot``).

A source's module reads its own JSON shapes and nothing else. ``refresh`` decides when a source is read and whether the result
is stored; ``publishing`` decides what is shown of it.

What the ``facts`` of a standing hold, by source; None where the source does not say:

- LMSYS_ARENA: ``lower``, ``upper`` (the rating's 95 % interval), ``votes``
- HUGGINGFACE: ``verified``
- ARTIFICIAL_ANALYSIS: ``slug``, ``tokens_per_second``, ``first_token_seconds``, ``input_usd``, ``output_usd`` (per million
  tokens)
- OPENROUTER: ``tokens`` (a string, because JSON numbers lose digits), ``is_sampled``, ``id``, ``hf_repo``; ``input_usd``,
  ``output_usd`` (strings, per million tokens; its catalog is for cross-checks only: do not publish them, nor scores made of
  them)
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.utils.crypto import salted_hmac

from completions.models import Category
from rankings.environment import Setting
from rankings.models import Source
from rankings.sources.client import ImplausibleData, SourceAccessDenied, SourceClient, SourceMissing

T = TypeVar("T")

# Raise it when a source's module reads more than before: the next run then reads also what is unchanged at the source.
READER = "1"


# --- What reading a source returns -----------------------------------------------------------------------------------


class Unchanged(Exception):
    """Raised by a reader when the source still has the revision that was read last."""


@dataclass(frozen=True)
class StandingRow:
    """The position of one of the source's models on one of its boards. Columns as in ``models.Standing``."""

    board: Category
    external_key: str
    key_kind: str
    name: str
    organization: str
    rank: int
    value: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FetchedSnapshot:
    """Everything that a source said at one time, not stored yet. ``as_of`` is the source's own date, if it gives one.

    ``revision`` is the source's name for this state of its data: the same name later means that nothing has changed.
    ``notes`` tell people what was left out. ``doubt``: why it must not be published before someone has seen it. ``stopped``:
    the boards that the source refuses, and how; they stay as they were. ``unread``: those that this gateway does not ask for.
    """

    standings: list[StandingRow]
    as_of: datetime | None = None
    version: str = ""
    attribution: str = ""
    revision: str = ""
    notes: list[str] = field(default_factory=list)
    doubt: str = ""
    stopped: Mapping[Category, str] = field(default_factory=dict)
    boards: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of ``models.Snapshot``, from ``refresh``
    unread: Collection[Category] = ()


# --- What a source is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class License:
    title: str
    url: str


CC_BY = License("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/")


@dataclass(frozen=True)
class SourceAccess:
    """The address of a source and the headers that authenticate. ``obstacle`` says why the source is off; empty if it is on."""

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    obstacle: str = ""

    @property
    def mark(self) -> str:
        """A keyed hash of the access: it changes with a new key, which may get an answer where the old one was refused."""
        return salted_hmac("rankings.sources", f"{READER} {self.base_url} {sorted(self.headers.items())}").hexdigest()


@dataclass(frozen=True, kw_only=True)
class Board:
    """One of a source's boards. Figures of two major versions are not comparable, so that a new one begins a new series.

    ``version``: unless the source says it itself. ``weight``: how much of the source's weight its figures have in INTERNAL.
    """

    version: str = "1"
    weight: float = 1.0


def series(version: str) -> str:
    """Return the major version: "4" of 4.3 and of v4."""
    major = re.search(r"\d+", version)
    return major[0] if major else version


@dataclass(frozen=True)
class Placement:
    """A standing on its board: its value, its percentile in the whole population, and the best value there."""

    value: float
    percentile: float
    best_value: float
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class StandingFigures:
    """What a standing contributes to the rankings. Scores are of 100; None where the source says nothing.

    ``precision`` is how far the source's own figure may be believed, as a share. Prices are in US dollars per million tokens.
    """

    precision: float
    overall: float
    quality: float | None = None
    elo: int | None = None
    tokens_per_second: float | None = None
    first_token_seconds: float | None = None
    input_dollars: float | None = None
    output_dollars: float | None = None


@dataclass(frozen=True)
class SourceRun:
    """One reading of a source. ``client`` asks at the source's base URL; ``revision`` is the one that was read last, or empty.

    ``open_client`` opens a client for another address. It is closed after the run.
    """

    client: SourceClient
    revision: str
    open_client: Callable[[SourceAccess], SourceClient]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """A source. INTERNAL, which is computed here, has only this.

    ``cadence`` is the time between two runs. The source is unhealthy when its last success is older than ``age_max``, or the
    date of its data is older than ``data_age_max``. ``license`` is the license of its data, if there is one.
    """

    source: Source
    title: str
    cadence: timedelta
    age_max: timedelta
    home_url: str = ""
    data_age_max: timedelta | None = None
    license: License | None = None

    def access(self) -> SourceAccess:
        """Return how this deployment reaches the source."""
        return SourceAccess("")

    def may_be_shown(self) -> bool:
        """Whether what was read may be published."""
        return True


@dataclass(frozen=True, kw_only=True)
class FetchedSourceSpec(SourceSpec):
    """A source that is read over HTTP.

    Reading: ``read`` returns everything, or raises Unchanged or a SourceFailed. A good snapshot has at least ``rows_min`` rows
    on GENERAL. ``is_conditional``: its documents keep their addresses, so that the source is unchanged when each of them
    answers 304.

    Access: with ``needs_key`` the source is off without its key, and nothing of it may be shown, because its terms say so.

    Scoring: ``figures`` says what a standing contributes. ``short_name`` is the name of the source in the settings of weights
    and half-lives. ``weight`` is what it counts for in the quality of INTERNAL by default; with 0 it is no evidence of
    quality, and no setting changes that. ``lists_open_weights_only``: that it does not list a closed model says nothing.
    ``is_compared``: the confidence in a model falls with the distance between the percentiles at such sources.
    """

    base_url: Setting[str]
    key: Setting[str]
    key_headers: Callable[[str], dict[str, str]] = bearer
    needs_key: bool = False

    boards: Mapping[Category, Any]
    key_kind: str
    rows_min: int
    is_conditional: bool
    read: Callable[[SourceRun], FetchedSnapshot]

    figures: Callable[[Placement], StandingFigures]
    short_name: str
    half_life_hours: float
    weight: float = 0
    lists_open_weights_only: bool = False
    is_compared: bool = False

    def board(self, category: str) -> Board:
        found = self.boards.get(Category(category))
        return found if isinstance(found, Board) else Board()

    def access(self) -> SourceAccess:
        key = self.key.value
        headers = self.key_headers(key) if key else {}
        return SourceAccess(self.base_url.value, headers, self._obstacle())

    def _obstacle(self) -> str:
        if not settings.RANKINGS_FETCH:
            return "GATEWAY_RANKINGS_FETCH is off"
        return "" if self.may_be_shown() else f"{self.key.variable} is not set"

    def may_be_shown(self) -> bool:
        return bool(self.key.value) or not self.needs_key


# --- What several sources need ---------------------------------------------------------------------------------------


def read_boards(boards: Iterable[Category], read: Callable[[Category], T]) -> tuple[dict[Category, T], dict[Category, str]]:
    """Read each board. Return what was read, and how the source refuses the others: one that is gated stops alone.

    Raises what the first one was refused with if all are: then it is the source that refuses.
    """
    found: dict[Category, T] = {}
    refused: dict[Category, SourceAccessDenied | SourceMissing] = {}
    for board in boards:
        try:
            found[board] = read(board)
        except (SourceAccessDenied, SourceMissing) as refusal:
            refused[board] = refusal
    if refused and not found:
        raise next(iter(refused.values()))
    return found, {board: str(refusal) for board, refusal in refused.items()}


def readable(listed: Iterable[Any], read: Callable[[Any], T]) -> tuple[list[T], list[str]]:
    """Read each row. Return what was read, and why each other row was not."""
    found: list[T] = []
    errors: list[str] = []
    for row in listed:
        try:
            found.append(read(row))
        except ImplausibleData as error:
            errors.append(str(error))
    return found, errors


def ranked(standings: list[tuple[Any, float]]) -> list[tuple[Any, float, int]]:
    """Each with its rank, the highest value first. Equal values share a rank, and the next rank is skipped."""
    ordered = sorted(standings, key=lambda pair: -pair[1])
    ranks: dict[float, int] = {}
    for position, (_, value) in enumerate(ordered, start=1):
        ranks.setdefault(value, position)
    return [(item, value, ranks[value]) for item, value in ordered]


def without_repetitions(standings: list[StandingRow], notes: list[str]) -> list[StandingRow]:
    """Return one row for each model on each board. Of several rows the worst is kept: the best would flatter the model."""
    kept: dict[tuple[str, str], StandingRow] = {}
    for row in standings:
        previous = kept.get((row.board, row.external_key))
        if previous is None or (row.value, -row.rank) < (previous.value, -previous.rank):
            kept[row.board, row.external_key] = row
    if len(kept) < len(standings):
        notes.append(f"{len(standings) - len(kept)} rows repeat a model")
    return list(kept.values())
