"""The interface of a source (``SourceSpec``), and what reading one returns (``FetchedSnapshot``).

The ``facts`` of a standing hold, by source; None where the source does not say:

- LMSYS_ARENA: ``lower``, ``upper`` (the rating's 95 % interval), ``votes``
- HUGGINGFACE: ``verified``
- ARTIFICIAL_ANALYSIS: ``slug``, ``tokens_per_second``, ``first_token_seconds``, ``input_usd``, ``output_usd`` (per 1M tokens)
- OPENROUTER: ``tokens`` (a string, because JSON numbers lose digits), ``is_sampled``, ``id``, ``hf_repo``; ``input_usd``,
  ``output_usd`` (strings, per 1M tokens; for cross-checks only: publish neither them nor scores made of them)
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.utils.crypto import salted_hmac

from completions.models import Category
from gateway_project.net.background_http import AccessDenied, NotFound
from rankings.environment import Setting
from rankings.models import Source, Standing
from rankings.sources.documents import SourceClient

T = TypeVar("T")

# Raise it when a source's module reads more than before: the next run then reads also what is unchanged at the source.
READER = "1"


class Unchanged(Exception):
    """Raised by a reader when the source still has the revision that was read last."""


@dataclass(frozen=True)
class FetchedSnapshot:
    """Everything that a source said at one time, not stored yet."""

    standings: list[Standing]  # without a snapshot
    as_of: datetime | None = None  # the source's own date, if it gives one
    version: str = ""
    attribution: str = ""
    revision: str = ""  # the source's name for this state of its data: the same name later means that nothing has changed
    notes: list[str] = field(default_factory=list)  # what was left out
    doubt: str = ""  # why it must not be published before someone has seen it
    stopped: Mapping[Category, str] = field(default_factory=dict)  # the boards that the source refuses, and how; they stay
    boards: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of ``models.Snapshot``, from ``refresh``
    unread: Collection[Category] = ()  # the boards that this gateway does not ask for


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
    """One of a source's boards. Figures of two major versions are not comparable: a new one begins a new series."""

    version: str = "1"  # unless the source says it itself
    weight: float = 1.0  # how much of the source's weight its figures have in INTERNAL


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
    """A standing's contribution to the rankings. Scores are of 100, prices in US dollars per 1M tokens; None: not known."""

    precision: float  # how far the source's own figure may be believed, as a share
    overall: float
    quality: float | None = None
    elo: int | None = None
    tokens_per_second: float | None = None
    first_token_seconds: float | None = None
    input_dollars: float | None = None
    output_dollars: float | None = None


@dataclass(frozen=True)
class SourceRun:
    client: SourceClient  # of the source's base URL
    revision: str  # that was read last, or empty
    open_client: Callable[[SourceAccess], SourceClient]  # for another address; closed after the run


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """A source. INTERNAL, which is computed here, has only this."""

    source: Source
    title: str
    cadence: timedelta = timedelta(hours=24)  # between two runs
    age_max: timedelta = timedelta(hours=72)  # of the last success: then the source is unhealthy
    home_url: str = ""
    data_age_max: timedelta | None = None  # of the date of its data, likewise
    license: License | None = None  # of its data

    def access(self) -> SourceAccess:
        """Return how this deployment reaches the source."""
        return SourceAccess("")

    def may_be_shown(self) -> bool:
        """Whether what was read may be published."""
        return True


@dataclass(frozen=True, kw_only=True)
class FetchedSourceSpec(SourceSpec):
    """A source that is read over HTTP."""

    base_url: Setting[str]
    key: Setting[str]
    key_headers: Callable[[str], dict[str, str]] = lambda key: {"Authorization": f"Bearer {key}"}
    needs_key: bool = False  # without it the source is off, and nothing of it may be shown, because its terms say so

    boards: Mapping[Category, Any]
    rows_min: int  # of a good snapshot, on GENERAL
    is_conditional: bool  # its documents keep their addresses: the source is unchanged when each of them answers 304
    read: Callable[[SourceRun], FetchedSnapshot]  # returns everything, or raises Unchanged, FetchFailed or SourceFailed

    figures: Callable[[Placement], StandingFigures]
    short_name: str  # in the settings of weights and half-lives
    half_life_hours: float
    weight: float = 0  # in the quality of INTERNAL by default; with 0 it is no evidence of quality, whatever the settings
    lists_open_weights_only: bool = False  # that it does not list a closed model says nothing
    is_compared: bool = False  # the confidence in a model falls with the distance between the percentiles at such sources

    def board(self, category: str) -> Board:
        found = self.boards.get(Category(category))
        return found if isinstance(found, Board) else Board()

    def access(self) -> SourceAccess:
        key = self.key.value
        obstacle = "" if self.may_be_shown() else f"{self.key.variable} is not set"
        if not settings.RANKINGS_FETCH:
            obstacle = "GATEWAY_RANKINGS_FETCH is off"
        return SourceAccess(self.base_url.value, self.key_headers(key) if key else {}, obstacle)

    def may_be_shown(self) -> bool:
        return bool(self.key.value) or not self.needs_key


def read_boards(boards: Iterable[Category], read: Callable[[Category], T]) -> tuple[dict[Category, T], dict[Category, str]]:
    """Read each board. Return what was read, and how the source refuses the others: one that is gated stops alone.

    Raises what the first one was refused with if all are: then it is the source that refuses.
    """
    found: dict[Category, T] = {}
    refused: dict[Category, AccessDenied | NotFound] = {}
    for board in boards:
        try:
            found[board] = read(board)
        except (AccessDenied, NotFound) as refusal:
            refused[board] = refusal
    if refused and not found:
        raise next(iter(refused.values()))
    return found, {board: str(refusal) for board, refusal in refused.items()}


def one_of_each(
    rows: Iterable[Standing], identity: Callable[[Standing], Any], worth: Callable[[Standing], Any]
) -> list[Standing]:
    """Return of the rows of one identity the first of the greatest worth, in the order in which the identities come."""
    kept: dict[Any, Standing] = {}
    for row in rows:
        kept[identity(row)] = max(kept.get(identity(row), row), row, key=worth)
    return list(kept.values())


def ranked(standings: list[tuple[Any, float]]) -> list[tuple[Any, float, int]]:
    """Each with its rank, the highest value first. Equal values share a rank, and the next rank is skipped."""
    ordered = sorted(standings, key=lambda pair: -pair[1])
    ranks: dict[float, int] = {}
    for position, (_, value) in enumerate(ordered, start=1):
        ranks.setdefault(value, position)
    return [(item, value, ranks[value]) for item, value in ordered]
