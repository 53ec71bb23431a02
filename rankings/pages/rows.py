"""Rows and drawings of the ranking pages, as plain values for templates."""

from dataclasses import dataclass
from datetime import datetime

from completions.models import Price
from gateway_project import dollars
from rankings.models import Entry
from rankings.pages import plots
from rankings.pages.facts import Facts
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
    category: str
    rank: int
    category_rank: int
    change: int
    scores: list[Score]
    elo: int | None
    confidence: str
    input_price: str
    output_price: str
    updated_at: datetime

    @property
    def ranks_lost(self) -> int:
        return -self.change


def row(entry: RankedEntry, *, source: str, board: str, facts: Facts) -> RankedModelRow:
    price = facts.prices.get(entry.model_id)
    return RankedModelRow(
        href=model_address(entry.model_id, source=source, board=board),
        model_id=entry.model_id,
        name=entry.name,
        maker=entry.maker,
        license=entry.license or "",
        is_commercial=entry.is_commercial,
        is_available=entry.is_available,
        category=BOARD_TITLES[entry.category],
        rank=entry.rank,
        category_rank=entry.category_rank,
        change=entry.change,
        scores=_scores(entry),
        elo=entry.elo,
        confidence=f"{entry.confidence:.2f}",
        input_price=dollars.format_usd(price.input_nanos) if price else "",
        output_price=dollars.format_usd(price.output_nanos) if price else "",
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
    """Each is None where no model has both figures. ``omitted``: the number of models left out because there are too many."""

    price: Plot | None
    speed: Plot | None
    omitted: int


def draw_plots(rows: list[RankedModelRow], facts: Facts) -> Plots:
    """Draw quality against price, and speed against quality. Of more than PLOTTED_MAX models the best are drawn."""
    drawn = sorted(rows, key=lambda each: -(each.scores[0].value or 0))[:PLOTTED_MAX]
    by_price = [_by_price(each, price) for each in drawn if (price := facts.prices.get(each.model_id))]
    by_quality = [_by_quality(each) for each in drawn]
    prices, speeds = list(filter(None, by_price)), list(filter(None, by_quality))
    return Plots(
        price=plots.price_plot(prices) if prices else None,
        speed=plots.score_plot(speeds) if speeds else None,
        omitted=len(rows) - len(drawn),
    )


def _by_price(row: RankedModelRow, price: Price) -> Datum | None:
    """Blend the prices as the formula does: three input tokens to one output token."""
    quality = row.scores[1]
    if quality.value is None:
        return None
    blended_nanos = (3 * price.input_nanos + price.output_nanos) // 4
    x = blended_nanos / dollars.NANOS_PER_DOLLAR
    return Datum(row.name, row.href, x, quality.value, dollars.format_usd(blended_nanos), quality.text)


def _by_quality(row: RankedModelRow) -> Datum | None:
    quality, speed = row.scores[1], row.scores[2]
    if quality.value is None or speed.value is None:
        return None
    return Datum(row.name, row.href, quality.value, speed.value, quality.text, speed.text)
