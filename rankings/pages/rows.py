"""Rows and drawings of the ranking pages, as plain values for templates."""

from typing import Any

from gateway_project.text import dollars
from rankings.models import Entry
from rankings.pages import plots
from rankings.pages.plots import Datum
from rankings.pages.query import BOARD_TITLES, model_address
from rankings.publishing.listing import RankedEntry
from rankings.sources import registry

PLOTTED_MAX = 100


def row(ranked: RankedEntry) -> dict[str, Any]:
    """Return a row of the table of models. Prices are in US dollars per million tokens, exact."""
    entry, model = ranked.entry, ranked.model
    abilities = {"images": model.image_support, "tools": model.function_calling}
    return {
        "ranked": ranked,
        "href": _address(entry),
        "abilities": ", ".join(name for name, has_it in abilities.items() if has_it),
        "category": BOARD_TITLES[model.category],
        "ranks_lost": -entry.change,
        "context": plain_thousands(model.context_window),
        "confidence": f"{entry.confidence:.2f}",
        "input_price": dollars.format_usd(model.input_nanos),
        "output_price": dollars.format_usd(model.output_nanos),
        **_scores(entry),
    }


def board_scores(entry: Entry, *, is_shown: bool) -> dict[str, Any]:
    """Return a row of the table of a model's scores. ``is_shown``: whether the page explains this score."""
    return {
        "entry": entry,
        "source": registry.spec(entry.source).title,
        "board": BOARD_TITLES[entry.board],
        "href": _address(entry),
        "is_shown": is_shown,
        "scores": list(_scores(entry).values()),
        "confidence": f"{entry.confidence:.2f}",
    }


def _address(entry: Entry) -> str:
    return model_address(entry.model_id, source=entry.source, board=entry.board)


def _scores(entry: Entry) -> dict[str, str]:
    return {name: tenths(getattr(entry, name)) for name in ("overall", "quality", "speed", "cost")}


def tenths(score: float | None) -> str:
    """Return a score of 100; an empty text where it is not known."""
    return "" if score is None else f"{score:.1f}"


def plain_thousands(count: int) -> str:
    """Return a count of tokens, rounded for people: "8K", "128K", "1M", "1.05M"."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000_000:.3g}M" if count >= 999_500 else f"{count / 1_000:.0f}K"


def draw_plots(listed: list[RankedEntry]) -> dict[str, Any]:
    """Draw quality against price for each width, with the speed as size: of more than PLOTTED_MAX models the frontier and the
    best others, without the ``omitted``.
    """
    tested = [(quality, each) for each in listed if (quality := each.entry.quality) is not None]
    everybody = [_by_price(each, quality) for quality, each in sorted(tested, key=lambda pair: -pair[0])]
    unbeaten = set(plots.frontier(everybody))
    chosen = sorted(sorted(range(len(everybody)), key=lambda index: (index not in unbeaten, index))[:PLOTTED_MAX])
    data = [everybody[index] for index in chosen]
    price = [plots.price_plot(data, frame) for frame in plots.FRAMES] if data else None
    return {"price": price, "omitted": len(tested) - len(data)}


def _by_price(ranked: RankedEntry, quality: float) -> Datum:
    entry, nanos = ranked.entry, ranked.model.price_nanos
    return Datum(
        name=ranked.model.name,
        href=_address(entry),
        x=nanos / dollars.NANOS_PER_DOLLAR,
        y=quality,
        x_text=dollars.format_usd(nanos),
        y_text=tenths(quality),
        size_text=tenths(entry.speed),
        size=entry.speed,
        is_available=ranked.model.is_available,
    )
