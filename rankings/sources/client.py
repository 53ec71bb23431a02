"""Reads the JSON documents of one ranking source during one run; each document is requested once. Knows no source.

How documents are requested, and the limits of that, is in ``gateway_project.net.background_http``.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway_project.net import background_http

Headers = background_http.Headers
LIMITS = background_http.Limits(redirects=3)


class SourceFailed(Exception):
    """A run ended without a snapshot. The message holds no secret. ``retry_at``: when the source allows the next request."""

    def __init__(self, message: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


class SourceAccessDenied(SourceFailed):
    """The source denies access until the configuration changes."""


class SourceUnavailable(SourceFailed):
    """The source may answer later."""


class SourceMissing(SourceUnavailable):
    """The source does not have the document, or no longer."""


class ImplausibleData(SourceFailed):
    """The source's answer cannot be true, or cannot be complete. The last good snapshot stays."""


@dataclass(frozen=True)
class SourceDocument:
    """A parsed document, and its headers by their names in any case."""

    body: Any
    headers: Headers
    validators: dict[str, str]


class SourceClient:
    """Requests documents under one base URL. ``say`` reports progress, ``pause`` waits for some seconds."""

    def __init__(
        self,
        base_url: str,
        headers: Headers | None = None,
        *,
        pause: Callable[[float], object] = time.sleep,
        say: Callable[[str], object] = lambda line: None,
    ) -> None:
        self.base_url, self.say = base_url.rstrip("/"), say
        self._http = background_http.Client(headers, LIMITS, pause=pause, say=say)
        self._answers: dict[str, SourceDocument] = {}

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **query: str | int) -> SourceDocument:
        """Return the JSON document at a path under the base URL. Raises a subclass of SourceFailed."""
        url = background_http.with_query(self.base_url + path, query)
        if url not in self._answers:
            self._request(url)
        return self._answers[url]

    def is_unchanged(self, validators: Mapping[str, Headers]) -> bool:
        """Whether all documents that ``validators``, by URL, belong to are unchanged. ``get`` reuses the first changed one."""
        for url, conditions in validators.items():
            if not url.startswith(f"{self.base_url}/") or self._has_changed(url, conditions):
                return False
            self.say(f"{background_http.shown(url)}: unchanged")
        return bool(validators)

    @property
    def validators(self) -> dict[str, dict[str, str]]:
        """The validators of all documents read so far, by URL; empty if the server gave none for one of them."""
        given = {url: answer.validators for url, answer in self._answers.items()}
        return given if all(given.values()) else {}

    def _has_changed(self, url: str, conditions: Headers) -> bool:
        """A document that is no longer given out has changed: what that means is for its reader to say."""
        try:
            return self._request(url, conditions)
        except (SourceAccessDenied, SourceMissing):
            return True

    def _request(self, url: str, conditions: Headers | None = None) -> bool:
        """Request a document and keep it. Return whether it has changed since ``conditions``."""
        try:
            document = self._http.get(url, conditions)
            if document is not None:
                self._answers[url] = SourceDocument(document.json(), document.headers, document.validators)
        except background_http.AccessDenied as failure:
            raise SourceAccessDenied(str(failure)) from None
        except background_http.NotFound as failure:
            raise SourceMissing(str(failure)) from None
        except background_http.InvalidDocument as failure:
            raise ImplausibleData(str(failure)) from None
        except background_http.FetchFailed as failure:
            wait = failure.retry_seconds
            retry_at = None if wait is None else datetime.now(UTC) + timedelta(seconds=wait)
            raise SourceUnavailable(str(failure), retry_at=retry_at) from None
        return document is not None
