"""The parameters of GET /api/rankings: checked, and applied to what is listed."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import django_filters
from django import forms
from django.http import QueryDict

from completions.models import Category
from gateway_project import errors
from rankings.models import Entry, Source
from rankings.publishing.listing import SORTS, Board

LIMIT_MAX, LIMIT_DEFAULT = 100, 50
OFFSET_MAX = 1_000_000
SEARCH_CHARACTERS_MAX = 200
ORDERS = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class Query:
    """Every parameter with its value or its default: what a reply is cached by."""

    source: str = Source.INTERNAL
    category: str | None = None
    limit: int = LIMIT_DEFAULT
    offset: int = 0
    sort_by: str = "rank"
    sort_order: str = "asc"
    search: str = ""
    commercial_only: bool = False

    @property
    def board(self) -> str:
        return self.category or Category.GENERAL


class _WholeNumber(forms.RegexField):
    """Digits alone: Django's own field also takes " 5", "+5" and "5.0"."""

    def __init__(self, minimum: int, maximum: int, **options: Any) -> None:
        self._minimum, self._maximum = minimum, maximum
        super().__init__(r"\A[0-9]{1,9}\Z", **options)

    def clean(self, value: Any) -> int | None:
        bounds = forms.ValidationError(f"must be an integer between {self._minimum} and {self._maximum}")
        try:
            text = super().clean(value)
        except forms.ValidationError:
            raise bounds from None
        number = int(text) if text else None
        if number is not None and not self._minimum <= number <= self._maximum:
            raise bounds
        return number


class _Choice(django_filters.ChoiceFilter):
    def __init__(self, choices: tuple[str, ...], **options: Any) -> None:
        message = {"invalid_choice": f"must be one of {', '.join(choices)}"}
        super().__init__(choices=[(choice, choice) for choice in choices], error_messages=message, **options)


class _Whole(django_filters.Filter):
    field_class = _WholeNumber

    def __init__(self, minimum: int, maximum: int) -> None:
        super().__init__(minimum=minimum, maximum=maximum)


class RankingFilter(django_filters.FilterSet):
    """The parameters, declared. What they are applied to is a board in memory, whose own methods know how."""

    source = _Choice(tuple(Source.values))
    category = _Choice(tuple(Category.values))
    limit = _Whole(1, LIMIT_MAX)
    offset = _Whole(0, OFFSET_MAX)
    sortBy = _Choice(tuple(SORTS))
    sortOrder = _Choice(ORDERS)
    search = django_filters.CharFilter(max_length=SEARCH_CHARACTERS_MAX)
    commercialOnly = _Choice(("true", "false"))

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()


@cache
def _form() -> type[forms.Form]:
    """Made once: to make it takes longer than all the rest of a reply."""
    form: type[forms.Form] = RankingFilter(queryset=Entry.objects.none()).get_form_class()
    return form


def parse(parameters: QueryDict) -> Query:
    """The parameters as given, or InvalidRequest about the first that is wrong. Unknown ones are nobody's."""
    form = _form()(parameters)
    for name in form.fields:
        if parameters.get(name) == "" and name != "search":
            raise errors.wrong(name, "must not be empty")
    for name, messages in form.errors.items():
        raise errors.wrong(name, str(messages[0]).rstrip("."))
    given = form.cleaned_data
    return Query(
        source=given["source"] or Source.INTERNAL,
        category=given["category"] or None,
        limit=LIMIT_DEFAULT if given["limit"] is None else given["limit"],
        offset=given["offset"] or 0,
        sort_by=given["sortBy"] or "rank",
        sort_order=given["sortOrder"] or "asc",
        search=given["search"].strip(),
        commercial_only=given["commercialOnly"] == "true",
    )


def apply(query: Query, board: Board) -> Board:
    """The rows of the board that the query is for, in its order; the page is the caller's to cut."""
    if query.search:
        board = board.found(query.search)
    if query.commercial_only:
        board = board.commercial()
    return board.ordered(query.sort_by, descending=query.sort_order == "desc")
