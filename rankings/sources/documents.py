"""Reads the JSON documents of one ranking source during one run, each requested once, and their values. Knows no source.

How documents are requested, and the limits of that, is in ``gateway_project.net.background_http``. A value of another kind than
what is asked for raises ImplausibleData, which names the value.
"""

import math
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway_project.net import background_http
from gateway_project.net.background_http import AccessDenied, Document, Headers, NotFound, Pause, Say


class SourceFailed(Exception):
    """The failure that ended the run. The message holds no secret. ``retry_at``: when the source allows the next one."""

    def __init__(self, message: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


class ImplausibleData(SourceFailed):
    """The source's answer cannot be true, or cannot be complete. The last good snapshot stays."""


class SourceClient:
    """Requests documents under one base URL. ``say`` reports progress, ``pause`` waits for some seconds."""

    def __init__(
        self, base_url: str, headers: Headers | None = None, *, pause: Pause = time.sleep, say: Say = lambda line: None
    ) -> None:
        self.base_url, self.say = base_url.rstrip("/"), say
        self._http = background_http.Client(headers, redirects_max=3, pause=pause, say=say)
        self._answers: dict[str, Document] = {}

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **query: str | int) -> Document:
        """Return the document at a path under the base URL. Raises FetchFailed."""
        url = background_http.with_query(self.base_url + path, query)
        if url not in self._answers:
            self._request(url)
        return self._answers[url]

    def is_unchanged(self, validators: Mapping[str, Headers]) -> bool:
        """Whether all documents that ``validators``, by URL, belong to are unchanged. ``get`` reuses the first changed one."""
        for url, conditions in validators.items():
            try:
                if not url.startswith(f"{self.base_url}/") or self._request(url, conditions):
                    return False
            except (AccessDenied, NotFound):  # what that means is for the document's reader to say
                return False
            self.say(f"{background_http.shown(url)}: unchanged")
        return bool(validators)

    @property
    def validators(self) -> dict[str, dict[str, str]]:
        """The validators of all documents read so far, by URL; empty if the server gave none for one of them."""
        given = {url: answer.validators for url, answer in self._answers.items()}
        return given if all(given.values()) else {}

    def _request(self, url: str, conditions: Headers | None = None) -> bool:
        """Request a document and keep it. Return whether it has changed since ``conditions``."""
        document = self._http.get(url, conditions)
        if document is not None:
            self._answers[url] = document
        return document is not None


def finite(value: Any, what: str, *, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """Return a number within its bounds. Raises ImplausibleData, also for ``True`` and for a text that looks like a number."""
    number = optional(value)
    if number is None or not minimum <= number <= maximum:
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return number


def optional(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON allows a whole number of 400 digits
        return None


def positive(value: Any) -> float | None:
    """Return a number above zero; None for anything else: a speed of zero was not measured."""
    number = optional(value)
    return number if number is not None and number > 0 else None


def text(value: Any, what: str, *, characters_max: int = 300) -> str:
    """Return a text without surrounding space. Raises ImplausibleData, also for a text that is empty or cannot be stored."""
    if not isinstance(value, str) or not value.strip() or not _is_storable(value, characters_max):
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return value.strip()


def optional_text(value: Any, *, characters_max: int = 200) -> str:
    """Return a text without surrounding space; an empty one for anything else."""
    return value.strip() if isinstance(value, str) and _is_storable(value, characters_max) else ""


def _is_storable(text: str, characters_max: int) -> bool:
    """Return whether PostgreSQL takes the text: not with NUL, nor with half a surrogate pair, which JSON allows."""
    is_whole = not any("\ud800" <= each <= "\udfff" for each in text)
    return len(text) <= characters_max and "\x00" not in text and is_whole


def table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return value


def rows(value: Any, what: str) -> list[dict[str, Any]]:
    """Return a list of tables. Raises ImplausibleData."""
    return [table(item, f"an item of {what}") for item in items(value, what)]


def items(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return "missing" if value is None else f"{value!r:.60}"
