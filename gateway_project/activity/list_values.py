"""Cells of lists in the admin beside plain values: columns, links between rows, times, words and amounts."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gateway_project.text import dollars, timestamps


def column(description: str, read: Callable[[Any], Any], **options: Any) -> Any:
    """Return a column for an admin's class: what ``read`` makes of a row. ``options`` are those of ``admin.display``."""
    return admin.display(lambda self, row: read(row), description=description, **options)


def page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(row.pk)])


def link(row: Model | None, text: str = "") -> SafeString | str:
    """Return a link to the page of a row, empty if there is none. The text is the row's own unless given."""
    return "" if row is None else format_html('<a href="{}">{}</a>', page_of(row), text or row)


def search_link(term: str, text: str = "") -> SafeString:
    """Return a link to what the search finds: for an id of an app that the page's own app does not import."""
    return format_html('<a href="{}?{}">{}</a>', reverse("admin:search"), urlencode({"q": term}), text or term)


def moment(at: datetime) -> SafeString:
    """Return a time in UTC, with its seconds."""
    utc = at.astimezone(UTC)
    title = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}" data-utc>{}</time>', utc.isoformat(), title, timestamps.in_words(at))


def word(text: str, stored: str) -> SafeString:
    """Return what people read, with the stored value on hover."""
    return format_html('<span title="{}">{}</span>', stored, text)


def align(rows: Sequence[Any], columns: Iterable[str]) -> None:
    """Keep with each row how many decimals its amounts have in this list: one number for all of these columns."""
    amounts = (getattr(row, column) for column in columns for row in rows)
    decimals = dollars.decimals(nanos for nanos in amounts if nanos is not None)
    for row in rows:
        row.decimals = decimals


def decimals_of(row: Any) -> int | None:
    """Return how many decimals the amounts of a row have; None if it is not in a list."""
    return getattr(row, "decimals", None)
