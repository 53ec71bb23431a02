"""Reads the query of a ranking page, whose parameters are the API's own, and makes the addresses of pages and API replies.

A form sends every field it has. A field that was left empty counts as not given.
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
SORT_TITLES = {"rank": "Rank", "score": "Score", "name": "Name", "change": "Change"}
ORDER_TITLES = {"asc": "Ascending", "desc": "Descending"}
LIMITS = [25, 50, 100]

_DEFAULT_ORDER = ("rank", "asc")
_FIELDS = {"source", "board", "category", "search", "commercialOnly", "availableOnly", "sortBy", "sortOrder", "limit"}
_SORT_ORDERS = {"rank": "asc", "score": "desc", "name": "asc", "change": "desc"}  # of each sort, at the first click


def read(parameters: QueryDict) -> RankingsQuery:
    """Return the query. Raises InvalidRequest as the API does, which names the first parameter that is wrong."""
    given = parameters.copy()
    for name, value in parameters.items():
        if not str(value).strip():
            del given[name]
    query = filters.parse(given)
    if "sortBy" in given and "sortOrder" not in given and "sortOrder" in parameters:
        return replace(query, sort_order=_SORT_ORDERS[query.sort_by])
    return query


def has_blanks(parameters: QueryDict) -> bool:
    """Return whether a parameter is empty, as forms send them: then there is a shorter address for the same page."""
    return any(not str(value).strip() for value in parameters.values())


# --- Addresses ----------------------------------------------------------------------------------------------------


def address(query: RankingsQuery, **changes: Any) -> str:
    """Return the address of the page that shows the query, with these changes."""
    return _address("ranking-page", replace(query, **changes))


def api_address(query: RankingsQuery) -> str:
    """Return the address of the same list in the API."""
    return _address("rankings", query)


def model_address(model_id: str, *, source: str = Source.INTERNAL.value, board: str = Category.GENERAL.value) -> str:
    """Return the address of a model's page that explains its score on a board."""
    parameters = _query_string({"source": (source, Source.INTERNAL.value), "board": (board, Category.GENERAL.value)})
    return reverse("ranked-model", args=[model_id]) + parameters


def _address(view: str, query: RankingsQuery) -> str:
    has_order = (query.sort_by, query.sort_order) != _DEFAULT_ORDER
    return reverse(view) + _query_string(
        {
            "source": (query.source, Source.INTERNAL.value),
            "board": (query.board, Category.GENERAL.value),
            "category": (query.category or "", ""),
            "search": (query.search, ""),
            "commercialOnly": ("true" if query.commercial_only else "", ""),
            "availableOnly": ("true" if query.available_only else "", ""),
            "sortBy": (query.sort_by if has_order else "", ""),
            "sortOrder": (query.sort_order if has_order else "", ""),
            "limit": (query.limit, filters.DEFAULTS.limit),
            "offset": (query.offset, 0),
        }
    )


def _query_string(parameters: dict[str, tuple[object, object]]) -> str:
    """Return the query string of the values that differ from their defaults. ``parameters`` has (value, default) by name."""
    given = {name: value for name, (value, default) in parameters.items() if value != default}
    return f"?{urlencode(given)}" if given else ""


# --- The form, the headings, the pager ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    value: object
    title: str
    is_chosen: bool


@dataclass(frozen=True)
class Form:
    """The filled-in form. ``invalid_parameter`` and ``message`` are empty unless a parameter is wrong."""

    sources: list[Option]
    boards: list[Option]
    categories: list[Option]
    sorts: list[Option]
    orders: list[Option]
    limits: list[Option]
    search: str
    search_characters_max: int
    commercial_only: bool
    available_only: bool
    invalid_parameter: str = ""
    message: str = ""

    @property
    def has_error_without_field(self) -> bool:
        """Whether the invalid parameter has no field in the form."""
        return bool(self.message) and self.invalid_parameter not in _FIELDS


def form(query: RankingsQuery) -> Form:
    order = (query.sort_by, query.sort_order)
    sort_by = "" if order == _DEFAULT_ORDER else query.sort_by
    sort_order = "" if not sort_by or query.sort_order == _SORT_ORDERS[query.sort_by] else query.sort_order
    return _form(
        source=query.source,
        board=query.board,
        category=query.category or "",
        search=query.search,
        commercial_only=query.commercial_only,
        available_only=query.available_only,
        sort_by=sort_by,
        sort_order=sort_order,
        limit=query.limit,
    )


def form_with_error(parameters: QueryDict, invalid_parameter: str, message: str) -> Form:
    """Return the form as it was sent. A value that is not among a field's choices is not chosen there."""
    return _form(
        source=parameters.get("source", ""),
        board=parameters.get("board", ""),
        category=parameters.get("category", ""),
        search=parameters.get("search", ""),
        commercial_only=parameters.get("commercialOnly") == "true",
        available_only=parameters.get("availableOnly") == "true",
        sort_by=parameters.get("sortBy", ""),
        sort_order=parameters.get("sortOrder", ""),
        limit=filters.DEFAULTS.limit,
        invalid_parameter=invalid_parameter,
        message=message,
    )


def _form(*, source: str, board: str, category: str, sort_by: str, sort_order: str, limit: int, **values: Any) -> Form:
    return Form(
        sources=_options({spec.source.value: spec.title for spec in registry.specs()}, source),
        boards=_options(BOARD_TITLES, board),
        categories=_options({"": "All", **BOARD_TITLES}, category),
        sorts=_options({"": "As ranked", **SORT_TITLES}, sort_by),
        orders=_options({"": "Default", **ORDER_TITLES}, sort_order),
        limits=_options({number: str(number) for number in sorted({*LIMITS, limit})}, limit),
        search_characters_max=filters.SEARCH_CHARACTERS_MAX,
        **values,
    )


def _options(titles: dict[Any, str], chosen: object) -> list[Option]:
    return [Option(value, title, value == chosen) for value, title in titles.items()]


@dataclass(frozen=True)
class Heading:
    """The heading of a sortable column. ``aria_sort`` is empty unless the list is sorted by this column."""

    href: str
    aria_sort: str


def headings(query: RankingsQuery) -> dict[str, Heading]:
    return {sort: _heading(query, sort) for sort in SORTS}


def _heading(query: RankingsQuery, sort: str) -> Heading:
    """Link to the column's default order; if the list is sorted by the column, to the opposite order."""
    if query.sort_by != sort:
        return Heading(address(query, sort_by=sort, sort_order=_SORT_ORDERS[sort], offset=0), "")
    other = "desc" if query.sort_order == "asc" else "asc"
    return Heading(address(query, sort_order=other, offset=0), f"{ORDER_TITLES[query.sort_order].lower()}")


@dataclass(frozen=True)
class Pager:
    first: int
    last: int
    total: int
    previous_href: str
    next_href: str


def pager(query: RankingsQuery, total: int) -> Pager:
    """Return which rows are shown, and links to the others. An offset beyond the end links back to the last page."""
    last = min(query.offset + query.limit, total)
    previous_offset = min(max(query.offset - query.limit, 0), max(total - 1, 0) // query.limit * query.limit)
    return Pager(
        first=query.offset + 1,
        last=last,
        total=total,
        previous_href=address(query, offset=previous_offset) if query.offset else "",
        next_href=address(query, offset=last) if last < total else "",
    )
