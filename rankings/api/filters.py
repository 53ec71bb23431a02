"""The query parameters of GET /api/rankings, declared once: for checks, for defaults and for the OpenAPI description."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import django_filters
from django import forms
from django.http import QueryDict
from drf_spectacular.utils import OpenApiParameter

from completions.models import Category
from gateway_project import errors
from rankings.models import Entry, Source
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


class _WholeNumberField(forms.RegexField):
    """A field that takes digits alone: Django's own also takes " 5", "+5" and "5.0"."""

    def __init__(self, minimum: int, maximum: int, **options: Any) -> None:
        self._minimum, self._maximum = minimum, maximum
        super().__init__(r"\A[0-9]{1,9}\Z", **options)

    def clean(self, value: Any) -> int | None:
        out_of_bounds = forms.ValidationError(f"must be an integer between {self._minimum} and {self._maximum}")
        try:
            text = super().clean(value)
        except forms.ValidationError:
            raise out_of_bounds from None
        number = int(text) if text else None
        if number is not None and not self._minimum <= number <= self._maximum:
            raise out_of_bounds
        return number


class _Choice(django_filters.ChoiceFilter):
    """One of a few words. ``schema`` describes it in OpenAPI."""

    def __init__(self, choices: tuple[str, ...], default: str | None = None, help_text: str = "") -> None:
        self.schema = {"type": "string", "enum": list(choices), **({"default": str(default)} if default else {})}
        message = {"invalid_choice": f"must be one of {', '.join(choices)}"}
        super().__init__(choices=[(choice, choice) for choice in choices], error_messages=message, help_text=help_text)


class _Flag(_Choice):
    def __init__(self, help_text: str) -> None:
        super().__init__(("true", "false"), help_text=help_text)
        self.schema = {"type": "boolean"}


class _WholeNumber(django_filters.Filter):
    field_class = _WholeNumberField

    def __init__(self, minimum: int, maximum: int, default: int) -> None:
        self.schema = {"type": "integer", "minimum": minimum, "maximum": maximum, "default": default}
        super().__init__(minimum=minimum, maximum=maximum)


class _Text(django_filters.CharFilter):
    def __init__(self, characters_max: int, **options: Any) -> None:
        self.schema = {"type": "string", "maxLength": characters_max}
        super().__init__(max_length=characters_max, **options)


class RankingFilter(django_filters.FilterSet):
    """The parameters, by name. ``apply`` filters a leaderboard in memory by them, not a queryset."""

    source = _Choice(tuple(Source.values), DEFAULTS.source)
    board = _Choice(
        tuple(Category.values), DEFAULTS.board, "The leaderboard: the source's ranks and scores for this kind of work."
    )
    category = _Choice(tuple(Category.values), help_text="Only models whose own category this is.")
    limit = _WholeNumber(1, LIMIT_MAX, DEFAULTS.limit)
    offset = _WholeNumber(0, OFFSET_MAX, DEFAULTS.offset)
    sortBy = _Choice(tuple(SORTS), DEFAULTS.sort_by)
    sortOrder = _Choice(ORDERS, DEFAULTS.sort_order)
    search = _Text(SEARCH_CHARACTERS_MAX, help_text="In the name, the provider or the id, in any case.")
    commercialOnly = _Flag(help_text="Only models that may be used commercially.")
    availableOnly = _Flag(help_text="Only models that can be called now.")

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()


def openapi_parameters() -> list[OpenApiParameter]:
    return [
        OpenApiParameter(name, type=each.schema, description=each.extra.get("help_text", ""))
        for name, each in RankingFilter.base_filters.items()
    ]


@cache
def _form_class() -> type[forms.Form]:
    """Return the form that checks the parameters. Cached, since building the class takes longer than the rest of a reply."""
    form: type[forms.Form] = RankingFilter(queryset=Entry.objects.none()).get_form_class()
    return form


def parse(parameters: QueryDict) -> RankingsQuery:
    """Return the parameters as given, with defaults for the others. Ignores unknown ones.

    Raises InvalidRequest, which names the first parameter that is wrong.
    """
    form = _form_class()(parameters)
    for name in form.fields:
        if parameters.get(name) == "" and name != "search":
            raise errors.wrong(name, "must not be empty")
    for name, messages in form.errors.items():
        raise errors.wrong(name, str(messages[0]).rstrip("."))
    given = form.cleaned_data
    return RankingsQuery(
        source=given["source"] or DEFAULTS.source,
        board=given["board"] or DEFAULTS.board,
        category=given["category"] or DEFAULTS.category,
        limit=DEFAULTS.limit if given["limit"] is None else given["limit"],
        offset=DEFAULTS.offset if given["offset"] is None else given["offset"],
        sort_by=given["sortBy"] or DEFAULTS.sort_by,
        sort_order=given["sortOrder"] or DEFAULTS.sort_order,
        search=given["search"].strip(),
        commercial_only=given["commercialOnly"] == "true",
        available_only=given["availableOnly"] == "true",
    )


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
