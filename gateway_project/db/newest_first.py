"""Reads a large table by its keys, newest first: a page by the key of the row before it, or all of it in batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from gateway_project.db import pool


@dataclass(frozen=True)
class Page:
    """Rows, and the keys from which the pages beside this one continue; None where there is none."""

    rows: list[Any]
    newer: Any
    older: Any


def read_page(rows: QuerySet[Any], rows_max: int, *, newer_than: Any = None, older_than: Any = None) -> Page:
    """Return at most ``rows_max`` rows of a query by descending key: the newest, or those next to a key."""
    if newer_than is not None:
        found = list(rows.filter(pk__gt=newer_than).order_by("pk")[: rows_max + 1])
        page, has_newer, has_older = found[:rows_max][::-1], len(found) > rows_max, True
    else:
        found = list((rows if older_than is None else rows.filter(pk__lt=older_than))[: rows_max + 1])
        page, has_newer, has_older = found[:rows_max], older_than is not None, len(found) > rows_max
    return Page(page, page[0].pk if page and has_newer else None, page[-1].pk if page and has_older else None)


def read_batches(rows: QuerySet[Any], rows_max: int) -> Iterator[list[Any]]:
    """Yield all rows of a query by descending key, in batches. Between batches no connection is held."""
    batch = list(rows[:rows_max])
    while batch:
        pool.release_connection()
        yield batch
        batch = list(rows.filter(pk__lt=batch[-1].pk)[:rows_max])
