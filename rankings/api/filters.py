"""The query parameters of GET /api/rankings, declared once: for checks, for defaults and for the OpenAPI description."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from completions.models import Category
from gateway_project.text import dollars
from gateway_project.web.query_parameters import Boolean, Choice, ParameterSet, Text, WholeNumber
from rankings.models import Source
from rankings.publishing.listing import SORTS, RankedEntry

LIMIT_MAX = 100
OFFSET_MAX = 1_000_000
SEARCH_CHARACTERS_MAX = 200
NUMBER_MAX = 1_000_000_000
ORDERS = ("asc", "desc")
_NANOS_PER_CENT = dollars.NANOS_PER_DOLLAR // 100


@dataclass(frozen=True, slots=True)
class RankingsQuery:
    """The value or the default of every parameter. Replies and pages are cached by it."""

    source: str = Source.INTERNAL
    board: str = Category.GENERAL
    category: str | None = None
    limit: int = 50
    offset: int = 0
    sort_by: str = "rank"
    sort_order: str = "asc"
    search: str = ""
    commercial_only: bool = False
    available_only: bool = False
    provider: str = ""
    images_only: bool = False
    tools_only: bool = False
    context_min: int = 0
    price_max_in_cents: int | None = None


DEFAULTS = RankingsQuery()
_Words = partial(Text, SEARCH_CHARACTERS_MAX, allow_empty=True, strip=True)


class RankingFilter(ParameterSet):
    """The parameters, by name. They fill in a RankingsQuery; ``apply`` filters a leaderboard in memory by it."""

    source = Choice(tuple(Source.values), default=DEFAULTS.source, description="Whose ranks and scores.")
    board = Choice(
        tuple(Category.values),
        default=DEFAULTS.board,
        description="The leaderboard: the source's ranks and scores for this kind of work.",
    )
    category = Choice(tuple(Category.values), description="Only models whose own category this is.")
    limit = WholeNumber(1, LIMIT_MAX, default=DEFAULTS.limit, description="Maximum number of models to return.")
    offset = WholeNumber(0, OFFSET_MAX, default=DEFAULTS.offset, description="How many of the models that match to skip.")
    sortBy = Choice(tuple(SORTS), default=DEFAULTS.sort_by, attribute="sort_by", description="What to sort by.")
    sortOrder = Choice(ORDERS, default=DEFAULTS.sort_order, attribute="sort_order", description="Ascending or descending.")
    search = _Words(description="Only models that have this in their name, provider or id, in any case.")
    commercialOnly = Boolean(attribute="commercial_only", description="Only models that may be used commercially.")
    availableOnly = Boolean(attribute="available_only", description="Only models that can be called now.")
    provider = _Words(description="Only models of this provider, in any case.")
    imagesOnly = Boolean(attribute="images_only", description="Only models that read images.")
    toolsOnly = Boolean(attribute="tools_only", description="Only models that call functions or tools.")
    contextMin = WholeNumber(
        0, NUMBER_MAX, attribute="context_min", description="Only models with a context window of so many tokens, or more."
    )
    priceMaxInCents = WholeNumber(
        0,
        NUMBER_MAX,
        attribute="price_max_in_cents",
        description="Only models that cost at most so much per million tokens, three input to one output token.",
    )


def apply(query: RankingsQuery, listed: list[RankedEntry]) -> list[RankedEntry]:
    """Return the entries that match the query, in its order. The caller cuts the page (``limit``, ``offset``).

    The order is total, so pages neither repeat nor miss an entry: ties are broken by model id, and entries without the figure
    come last, both in either direction.
    """
    for name, fits in _CONDITIONS.items():
        if (value := getattr(query, name)) != getattr(DEFAULTS, name):
            listed = [ranked for ranked in listed if fits(ranked, value)]
    key = SORTS[query.sort_by]
    known = [ranked for ranked in listed if key(ranked) is not None]
    unknown = [ranked for ranked in listed if key(ranked) is None]
    known.sort(key=key, reverse=query.sort_order == "desc")  # a stable sort keeps the order of ids, also in reverse
    return [*known, *unknown]


# By the attribute of the query, of which another value than the default restricts the list.
_CONDITIONS: dict[str, Callable[[RankedEntry, Any], bool]] = {
    "search": lambda ranked, text: ranked.contains(text),
    "category": lambda ranked, category: ranked.model.category == category,
    "provider": lambda ranked, provider: ranked.model.maker.casefold() == provider.casefold(),
    "commercial_only": lambda ranked, _: ranked.model.commercial_use,
    "available_only": lambda ranked, _: ranked.model.is_available,
    "images_only": lambda ranked, _: ranked.model.image_support,
    "tools_only": lambda ranked, _: ranked.model.function_calling,
    "context_min": lambda ranked, tokens: ranked.model.context_window >= tokens,
    "price_max_in_cents": lambda ranked, cents: ranked.model.price_nanos <= cents * _NANOS_PER_CENT,
}
