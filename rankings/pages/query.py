"""Reads the query of a ranking page, whose parameters are the API's own, and makes the addresses of pages and API replies.

A form sends every field it has. A field that was left empty counts as not given.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from completions.models import Category
from gateway_project.text import dollars
from rankings.api import filters
from rankings.api.filters import RankingFilter, RankingsQuery
from rankings.models import Source
from rankings.publishing.listing import SORTS
from rankings.sources import registry

BOARD_TITLES = {category.value: category.value.replace("_", " ").capitalize() for category in Category}
_ORDER_TITLES = {"asc": "ascending", "desc": "descending"}
CONTEXTS = [32_000, 128_000, 200_000, 1_000_000]  # tokens
PRICES = [25, 100, 300, 1_000]  # cents per million tokens

_DEFAULT_ORDER = ("rank", "asc")
_ORDER = ("sortBy", "sortOrder")
_PARAMETERS = RankingFilter.base_filters
_LAST = [*_ORDER, "limit", "offset"]  # in an address they come last, after the others in the order of the API
_ADDRESSED = [*(name for name in _PARAMETERS if name not in _LAST), *_LAST]
_ATTRIBUTES = {name: _PARAMETERS[name].field_name for name in _ADDRESSED}
_KEPT = (*_ORDER, "limit")  # by a form that has no field for them: the headings sort
_RISING = {"rank", "name", "price"}  # of the sorts
_SORT_ORDERS = {sort: "asc" if sort in _RISING else "desc" for sort in SORTS}  # at the first click


def read(parameters: QueryDict) -> RankingsQuery:
    """Return the query. Raises InvalidRequest as the API does, which names the first parameter that is wrong."""
    given = parameters.copy()
    for name, value in parameters.items():
        if not str(value).strip():
            del given[name]
    return RankingFilter.select(filters.DEFAULTS, given)


def canonical(query: RankingsQuery, makers: Iterable[str]) -> RankingsQuery:
    """Return the query with the maker written as the catalog has it: it is found in any case."""
    known = next((each for each in makers if each.casefold() == query.provider.casefold()), query.provider)
    return replace(query, provider=known)


def is_offered(query: RankingsQuery, makers: Collection[str], models: int) -> bool:
    """Return whether the pages themselves lead to the query: there are so many, and words and numbers of others without end."""
    return (
        not query.search
        and query.provider in {"", *makers}
        and query.context_min in {filters.DEFAULTS.context_min, *CONTEXTS}
        and query.price_max_in_cents in {filters.DEFAULTS.price_max_in_cents, *PRICES}
        and query.limit == filters.DEFAULTS.limit
        and query.offset % query.limit == 0
        and query.offset <= models
    )


def address(query: RankingsQuery, **changes: Any) -> str:
    return reverse("ranking-page") + _query_string(replace(query, **changes))


def api_address(query: RankingsQuery) -> str:
    """Return the address of the same list in the API."""
    return reverse("rankings") + _query_string(query)


def model_address(model_id: str, *, source: str = Source.INTERNAL.value, board: str = Category.GENERAL.value) -> str:
    """Return the address of a model's page that explains its score on a board."""
    return reverse("ranked-model", args=[model_id]) + _query_string(RankingsQuery(source=source, board=board))


def _query_string(query: RankingsQuery) -> str:
    given = _given(query)
    return f"?{urlencode(given)}" if given else ""


def _given(query: RankingsQuery) -> dict[str, Any]:
    """Return the parameters that differ from their defaults. Those of the order come together."""
    has_order = (query.sort_by, query.sort_order) != _DEFAULT_ORDER
    given = {}
    for name, attribute in _ATTRIBUTES.items():
        value = getattr(query, attribute)
        if value != getattr(filters.DEFAULTS, attribute) or (has_order and name in _ORDER):
            given[name] = "true" if value is True else value
    return given


_CHECKS = {
    "availableOnly": "Available now only",
    "imagesOnly": "Reads images",
    "toolsOnly": "Calls tools",
    "commercialOnly": "Commercial use only",
}


def form(query: RankingsQuery, makers: Iterable[str]) -> dict[str, Any]:
    """Return the filled-in form of a query. ``makers``: those of all models."""
    return {**_form(query, makers), "kept": {name: value for name, value in _given(query).items() if name in _KEPT}}


