"""Which models the list shows, in which order, as the parameters of its address say."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict

from completions.public.facts import ListedModel

SEARCH_CHARACTERS_MAX = 200
PAGE_MODELS = 50
SORTS = {
    "name": "Name",
    "price": "Price, lowest first",
    "input": "Input price, lowest first",
    "output": "Output price, lowest first",
    "context": "Context, largest first",
    "speed": "Speed, fastest first",
    "first-token": "First token, soonest first",
    "uptime": "Uptime, highest first",
    "newest": "Newest first",
}
# By parameter: the words of the filter, and which models pass it.
FILTERS: dict[str, tuple[str, Callable[[ListedModel], Any]]] = {
    "images": ("Reads images", lambda each: each.model.image_support),
    "tools": ("Calls tools", lambda each: each.model.function_calling),
    "reasoning": ("Reasons", lambda each: each.model.reasoning),
    "commercial": ("Commercial use", lambda each: each.model.commercial_use),
    "available": ("Available now", lambda each: each.is_available),
}


@dataclass(frozen=True)
class Selection:
    """``filters`` are names of FILTERS, ``maker`` and ``search`` empty for all. Pages are numbered from 1."""

    search: str = ""
    maker: str = ""
    sort: str = "name"
    filters: frozenset[str] = field(default_factory=frozenset)
    page: int = 1

    @property
    def query_string(self) -> str:
        """The shortest parameters of this selection."""
        given = {"search": self.search, "maker": self.maker, "sort": "" if self.sort == "name" else self.sort}
        given |= {name: "on" for name in FILTERS if name in self.filters}
        given |= {"page": "" if self.page == 1 else str(self.page)}
        return urlencode({name: value for name, value in given.items() if value})


def read(parameters: QueryDict) -> Selection:
    """Return the selection. A value that is not understood counts as not given, as old addresses may have it."""
    sort = parameters.get("sort", "")
    return Selection(
        search=parameters.get("search", "").strip()[:SEARCH_CHARACTERS_MAX],
        maker=parameters.get("maker", "")[:SEARCH_CHARACTERS_MAX],
        sort=sort if sort in SORTS else "name",
        filters=frozenset(name for name in FILTERS if parameters.get(name)),
        page=int(page) if _PAGE.fullmatch(page := parameters.get("page", "")) else 1,
    )


_PAGE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


def apply(selection: Selection, models: Iterable[ListedModel]) -> list[ListedModel]:
    """Return the selected models in their order; equals, and those without the figure, by name."""
    named = sorted(models, key=lambda each: (each.model.name.casefold(), each.model.pk))
    return sorted((each for each in named if _passes(selection, each)), key=_ORDERS[selection.sort])


def _passes(selection: Selection, each: ListedModel) -> bool:
    words = f"{each.model.name} {each.model.maker} {each.model.pk}".casefold()
    return (
        all(word in words for word in selection.search.casefold().split())
        and selection.maker in ("", each.model.maker)
        and all(FILTERS[name][1](each) for name in selection.filters)
    )


def _known_first(figure: float | None, *, is_descending: bool = False) -> tuple[bool, float]:
    return (figure is None, 0.0 if figure is None else -figure if is_descending else figure)


_ORDERS: dict[str, Callable[[ListedModel], Any]] = {
    "name": lambda each: not each.is_available,
    "price": lambda each: each.blended_nanos,
    "input": lambda each: each.price.input_nanos,
    "output": lambda each: (each.is_embedding, each.price.output_nanos),
    "context": lambda each: -each.model.context_window,
    "speed": lambda each: _known_first(each.measured.comparable_tokens_per_second, is_descending=True),
    "first-token": lambda each: _known_first(each.measured.comparable_first_token_ms),
    "uptime": lambda each: _known_first(each.measured.answered_percent, is_descending=True),
    "newest": lambda each: -each.model.created_at.timestamp(),
}
