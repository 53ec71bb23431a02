"""The one door to ranking sources: JSON over HTTP, bounded in time, size, redirects and attempts. Knows no source.

Messages of failures are made here, of status and path: never of what was sent, nor of what came back, which may repeat it.
"""

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

CONNECT_SECONDS = 5
READ_SECONDS = 30
BODY_SECONDS_MAX = 60  # a byte every 29 seconds would satisfy the one above for ever
BODY_BYTES_MAX = 20_000_000
RUN_SECONDS_MAX = 300
ATTEMPTS_MAX = 4
REDIRECTS_MAX = 3
PAUSE_BASE_SECONDS = 1.0
PAUSE_SECONDS_MAX = 30.0
RETRY_AFTER_SECONDS_MAX = 60  # of a 429 that is waited for; what asks for more ends the run
_REDIRECTS = {301, 302, 303, 307, 308}

Headers = Mapping[str, str]


class SourceFailed(Exception):
    """Why a run ended without a snapshot, in words that hold no secret. ``retry_at``: not before, where the source said so."""

    def __init__(self, message: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


class Refused(SourceFailed):
    """401 or 403: it will not answer until its configuration changes."""


class Unavailable(SourceFailed):
    """It may answer later."""


class Implausible(SourceFailed):
    """It answered, and what it said cannot be true, or not be the whole. The last good snapshot stands."""


@dataclass(frozen=True)
class Answer:
    """What came back: JSON, and the headers by their names in any case."""

    body: Any
    headers: Headers

    @property
    def validators(self) -> dict[str, str]:
        """What a later request for the same can be made conditional by."""
        named = {"If-None-Match": self.headers.get("ETag"), "If-Modified-Since": self.headers.get("Last-Modified")}
        return {name: value for name, value in named.items() if value}


class _Retryable(Exception):
    def __init__(self, failure: Unavailable, wait_seconds: float | None = None) -> None:
        super().__init__(str(failure))
        self.failure, self.wait_seconds = failure, wait_seconds


@dataclass
class Client:
    """Asks one source during one run. ``say`` hears how it goes on, ``pause`` is how it waits, in seconds."""

    base_url: str
    headers: Headers = field(default_factory=dict)
    pause: Callable[[float], object] = time.sleep
    say: Callable[[str], object] = lambda line: None

    def __post_init__(self) -> None:
        self.base_url = self.base_url.rstrip("/")
        self._answers: dict[str, Answer] = {}
        self._deadline = time.monotonic() + RUN_SECONDS_MAX
        self._session = requests.Session()
        self._session.auth = self._authenticate  # without one, requests would look for a password in ~/.netrc, and send that

    def _authenticate(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(self.headers)
        return request

    def close(self) -> None:
        self._session.close()

    # --- What a source is asked ------------------------------------------------------------------------------------

    def get(self, path: str, **query: str | int) -> Answer:
        """One JSON document, at a path under the base URL. Raises Refused, Unavailable, Implausible."""
        prepared = requests.Request("GET", self.base_url + path, params=query).prepare()
        url = str(prepared.url)
        if url not in self._answers:
            answer = self._ask(url, {})
            if answer is None:
                raise Unavailable(f"{_shown(url)} answered 304 to a question without conditions")
            self._answers[url] = answer
        return self._answers[url]

    def is_unchanged(self, validators: Mapping[str, Headers]) -> bool:
        """Whether everything that these validators were of, by URL, is as it was. What has changed is not asked for again."""
        for url, conditions in validators.items():
            if not url.startswith(f"{self.base_url}/"):
                return False
            answer = self._ask(url, conditions)
            if answer is not None:
                self._answers[url] = answer
                return False
            self.say(f"{_shown(url)}: unchanged")
        return bool(validators)

    @property
    def validators(self) -> dict[str, dict[str, str]]:
        """Of all that was read, by URL; none if the server gave none for some of it."""
        given = {url: answer.validators for url, answer in self._answers.items()}
        return given if all(given.values()) else {}

    # --- How -------------------------------------------------------------------------------------------------------

    def _ask(self, url: str, conditions: Headers) -> Answer | None:
        """The answer, or None for a 304. Tries again what may pass."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                answer = self._attempt(url, conditions)
            except _Retryable as retryable:
                self._wait(retryable, attempt)
                continue
            return answer
        raise AssertionError("the last attempt raises")

    def _wait(self, retryable: _Retryable, attempt: int) -> None:
        """Wait until the next attempt. Raises Unavailable if there is none, or it would come too late."""
        ceiling = min(PAUSE_SECONDS_MAX, PAUSE_BASE_SECONDS * 2 ** (attempt - 1))
        seconds = random.uniform(0, ceiling) if retryable.wait_seconds is None else retryable.wait_seconds  # noqa: S311  no secret
        if attempt == ATTEMPTS_MAX or time.monotonic() + seconds > self._deadline:
            raise retryable.failure
        self.say(f"{retryable.failure}; again in {seconds:.1f} s")
        self.pause(seconds)

    def _attempt(self, url: str, conditions: Headers) -> Answer | None:
        try:
            return self._follow(url, conditions)
        except requests.RequestException as error:  # its text has addresses in it, and may have more
            raise _Retryable(Unavailable(f"{_shown(url)}: {_reason(error)}")) from None

    def _follow(self, url: str, conditions: Headers) -> Answer | None:
        here = url
        for _ in range(REDIRECTS_MAX + 1):
            if time.monotonic() > self._deadline:
                raise Unavailable(f"it took more than {RUN_SECONDS_MAX} seconds")
            with self._session.get(
                here,
                headers={"Accept": "application/json", "User-Agent": "model-gateway", **conditions},
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                allow_redirects=False,
                stream=True,
            ) as response:
                if response.status_code not in _REDIRECTS:
                    return self._take(url, response)
                here = _next(here, response)
        raise Unavailable(f"{_shown(url)} redirects for ever")

    def _take(self, url: str, response: requests.Response) -> Answer | None:
        status = response.status_code
        if status == HTTPStatus.NOT_MODIFIED:
            return None
        if status == HTTPStatus.OK:
            return Answer(_json(url, response), response.headers)
        said = f"{_shown(url)} answered {status}"
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise Refused(said)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            raise _rate_limited(said, response.headers)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _Retryable(Unavailable(said))
        raise Unavailable(said)


def _rate_limited(said: str, headers: Headers) -> Exception:
    """Worth waiting for, or the end of the run."""
    seconds = retry_after_seconds(headers, datetime.now(UTC))
    if seconds is None:
        return _Retryable(Unavailable(said))
    failure = Unavailable(f"{said}: not before {seconds:.0f} s", retry_at=datetime.now(UTC) + timedelta(seconds=seconds))
    return _Retryable(failure, seconds) if seconds <= RETRY_AFTER_SECONDS_MAX else failure


def retry_after_seconds(headers: Headers, now: datetime) -> float | None:
    """How long a 429 asks to wait, a month at most: by Retry-After, in seconds or as a date, RateLimit or X-RateLimit-Reset."""
    waits = (
        _seconds(headers.get("Retry-After")),
        _until(headers.get("Retry-After"), now),
        _seconds(_parameter(headers.get("RateLimit"), "t")),
        _since_epoch(headers.get("X-RateLimit-Reset"), now),
    )
    found = next((wait for wait in waits if wait is not None), None)
    return None if found is None else min(max(found, 0.0), timedelta(days=30).total_seconds())


def _seconds(value: str | None) -> float | None:
    return float(value) if value and value.isascii() and value.strip().isdigit() and len(value) < 12 else None


def _until(value: str | None, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()


def _parameter(value: str | None, name: str) -> str | None:
    """``5`` of ``"api";r=0;t=5``."""
    pairs = (part.strip().partition("=") for part in (value or "").split(";"))
    return next((given for key, _, given in pairs if key == name), None)


def _since_epoch(value: str | None, now: datetime) -> float | None:
    seconds = _seconds(value)
    return None if seconds is None else seconds - now.timestamp()


def _next(here: str, response: requests.Response) -> str:
    """Where a redirect leads, if to the same place: elsewhere, the key would be somebody else's."""
    there = urljoin(here, response.headers.get("Location", ""))
    before, after = urlsplit(here), urlsplit(there)
    if (before.scheme, before.netloc) != (after.scheme, after.netloc):
        raise Unavailable(f"{_shown(here)} redirects to another host")
    return there


def _json(url: str, response: requests.Response) -> Any:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not (kind == "application/json" or kind.endswith("+json")):
        raise Implausible(f"{_shown(url)} is not JSON but {kind[:60] or 'of no type'}")
    body = _body(url, response)
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Implausible(f"{_shown(url)} is not JSON, though it says so") from None


def _body(url: str, response: requests.Response) -> bytes:
    """All of it, unpacked. Raises Implausible, Unavailable."""
    body, deadline = bytearray(), time.monotonic() + BODY_SECONDS_MAX
    for chunk in response.iter_content(65_536):
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise Implausible(f"{_shown(url)} is longer than {BODY_BYTES_MAX} bytes")
        if time.monotonic() > deadline:
            raise _Retryable(Unavailable(f"{_shown(url)} took more than {BODY_SECONDS_MAX} seconds"))
    return bytes(body)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS} seconds"
    if isinstance(error, requests.Timeout):
        return f"no answer within {READ_SECONDS} seconds"
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
        return "the answer broke off"
    return "the connection failed" if isinstance(error, requests.ConnectionError) else "the request failed"


def _shown(url: str) -> str:
    """The document, without what a URL can hide: names, passwords and keys."""
    parts = urlsplit(url)
    return f"{parts.hostname}{parts.path}"
