"""Rows and drawings of the ranking pages, as plain values for templates."""

from dataclasses import dataclass
from datetime import datetime

from gateway_project.text import dollars
from rankings.models import Entry
from rankings.pages import plots
from rankings.pages.plots import Datum, Plot
from rankings.pages.query import BOARD_TITLES, model_address
from rankings.publishing.listing import RankedEntry
from rankings.sources import registry

PLOTTED_MAX = 100


@dataclass(frozen=True)
class Score:
    """A score of 100. ``text`` is empty where it is not known."""

    title: str
    value: float | None

    @property
    def text(self) -> str:
        return "" if self.value is None else f"{self.value:.1f}"


@dataclass(frozen=True)
class RankedModelRow:
    """A row of the table of models. Prices are in US dollars per million tokens, exact."""

    href: str
    model_id: str
    name: str
    maker: str
    license: str
    is_commercial: bool
    is_available: bool
    waits_for_key: bool
    abilities: str
    context_window: int
    category: str
    rank: int
    category_rank: int
    change: int
    scores: list[Score]
    elo: int | None
    confidence: str
    input_price: str
    output_price: str
    price_nanos: int
    updated_at: datetime

    @property
    def overall(self) -> Score:
        return self.scores[0]

    @property
    def quality(self) -> Score:
        return self.scores[1]

    @property
    def speed(self) -> Score:
        return self.scores[2]

    @property
    def cost(self) -> Score:
        return self.scores[3]

    @property
    def ranks_lost(self) -> int:
        return -self.change

    @property
    def context(self) -> str:
        """The context window, rounded: "128K", "1M"."""
        return plain_thousands(self.context_window)


def plain_thousands(count: int) -> str:
    """Return a count of tokens, rounded for people: "8K", "128K", "1M", "1.05M"."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000_000:.3g}M" if count >= 999_500 else f"{count / 1_000:.0f}K"


def row(entry: RankedEntry, *, source: str, board: str) -> RankedModelRow:
    abilities = {"images": entry.reads_images, "tools": entry.calls_tools}
    return RankedModelRow(
        href=model_address(entry.model_id, source=source, board=board),
        model_id=entry.model_id,
        name=entry.name,
        maker=entry.maker,
        license=entry.license or "",
        is_commercial=entry.is_commercial,
        is_available=entry.is_available,
        waits_for_key=entry.waits_for_key,
        abilities=", ".join(name for name, has_it in abilities.items() if has_it),
        context_window=entry.context_window,
        category=BOARD_TITLES[entry.category],
        rank=entry.rank,
        category_rank=entry.category_rank,
        change=entry.change,
        scores=_scores(entry),
        elo=entry.elo,
        confidence=f"{entry.confidence:.2f}",
        input_price=dollars.format_usd(entry.input_nanos),
        output_price=dollars.format_usd(entry.output_nanos),
        price_nanos=entry.price_nanos,
        updated_at=entry.last_updated,
    )


def _scores(entry: RankedEntry | Entry) -> list[Score]:
    return [Score(name.capitalize(), getattr(entry, name)) for name in ("overall", "quality", "speed", "cost")]


# --- Scores by source and board -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoardScores:
    """A row of the table of a model's scores: the model on one board of one source."""

    source: str
    board: str
    href: str
    is_shown: bool
    rank: int
    scores: list[Score]
    elo: int | None
    confidence: str
    updated_at: datetime


def board_scores(entry: Entry, *, is_shown: bool) -> BoardScores:
    """``is_shown``: whether the page explains this score."""
    return BoardScores(
        source=registry.spec(entry.source).title,
        board=BOARD_TITLES[entry.board],
        href=model_address(entry.model_id, source=entry.source, board=entry.board),
        is_shown=is_shown,
        rank=entry.board_rank,
        scores=_scores(entry),
        elo=entry.elo,
        confidence=f"{entry.confidence:.2f}",
        updated_at=entry.last_updated,
    )


# --- Plots --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plots:
    """``price`` is None where no model has a quality. ``omitted``: how many models are left out because there are too many."""

    price: list[Plot] | None
    omitted: int


def draw_plots(rows: list[RankedModelRow]) -> Plots:
    """Draw quality against price for each width, with the speed as size: of more than PLOTTED_MAX models the frontier and the
    best others.
    """
    tested = sorted((each for each in rows if each.quality.value is not None), key=lambda each: -(each.quality.value or 0))
    everybody = [_by_price(each) for each in tested]
    unbeaten = set(plots.frontier(everybody))
    chosen = sorted(sorted(range(len(everybody)), key=lambda index: (index not in unbeaten, index))[:PLOTTED_MAX])
    data = [everybody[index] for index in chosen]
    return Plots(
        price=[plots.price_plot(data, frame) for frame in plots.FRAMES] if data else None,
        omitted=len(tested) - len(data),
    )


def _by_price(row: RankedModelRow) -> Datum:
    x, x_text = row.price_nanos / dollars.NANOS_PER_DOLLAR, dollars.format_usd(row.price_nanos)
    return Datum(
        row.name,
        row.href,
        x,
        row.quality.value or 0,
        x_text,
        row.quality.text,
        row.speed.text,
        row.speed.value,
        row.is_available,
    )
