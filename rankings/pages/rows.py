"""Rows and drawings of the ranking pages, as plain values for templates."""

from collections.abc import Callable
from operator import attrgetter
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
    """Return a row of the table of models."""
    entry, model = ranked.entry, ranked.model
    abilities = {"images": model.image_support, "tools": model.function_calling}
    return {
        "ranked": ranked,
        "href": _address(entry),
        "abilities": ", ".join(name for name, has_it in abilities.items() if has_it),
        "category": BOARD_TITLES[model.category],
        "ranks_lost": -entry.change,
        "context": plain_thousands(model.context_window),
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


def plain_thousands(count: float) -> str:
    """Return a count of tokens, rounded for people: "8K", "128K", "1M", "1.05M"."""
    if count < 1_000:
        return f"{count:.0f}"
    return f"{count / 1_000_000:.3g}M" if count >= 999_500 else f"{count / 1_000:.0f}K"


# The figures that a chart can show against the price, and their texts. It shows the first one that some model has.
_MEASURES: dict[str, tuple[Callable[[RankedEntry], float | None], Callable[[float], str]]] = {
    "quality": (attrgetter("entry.quality"), tenths),
    "speed": (attrgetter("tokens_per_second"), "{:.0f}".format),
    "context": (attrgetter("model.context_window"), plain_thousands),
}


def measure(leaderboard: list[RankedEntry]) -> str:
    return next((name for name, (of, _) in _MEASURES.items() if any(of(each) is not None for each in leaderboard)), "quality")


def draw_plot(listed: list[RankedEntry], measure: str) -> dict[str, Any]:
    """Draw the measure against the price; of more than PLOTTED_MAX models the frontier and the best others."""
    of, text = _MEASURES[measure]
    known = [(value, each) for each in listed if (value := of(each)) is not None]
    everybody = [
        Datum(
            name=ranked.model.name,
            href=_address(ranked.entry),
            x=ranked.model.price_nanos / dollars.NANOS_PER_DOLLAR,
            y=value,
            x_text=dollars.format_usd(ranked.model.price_nanos),
            y_text=text(value),
            size=ranked.tokens_per_second if measure == "quality" else None,
            is_available=ranked.model.is_available,
        )
        for value, ranked in sorted(known, key=lambda pair: -pair[0])
    ]
    unbeaten = set(plots.frontier(everybody))
    chosen = sorted(sorted(range(len(everybody)), key=lambda index: (index not in unbeaten, index))[:PLOTTED_MAX])
    data = [everybody[index] for index in chosen]
    drawn = (
        plots.price_plot(data, lambda y: text(y).removesuffix(".0"), 100 if measure == "quality" else None) if data else None
    )
    return {"measure": measure, "drawn": drawn, "omitted": len(known) - len(data), "unknown": len(listed) - len(known)}
