"""The panels of the admin's home page: what matters today, each in one figure, with the list behind it. The sections of an
account's page.

A panel is read only for those who may see the list behind it, by a query that stays short however many rows there are. A
section runs a fixed number of queries, each of which reads an index, however many rows the account has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from gateway_project import app_config, bar_chart
from gateway_project.db import pool


@dataclass(frozen=True)
class Row:
    """A line below the figure. ``code`` is the label's name for programs."""

    name: str
    value: str
    address: str = ""
    code: str = ""


@dataclass(frozen=True)
class Content:
    """One figure, rounded, its exact value and an explanation. ``needs_attention`` marks a figure to look at."""

    figure: str
    words: str = ""
    exact: str = ""
    at: datetime | None = None
    rows: Sequence[Row] = ()
    chart: bar_chart.Chart | None = None
    needs_attention: bool = False


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


# --- The sections of an account's page ----------------------------------------------------------------------------------


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
    """Return the user's sections with their content."""
    sections = (section for app in app_config.installed() for section in app.desk().sections)
    shown = [section for section in sections if request.user.has_perm(section.permission)]
    return [(section, section.read(request, account)) for section in sorted(shown, key=lambda section: section.place)]
