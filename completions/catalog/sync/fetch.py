"""Asking an upstream for its list of models, in the background, where nobody waits. Bounded in time, bytes and attempts.

Redirects are not followed and the environment's proxies and netrc not used: our key goes to the provider's address alone.
"""

import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import requests
import urllib3

CONNECT_SECONDS, READ_SECONDS, BODY_SECONDS = 5, 30, 60
BYTES_MAX = 20_000_000
ATTEMPTS_MAX = 3
BACKOFF_SECONDS = 1.0  # doubled for each further attempt, and up to as much again
WAIT_SECONDS_MAX = 60  # who wants us to wait longer is asked another time
_READ_BYTES = 65_536


class Unavailable(Exception):
    """There is no list; the words say why, as one says it of the upstream. ``retry_seconds``: how long it wants to be left."""

    def __init__(self, reason: str, *, retry_seconds: int | None = None, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.retry_seconds = retry_seconds
        self.is_passing = is_passing


@dataclass(frozen=True)
class Answer:
    """The list as it came. ``etag`` is empty if the upstream gave none."""

    body: bytes
    etag: str


def fetch(url: str, *, api_key: str = "", etag: str = "") -> Answer | None:
    """The list; None if it is still the one that had this ``etag``. Raises Unavailable."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            return _attempt(url, api_key, etag)
        except Unavailable as failure:
            wait_seconds = _wait_seconds(failure, attempt)
            if attempt == ATTEMPTS_MAX or not failure.is_passing or wait_seconds > WAIT_SECONDS_MAX:
                raise
        time.sleep(wait_seconds)
    raise AssertionError("the last attempt returns or raises")


def _wait_seconds(failure: Unavailable, attempt: int) -> float:
    if failure.retry_seconds is not None:
        return failure.retry_seconds
    return BACKOFF_SECONDS * 2.0 ** (attempt - 1) * (1 + random.random())  # noqa: S311  spreads attempts, keeps no secret


def _attempt(url: str, api_key: str, etag: str) -> Answer | None:
    # What is not compressed cannot unfold to more than it is.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "model-gateway"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    if etag:
        headers["If-None-Match"] = etag
    try:
        with requests.Session() as session:
            session.trust_env = False
            with session.get(
                url, headers=headers, timeout=(CONNECT_SECONDS, READ_SECONDS), allow_redirects=False, stream=True
            ) as response:
                return _answer(response, had_etag=bool(etag))
    except ValueError:  # an address or a key that fits no request; neither is repeated here
        raise Unavailable("cannot be asked: its address or its key fits no request") from None
    except (OSError, urllib3.exceptions.HTTPError) as error:
        raise Unavailable(f"cannot be reached: {type(error).__name__}", is_passing=True) from None


def _answer(response: requests.Response, *, had_etag: bool) -> Answer | None:
    status = response.status_code
    if status == 304 and had_etag:
        return None
    if status == 200:
        return Answer(_body(response), _etag(response))
    is_passing = status in {408, 429} or status >= 500
    retry_seconds = _retry_seconds(response.headers.get("Retry-After", "")) if is_passing else None
    raise Unavailable(f"answered {status}", retry_seconds=retry_seconds, is_passing=is_passing)


def _body(response: requests.Response) -> bytes:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Unavailable("sent its list compressed, which it was asked not to")
    deadline = time.monotonic() + BODY_SECONDS
    body = bytearray()
    while chunk := response.raw.read1(_READ_BYTES, decode_content=False):
        body += chunk
        if len(body) > BYTES_MAX:
            raise Unavailable(f"sent a list of more than {BYTES_MAX} bytes")
        if time.monotonic() > deadline:
            raise Unavailable(f"took more than {BODY_SECONDS} seconds to send its list")
    return bytes(body)


def _etag(response: requests.Response) -> str:
    etag = response.headers.get("ETag", "")
    return etag if etag.isascii() and etag.isprintable() and len(etag) <= 200 else ""


def _retry_seconds(text: str) -> int | None:
    """A Retry-After of either form, seconds or a date; None if there is none that can be read."""
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), 7 * 86_400)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(int(seconds) + 1, 0), 7 * 86_400)
