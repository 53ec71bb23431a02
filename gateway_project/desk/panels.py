"""The panels of the admin's home page: what needs attention, what happened today, and what is good to know. The sections of an
account's page.

A panel is read only for those who may see the list behind it, by a query that stays short however many rows there are. A
section runs a fixed number of queries, each of which reads an index, however many rows the account has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any

from django.db.models import Count, QuerySet, Window
from django.http import HttpRequest
from django.urls import reverse

from gateway_project import app_config, bar_chart
from gateway_project.activity import list_values
from gateway_project.db import everywhere, pool
from gateway_project.db.owned import OwnedModel

WAITING_SHOWN = 5
_COMPARED = (timedelta(0), timedelta(days=1), timedelta(days=7))


@dataclass(frozen=True)
class Row:
    """A line below the figure. ``code`` is the label's name for programs, ``at`` since when it waits."""

    name: str
    value: str = ""
    address: str = ""
    code: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class Content:
    """One figure, rounded, its exact value and an explanation. ``needs_attention`` marks a figure to look at.

    ``before``: the same of yesterday and of a week ago, until this time of the day. ``at`` is since when, or when.
    """

    figure: str
    words: str = ""
    exact: str = ""
    at: datetime | None = None
    rows: Sequence[Row] = ()
    chart: bar_chart.Chart | None = None
    needs_attention: bool = False
    before: Sequence[str] = ()
    change: str = ""


@dataclass(frozen=True)
class Panel:
    """``place`` orders the panels. ``model`` is "app.model" of the list behind the panel, ``query`` its filters.

    ``verb`` is what one must be permitted to do with the model, and ``page`` its page, if not to view the list.
    """

    place: int
    id: str
    title: str
    model: str
    read: Callable[[datetime], Content]
    query: str = ""
    verb: str = "view"
    page: str = "changelist"

    @property
    def permission(self) -> str:
        return self.model.replace(".", f".{self.verb}_")

    @property
    def address(self) -> str:
        return reverse(f"admin:{self.model.replace('.', '_')}_{self.page}") + self.query


def declared() -> list[Panel]:
    return sorted((panel for app in app_config.installed() for panel in app.desk().panels), key=lambda panel: panel.place)


def read(request: HttpRequest) -> list[tuple[Panel, Content]]:
    """Return the user's panels with their content at the database's time. Panels that need attention come first."""
    shown = [panel for panel in declared() if request.user.has_perm(panel.permission)]
    now = pool.database_time() if shown else None
    read_panels = [(panel, panel.read(now)) for panel in shown if now]
    return sorted(read_panels, key=lambda panel_and_content: not panel_and_content[1].needs_attention)


def read_waiting(rows: QuerySet[Any], since: str, one: str, many: str) -> Content:
    """Say how many rows wait and name the oldest, by the column ``since``. Rows of accounts are read in each cell."""

    def read() -> list[Any]:
        return list(rows.annotate(row_count=Window(Count("*"))).order_by(since)[:WAITING_SHOWN])

    found = everywhere.run(read, may_miss=True) if issubclass(rows.model, OwnedModel) else [read()]
    number = sum(first[0].row_count for first in found if first)
    oldest = sorted(chain.from_iterable(found), key=attrgetter(since))[:WAITING_SHOWN]
    named = [Row(str(row), address=list_values.page_of(row), at=getattr(row, since)) for row in oldest]
    words, at = one if number == 1 else many, named[0].at if named else None
    return Content(f"{number:,}", words, at=at, rows=named, needs_attention=number > 0)


def windows(now: datetime) -> list[tuple[datetime, datetime]]:
    """Return the time from 00:00 UTC until now, and the same of yesterday and of a week ago."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return [(today - ago, now - ago) for ago in _COMPARED]


def sum_windows(numbers: Mapping[datetime, int], now: datetime) -> list[int]:
    """Add up numbers by hour in each of the windows. Of a past hour that ends after its window, the share until then counts."""
    sums, share_seconds = [], now.minute * 60 + now.second
    for since, until in windows(now):
        last = until.replace(minute=0, second=0, microsecond=0)
        share = numbers.get(last, 0) * (3_600 if until == now else share_seconds) // 3_600
        sums.append(share + sum(number for hour, number in numbers.items() if since <= hour < last))
    return sums


def compare(values: Sequence[int], shown: Sequence[str] = (), **details: Any) -> Content:
    """Return what was today beside what was yesterday and a week ago."""
    figure, *before = shown or [f"{value:,}" for value in values]
    change = f"{round(100 * (values[0] - values[1]) / values[1]):+,} %" if values[1] else ""
    return Content(figure, before=before, change=change, **details)


@dataclass(frozen=True)
class Section:
    """A part of the page, which those with ``permission`` see. Sections are shown in the order of ``place``.

    ``read`` returns the context of the ``template``, as plain values. ``name`` is the section's anchor.
    """

    place: int
    name: str
    title: str
    permission: str
    template: str
    read: Callable[[HttpRequest, Any], dict[str, Any]]


def read_sections(request: HttpRequest, account: Any) -> list[tuple[Section, dict[str, Any]]]:
    sections = (section for app in app_config.installed() for section in app.desk().sections)
    shown = [section for section in sections if request.user.has_perm(section.permission)]
    return [(section, section.read(request, account)) for section in sorted(shown, key=lambda section: section.place)]
