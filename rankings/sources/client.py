"""Reads the JSON documents of one ranking source during one run; each document is requested once. Knows no source.

How documents are requested, and the limits of that, is in ``gateway_project.net.background_http``.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime

from gateway_project.net import background_http
from gateway_project.net.background_http import AccessDenied, Document, Headers, NotFound

LIMITS = background_http.Limits(redirects=3)


class SourceFailed(Exception):
    """What the documents say ended the run. The message holds no secret. ``retry_at``: when the source allows the next one."""

    def __init__(self, message: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


class ImplausibleData(SourceFailed):
    """The source's answer cannot be true, or cannot be complete. The last good snapshot stays."""


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