def form_with_error(parameters: QueryDict, invalid_parameter: str, message: str, makers: Iterable[str]) -> dict[str, Any]:
    """Return the form as it was sent. A value that is not among a field's choices is not chosen there."""
    texts = ("source", "board", "category", "search")
    sent: dict[str, Any] = {_ATTRIBUTES[name]: parameters.get(name, "") for name in texts}
    sent |= {_ATTRIBUTES[name]: parameters.get(name) == "true" for name in _CHECKS}
    return _form(replace(filters.DEFAULTS, **sent), makers, invalid_parameter, message)


def _form(chosen: RankingsQuery, makers: Iterable[str], invalid_parameter: str = "", message: str = "") -> dict[str, Any]:
    known_makers = {each.casefold(): each for each in makers}
    maker = known_makers.get(chosen.provider.casefold(), chosen.provider)
    checks = [{"name": name, "title": _CHECKS[name], "is_checked": getattr(chosen, _ATTRIBUTES[name])} for name in _CHECKS]
    return {
        "sources": _options({spec.source.value: spec.title for spec in registry.specs()}, chosen.source),
        "boards": _options(BOARD_TITLES, chosen.board),
        "categories": _options({"": "All", **BOARD_TITLES}, chosen.category or ""),
        "makers": _bounds("All", {*known_makers.values()}, maker or None, str),
        "contexts": _bounds("Any", {*CONTEXTS}, chosen.context_min or None, lambda tokens: f"{tokens:,} tokens or more"),
        "prices": _bounds("Any", {*PRICES}, chosen.price_max_in_cents, lambda cents: f"up to {dollars.format_cents(cents)}"),
        "checks": checks,
        "kept": {},
        "is_filtered": bool(message) or chosen != filters.DEFAULTS,
        "search": chosen.search,
        "search_characters_max": filters.SEARCH_CHARACTERS_MAX,
        "more_in_use": sum(bool(getattr(chosen, _ATTRIBUTES[name])) for name in (*_CHECKS, "category", "contextMin")),
        "invalid_parameter": invalid_parameter,
        "message": message,
        "has_error_without_field": bool(message) and invalid_parameter in (*_KEPT, "offset"),
    }


def _bounds(nothing: str, offered: set[Any], chosen: Any, title: Callable[[Any], str]) -> list[dict[str, Any]]:
    """Return the options: no bound (None), the bounds on offer, and the chosen bound, if it is none of them."""
    known = sorted(offered if chosen is None else {*offered, chosen})
    return _options({"": nothing, **{bound: title(bound) for bound in known}}, "" if chosen is None else chosen)


def _options(titles: dict[Any, str], chosen: object) -> list[dict[str, Any]]:
    return [{"value": value, "title": title, "is_chosen": value == chosen} for value, title in titles.items()]


def headings(query: RankingsQuery) -> dict[str, dict[str, str]]:
    """Return the headings of the sortable columns. ``aria_sort`` is empty unless the list is sorted by the column."""
    return {sort: _heading(query, sort) for sort in SORTS}


def _heading(query: RankingsQuery, sort: str) -> dict[str, str]:
    """Link to the column's default order; if the list is sorted by the column, to the opposite order."""
    if query.sort_by != sort:
        return {"href": address(query, sort_by=sort, sort_order=_SORT_ORDERS[sort], offset=0), "aria_sort": ""}
    other = "desc" if query.sort_order == "asc" else "asc"
    return {"href": address(query, sort_order=other, offset=0), "aria_sort": _ORDER_TITLES[query.sort_order]}


def pager(query: RankingsQuery, total: int) -> dict[str, Any]:
    """Return which rows are shown, and links to the others. An offset beyond the end links back to the last page."""
    last = min(query.offset + query.limit, total)
    previous_offset = min(max(query.offset - query.limit, 0), max(total - 1, 0) // query.limit * query.limit)
    return {
        "first": query.offset + 1,
        "last": last,
        "total": total,
        "previous_href": address(query, offset=previous_offset) if query.offset else "",
        "next_href": address(query, offset=last) if last < total else "",
    }
