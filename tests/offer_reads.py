"""What models offer, read once while the catalog has nothing but the same base rows.

Each completion reads the offer of its model anew in tests, because each test has a catalog of its own. With three queries that
is a quarter of a completion. Most tests only have the rows of ``tests.base_rows``, which are the same each time.
"""

import functools
import os
import re
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import connection

from completions.catalog import lookup
from completions.catalog.lookup import Found
from tests import base_rows

# Any write to a table of the app may change an offer, but not that of a completion.
_WRITES = re.compile(r'\b(?:INSERT INTO|UPDATE|DELETE FROM|TRUNCATE)\s+"?completions_(?!completion\b)')
_SETTINGS = ("UPSTREAM_CONNECT_SECONDS", "UPSTREAM_FIRST_BYTE_SECONDS", "UPSTREAM_IDLE_SECONDS", "UPSTREAM_TOTAL_SECONDS")


@functools.lru_cache(2_000)
def _writes(sql: str) -> bool:
    """Say whether a statement writes. Tests send the same ones again and again, and some have thousands of lines."""
    return _WRITES.search(sql) is not None


class OfferReads:
    """Keeps what was read, by the statements that wrote the catalog and all else that an offer is made of."""

    def __init__(self) -> None:
        self._read_offer = lookup._read_offer
        self._settings = vars(settings)["_wrapped"]
        self._offers: dict[Any, Found] = {}
        self._written: list[str] | None = []  # statements of base rows; None: others, too
        self._at_savepoints: dict[str, list[str] | None] = {}

    def begin(self, *, is_kept: bool) -> None:
        """Begin a test, whose catalog is empty."""
        self._written = [] if is_kept else None
        self._at_savepoints = {}

    def watch(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Note what a statement does to the catalog: a wrapper of Django's connection."""
        if isinstance(sql, str):
            if sql.startswith("SAVEPOINT "):
                self._at_savepoints[sql.removeprefix("SAVEPOINT ")] = self._written
            elif sql.startswith("ROLLBACK"):
                self._written = self._at_savepoints.get(sql.removeprefix("ROLLBACK TO SAVEPOINT "))
            elif self._written is not None and _writes(sql):
                self._written = [*self._written, sql] if sql.startswith(base_rows.MARK) else None
        return execute(sql, params, many, context)

    def read_offer(self, model_id: str) -> Found:
        if self._written is None or vars(settings)["_wrapped"] is not self._settings or not connection.in_atomic_block:
            return self._read_offer(model_id)
        seconds = tuple(getattr(settings, name) for name in _SETTINGS)
        key = (model_id, *self._written, seconds, os.environ.get("SCRIPTED_UPSTREAM_KEY"))
        if key not in self._offers:
            self._offers[key] = self._read_offer(model_id)
        return self._offers[key]
