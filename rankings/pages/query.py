"""What a page of the rankings is asked for: the API's own parameters; and the addresses of pages and replies that ask others.

A form sends every field it has, and what nobody chose is empty: here that means that it was not given. Without any order, a
board is listed as its source ranks it: the general one by ``rank``, the others by score, as ``rank`` is the general rank there.
"""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from completions.models import Category
from rankings.api import filters
from rankings.api.filters import RankingsQuery
from rankings.models import Source
from rankings.publishing.listing import SORTS
from rankings.sources import registry

BOARD_TITLES = {category.value: category.value.replace("_", " ").capitalize() for category in Category}
SORT_TITLES = {"rank": "Overall rank", "score": "Score", "name": "Name", "change": "Change"}
ORDER_TITLES = {"asc": "Ascending", "desc": "Descending"}
LIMITS = [25, 50, 100]

_API_ORDER = ("rank", "asc")
_FIELDS = {"source", "category", "search", "commercialOnly", "sortBy", "sortOrder", "limit"}
_WAYS = {"rank": "asc", "score": "desc", "name": "asc", "change": "desc"}  # how a heading sorts at the first click


def read(parameters: QueryDict) -> RankingsQuery:
    """Raises InvalidRequest, as the API does, about the first parameter that is wrong."""
    given = parameters.copy()
    for name, value in parameters.items():
        if not str(value).strip():
            del given[name]
    query = filters.parse(given)
    if query.category == Category.GENERAL:
        query = replace(query, category=None)  # the same, and said shorter
    if "sortBy" not in given and "sortOrder" not in given:
        return _in_order(query, usual(query.board))
    if "sortBy" in given and "sortOrder" not in given and "sortOrder" in parameters:
        return _in_order(query, (query.sort_by, _WAYS[query.sort_by]))
    return query


def has_blanks(parameters: QueryDict) -> bool:
    """Whether a form sent it: then there is a shorter address for the same."""
    return any(not str(value).strip() for value in parameters.values())


def usual(board: str) -> tuple[str, str]:
    """The order in which a board is listed, unless another one is asked for."""
    return _API_ORDER if board == Category.GENERAL else ("score", "desc")


def _in_order(query: RankingsQuery, order: tuple[str, str]) -> RankingsQuery:
    return replace(query, sort_by=order[0], sort_order=order[1])


# --- Addresses ----------------------------------------------------------------------------------------------------


def address(query: RankingsQuery, **changes: Any) -> str:
    """Of the page that shows the query, with these changes."""
    wanted = replace(query, **changes)
    return _address("ranking-page", wanted, usual(wanted.board))


def api_address(query: RankingsQuery) -> str:
    """Of the same, as JSON."""
    return _address("rankings", query, _API_ORDER)


def model_address(model_id: str, *, source: str = Source.INTERNAL.value, board: str = Category.GENERAL.value) -> str:
    """Of a model's page, that explains its score on a board."""
    given = _given({"source": (source, Source.INTERNAL.value), "category": (board, Category.GENERAL.value)})
    return reverse("ranked-model", args=[model_id]) + given


def _address(view: str, query: RankingsQuery, order: tuple[str, str]) -> str:
    has_order = (query.sort_by, query.sort_order) != order
    return reverse(view) + _given(
        {
            "source": (query.source, Source.INTERNAL.value),
            "category": (query.category or "", ""),
            "search": (query.search, ""),
            "commercialOnly": ("true" if query.commercial_only else "", ""),
            "sortBy": (query.sort_by if has_order else "", ""),
            "sortOrder": (query.sort_order if has_order else "", ""),
            "limit": (query.limit, filters.DEFAULTS.limit),
            "offset": (query.offset, 0),
        }
    )


def _given(parameters: dict[str, tuple[object, object]]) -> str:
    """Each with its default, which needs no mention."""
    said = {name: value for name, (value, default) in parameters.items() if value != default}
    return f"?{urlencode(said)}" if said else ""


# --- The form, the headings, the pager ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    value: object
    title: str
    is_chosen: bool


@dataclass(frozen=True)
class Form:
    """What was asked for, as it is asked again; and which parameter was wrong, if one was."""

    sources: list[Option]
    categories: list[Option]
    sorts: list[Option]
    orders: list[Option]
    limits: list[Option]
    search: str
    search_characters_max: int
    commercial_only: bool
    wrong: str = ""
    message: str = ""

    @property
    def is_wrong_elsewhere(self) -> bool:
        """Whether the parameter at fault has no field."""
        return bool(self.message) and self.wrong not in _FIELDS


def form(query: RankingsQuery) -> Form:
    order = (query.sort_by, query.sort_order)
    sort_by = "" if order == usual(query.board) else query.sort_by
    sort_order = "" if not sort_by or query.sort_order == _WAYS[query.sort_by] else query.sort_order
    return _form(
        source=query.source,
        category=query.board,
        search=query.search,
        commercial_only=query.commercial_only,
        sort_by=sort_by,
        sort_order=sort_order,
        limit=query.limit,
    )


def form_in_error(parameters: QueryDict, wrong: str, message: str) -> Form:
    """As it was sent; what is no choice of a field is not chosen there."""
    return _form(
        source=parameters.get("source", ""),
        category=parameters.get("category", ""),
        search=parameters.get("search", ""),
        commercial_only=parameters.get("commercialOnly") == "true",
        sort_by=parameters.get("sortBy", ""),
        sort_order=parameters.get("sortOrder", ""),
        limit=filters.DEFAULTS.limit,
        wrong=wrong,
        message=message,
    )


def _form(*, source: str, category: str, sort_by: str, sort_order: str, limit: int, **values: Any) -> Form:
    return Form(
        sources=_options({spec.source.value: spec.title for spec in registry.specs()}, source),
        categories=_options(BOARD_TITLES, category),
        sorts=_options({"": "As ranked", **SORT_TITLES}, sort_by),
        orders=_options({"": "Usual", **ORDER_TITLES}, sort_order),
        limits=_options({number: str(number) for number in sorted({*LIMITS, limit})}, limit),
        search_characters_max=filters.SEARCH_CHARACTERS_MAX,
        **values,
    )


def _options(titles: dict[Any, str], chosen: object) -> list[Option]:
    return [Option(value, title, value == chosen) for value, title in titles.items()]


@dataclass(frozen=True)
class Heading:
    """Of a column that can be sorted by. ``aria_sort`` is empty for those that it is not sorted by now."""

    href: str
    aria_sort: str


def headings(query: RankingsQuery) -> dict[str, Heading]:
    return {sort: _heading(query, sort) for sort in SORTS}


def _heading(query: RankingsQuery, sort: str) -> Heading:
    """The second click turns it round."""
    if query.sort_by != sort:
        return Heading(address(query, sort_by=sort, sort_order=_WAYS[sort], offset=0), "")
    other = "desc" if query.sort_order == "asc" else "asc"
    return Heading(address(query, sort_order=other, offset=0), f"{ORDER_TITLES[query.sort_order].lower()}")


@dataclass(frozen=True)
class Pager:
    first: int
    last: int
    total: int
    before: str
    after: str


def pager(query: RankingsQuery, total: int) -> Pager:
    """Which rows are shown, and where the others are. An offset behind the end leads back to the last page."""
    last = min(query.offset + query.limit, total)
    before = min(max(query.offset - query.limit, 0), max(total - 1, 0) // query.limit * query.limit)
    return Pager(
        first=query.offset + 1,
        last=last,
        total=total,
        before=address(query, offset=before) if query.offset else "",
        after=address(query, offset=last) if last < total else "",
    )
