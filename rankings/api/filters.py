"""The query parameters of GET /api/rankings, declared once: for checks, for defaults and for the OpenAPI description."""

from dataclasses import dataclass

from django.http import QueryDict

from completions.models import Category
from gateway_project.web.query_parameters import Boolean, Choice, ParameterSet, Text, WholeNumber
from rankings.models import Source
from rankings.publishing.listing import SORTS, Leaderboard

LIMIT_MAX = 100
OFFSET_MAX = 1_000_000
SEARCH_CHARACTERS_MAX = 200
ORDERS = ("asc", "desc")


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


DEFAULTS = RankingsQuery()


class RankingFilter(ParameterSet):
    """The parameters, by name. They fill in a RankingsQuery; ``apply`` filters a leaderboard in memory by it."""

    source = Choice(tuple(Source.values), default=DEFAULTS.source, description="Whose ranks and scores.")
    board = Choice(
        tuple(Category.values),
        default=DEFAULTS.board,
        description="The leaderboard: the source's ranks and scores for this kind of work.",
    )
    category = Choice(tuple(Category.values), description="Only models whose own category this is.")
    limit = WholeNumber(1, LIMIT_MAX, default=DEFAULTS.limit, description="The most models to return.")
    offset = WholeNumber(0, OFFSET_MAX, default=DEFAULTS.offset, description="How many of the models that match to skip.")
    sortBy = Choice(tuple(SORTS), default=DEFAULTS.sort_by, attribute="sort_by", description="What to sort by.")
    sortOrder = Choice(ORDERS, default=DEFAULTS.sort_order, attribute="sort_order", description="Ascending or descending.")
    search = Text(
        SEARCH_CHARACTERS_MAX,
        allow_empty=True,
        strip=True,
        description="Only models that have this in their name, provider or id, in any case.",
    )
    commercialOnly = Boolean(attribute="commercial_only", description="Only models that may be used commercially.")
    availableOnly = Boolean(attribute="available_only", description="Only models that can be called now.")


def parse(parameters: QueryDict) -> RankingsQuery:
    """Return the parameters as given, with defaults for the others. Ignores unknown ones.

    Raises InvalidRequest, which names the first parameter that is wrong.
    """
    query: RankingsQuery = RankingFilter(parameters, DEFAULTS).select()
    return query


def apply(query: RankingsQuery, leaderboard: Leaderboard) -> Leaderboard:
    """Return the entries that match the query, in its order. The caller cuts the page (``limit``, ``offset``)."""
    if query.search:
        leaderboard = leaderboard.search(query.search)
    if query.category:
        leaderboard = leaderboard.in_category(query.category)
    if query.commercial_only:
        leaderboard = leaderboard.commercial_only()
    if query.available_only:
        leaderboard = leaderboard.available_only()
    return leaderboard.sort(query.sort_by, is_descending=query.sort_order == "desc")
