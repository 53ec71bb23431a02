"""The parameters of GET /api/rankings: checked, and applied to what is listed."""

from dataclasses import dataclass
from typing import Any

import django_filters
from django import forms
from django.http import QueryDict

from completions.models import Category
from gateway_project import errors
from rankings.listing import SORTS, Board
from rankings.models import Entry, Source

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
        options.setdefault("method", "leave")
        message = {"invalid_choice": f"must be one of {', '.join(choices)}"}
        super().__init__(choices=[(choice, choice) for choice in choices], error_messages=message, **options)


class _Whole(django_filters.Filter):
    field_class = _WholeNumber

    def __init__(self, minimum: int, maximum: int) -> None:
        super().__init__(minimum=minimum, maximum=maximum, method="leave")


class RankingFilter(django_filters.FilterSet):
    """django-filter asks of what it filters no more than ``model`` and ``all``: here it is a board in memory."""

    source = _Choice(tuple(Source.values))
    category = _Choice(tuple(Category.values))
    limit = _Whole(1, LIMIT_MAX)
    offset = _Whole(0, OFFSET_MAX)
    sortBy = _Choice(tuple(SORTS))
    sortOrder = _Choice(ORDERS)
    search = django_filters.CharFilter(method="find", max_length=SEARCH_CHARACTERS_MAX)
    commercialOnly = _Choice(("true", "false"), method="keep_commercial")

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()

    def filter_queryset(self, queryset: Any) -> Any:
        board: Board = queryset
        for name, value in self.form.cleaned_data.items():
            board = self.filters[name].filter(board, value)
        return board

    def leave(self, board: Board, name: str, value: Any) -> Board:
        """What chooses the board, its order or a page of it, chooses no rows."""
        return board

    def find(self, board: Board, name: str, value: str) -> Board:
        return board.found(value)

    def keep_commercial(self, board: Board, name: str, value: str) -> Board:
        return board.commercial() if value == "true" else board


def parse(parameters: QueryDict) -> Query:
    """The parameters as given, or InvalidRequest about the first that is wrong. Unknown ones are nobody's."""
    form = RankingFilter(parameters, queryset=Board(())).form
    for name in form.fields:
        if parameters.get(name) == "" and name != "search":
            raise errors.InvalidRequest(f"{name} must not be empty.", param=name)
    for name, messages in form.errors.items():
        raise errors.InvalidRequest(f"{name} {messages[0].rstrip('.')}.", param=name)
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
    given = {"search": query.search, "commercialOnly": "true" if query.commercial_only else "false"}
    kept: Board = RankingFilter(given, queryset=board).qs
    return kept.ordered(query.sort_by, descending=query.sort_order == "desc")
