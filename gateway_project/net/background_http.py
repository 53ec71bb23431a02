"""HTTP client for background work, where no caller waits: fetches documents that others publish. Imports no app.

Every request is bounded in time, bytes, attempts and redirects. After a temporary failure (a lost connection, 408, 429, 5xx) it
is tried again, after the time that the server asks for or a random pause. Our key goes to the given address alone: proxies and
passwords from the environment or ~/.netrc are not used, and a redirect to another origin is not followed. Messages of errors
never repeat what was sent or received: it may hold a secret.
"""

import json
import random
import re
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from gateway_project.net import addresses
from gateway_project.text import web_addresses

CONNECT_SECONDS = 5
READ_SECONDS = 30  # until something arrives
BODY_SECONDS = 60  # a byte every 29 seconds would satisfy READ_SECONDS for ever
BODY_BYTES_MAX = 20_000_000  # unpacked
RUN_SECONDS = 300  # of a client's life
ATTEMPTS_MAX = 4  # of one document
BACKOFF_SECONDS = 1.0  # the longest first pause; doubled for each further attempt
BACKOFF_SECONDS_MAX = 30.0
RETRY_AFTER_SECONDS_MAX = 60  # a server that asks for a longer wait is not waited for
_CHUNK_BYTES = 65_536
_REDIRECTS = {301, 302, 303, 307, 308}

Headers = Mapping[str, str]
Pause = Callable[[float], object]  # waits for some seconds
Say = Callable[[str], object]  # reports progress


class FetchFailed(Exception):
    """A document could not be fetched. ``reason`` is a predicate about the server, such as "answered 503".

    ``retry_seconds`` is how long the server asked to wait, if it did. ``is_retryable``: another attempt may succeed.
    """

    def __init__(self, url: str, reason: str, *, is_retryable: bool = False, retry_seconds: float | None = None) -> None:
        super().__init__(f"{shown(url)} {reason}")
        self.reason, self.is_retryable, self.retry_seconds = reason, is_retryable, retry_seconds


class AccessDenied(FetchFailed):
    """The server answered 401 or 403: it will not answer otherwise until the configuration changes."""


class NotFound(FetchFailed):
    """The server answered 404 or 410."""


class InvalidDocument(FetchFailed):
    """The server answered with a document that is too long, or is not JSON where JSON is wanted."""


@dataclass(frozen=True)
class Document:
    """A document as it arrived, unpacked. ``headers`` are found by their names in any case."""

    url: str
    body: bytes
    headers: Headers

    @property
    def validators(self) -> dict[str, str]:
        """The headers that make a later request for the same document conditional; empty if the server gave none."""
        named = {"If-None-Match": self.headers.get("ETag"), "If-Modified-Since": self.headers.get("Last-Modified")}
        return {name: value for name, value in named.items() if value}

    def json(self) -> Any:
        """Parse the body. Raises InvalidDocument if it is not JSON by its type, or by RFC 8259, which has no NaN."""
        media_type = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if not (media_type == "application/json" or media_type.endswith("+json")):
            raise InvalidDocument(self.url, f"sent {media_type[:60] or 'a document without a type'}, not JSON")
        try:
            return json.loads(self.body.decode("utf-8-sig"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise InvalidDocument(self.url, "sent invalid JSON") from None


class Client:
    """Fetches documents of one server with the same headers. ``say`` reports progress.

    With ``redirects_max`` it follows redirects within the same origin; without, one is an error like any other status.
    """

    def __init__(
        self, headers: Headers | None = None, *, redirects_max: int = 0, pause: Pause = time.sleep, say: Say = lambda line: None
    ) -> None:
        self._redirects_max, self._pause, self._say = redirects_max, pause, say
        own = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "model-gateway"}
        self._headers = {**own, **(headers or {})}
        self._deadline = time.monotonic() + RUN_SECONDS
        self._session = open_session()

    def close(self) -> None:
        self._session.close()

    def get(self, url: str, conditions: Headers | None = None) -> Document | None:
        """Fetch a document; None if it has not changed, by the ``validators`` given as ``conditions``. Raises FetchFailed."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._follow(url, conditions or {})
            except FetchFailed as failure:
                self._wait(failure, attempt)

    def _wait(self, failure: FetchFailed, attempt: int) -> None:
        """Wait until the next attempt. Raises ``failure`` if another attempt is useless, too many, or would come too late."""
        ceiling = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2 ** (attempt - 1))
        seconds = random.uniform(0, ceiling) if failure.retry_seconds is None else failure.retry_seconds  # noqa: S311  no secret
        is_last = not failure.is_retryable or attempt >= ATTEMPTS_MAX
        if is_last or seconds > RETRY_AFTER_SECONDS_MAX or time.monotonic() + seconds > self._deadline:
            raise failure
        self._say(f"{failure}; again in {seconds:.1f} s")
        self._pause(seconds)

    def _follow(self, url: str, conditions: Headers) -> Document | None:
        here, headers = url, {**self._headers, **conditions}
        options: dict[str, Any] = {"timeout": (CONNECT_SECONDS, READ_SECONDS), "allow_redirects": False, "stream": True}
        for _ in range(self._redirects_max + 1):
            if time.monotonic() > self._deadline:
                raise FetchFailed(url, f"took more than {RUN_SECONDS:.0f} seconds in this run")
            try:
                with self._session.get(here, headers=headers, **options) as response:
                    if not self._redirects_max or response.status_code not in _REDIRECTS:
                        return _read(url, response, is_conditional=bool(conditions))
                    target = web_addresses.join(here, response.headers.get("Location", ""))
                    if web_addresses.parse(target)[:2] != web_addresses.parse(here)[:2]:  # the scheme and the host
                        raise FetchFailed(url, "redirects to another host")  # which must not see our key
                    here = target
            except addresses.NotPermitted as refusal:
                raise FetchFailed(url, str(refusal)) from None
            except ValueError:  # an address or a header that fits no request
                raise FetchFailed(url, "cannot be asked: its address or its key fits no request") from None
            except (OSError, urllib3.exceptions.HTTPError, zlib.error) as error:  # their texts repeat the address, and more
                raise FetchFailed(url, _reason(error), is_retryable=True) from None
        raise FetchFailed(url, f"redirects more than {self._redirects_max} times")


def open_session() -> requests.Session:
    """Return a session that connects to permitted addresses alone, and that goes by nothing of the environment."""
    session = requests.Session()
    session.trust_env = False  # no proxy, no ~/.netrc
    for scheme in ("http", "https"):
        session.mount(f"{scheme}://", _Adapter())
    session.auth = lambda request: request  # without one, requests would send a password that is in the URL
    return session


def _read(url: str, response: requests.Response, *, is_conditional: bool) -> Document | None:
    status = response.status_code
    if status == HTTPStatus.NOT_MODIFIED and is_conditional:
        return None
    if status == HTTPStatus.OK:
        return Document(url, _body(url, response), response.headers)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise AccessDenied(url, f"answered {status}")
    if status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS} or status >= 500:
        seconds = retry_after_seconds(response.headers, datetime.now(UTC))
        wish = "" if seconds is None else f": not before {seconds:.0f} s"
        raise FetchFailed(url, f"answered {status}{wish}", is_retryable=True, retry_seconds=seconds)
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
        raise NotFound(url, f"answered {status}")
    raise FetchFailed(url, f"answered {status}")


def _body(url: str, response: requests.Response) -> bytes:
    """Read the body as it arrives, and check the time at each part; unpack the body within the limit."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise InvalidDocument(url, "sent a compression that it was not asked for")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    deadline = time.monotonic() + BODY_SECONDS
    body, received_bytes = bytearray(), 0
    while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=False):
        received_bytes += len(chunk)
        body += unpacker.decompress(chunk, BODY_BYTES_MAX + 1 - len(body)) if unpacker else chunk
        if max(len(body), received_bytes) > BODY_BYTES_MAX:
            raise InvalidDocument(url, f"sent more than {BODY_BYTES_MAX} bytes")
        if time.monotonic() > deadline:
            raise FetchFailed(url, f"took more than {BODY_SECONDS:.0f} seconds to send its answer", is_retryable=True)
    if unpacker and not unpacker.eof:
        raise zlib.error("the packed body ends too early")
    return bytes(body)


def _reason(error: Exception) -> str:
    if isinstance(error, requests.ConnectTimeout):
        return f"cannot be reached: no connection within {CONNECT_SECONDS:.0f} seconds"
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return f"sent nothing for {READ_SECONDS:.0f} seconds"
    if isinstance(error, requests.exceptions.SSLError):
        return "cannot be reached: its certificate is not valid, or it does not speak TLS"
    if isinstance(error, requests.ConnectionError):
        return "cannot be reached: the connection failed"
    return "broke off its answer"


def with_query(url: str, query: Mapping[str, str | int]) -> str:
    return str(requests.Request("GET", url, params=query).prepare().url)


def shown(url: str) -> str:
    """Name the document for messages: host and path, without the parts of a URL that can hold a password or a key."""
    parts = web_addresses.parse(url)
    return f"{parts.hostname}{parts.path}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _HTTPConnection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        """Connect to the first permitted address that accepts. The name is resolved here, and not by the library again."""
        name = self._dns_host
        try:
            resolved = socket.getaddrinfo(name, self.port, type=socket.SOCK_STREAM)
            *others, last = [info[4][0] for info in addresses.permitted(resolved)]
        except socket.gaierror as error:
            raise NameResolutionError(name, self, error) from error
        try:
            for self._dns_host in others:
                with suppress(NewConnectionError, ConnectTimeoutError):
                    return super()._new_conn()
            self._dns_host = last
            return super()._new_conn()
        finally:
            self._dns_host = name  # the certificate is compared with the name


class _HTTPSConnection(_HTTPConnection, HTTPSConnection): ...


class _Adapter(HTTPAdapter):
    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        pool.ConnectionCls = _HTTPSConnection if pool.scheme == "https" else _HTTPConnection
        return pool


_RATE_LIMIT_SECONDS = re.compile(r"(?:^|;)\s*t=([^;]*)")  # 5 of ``"api";r=0;t=5``


def retry_after_seconds(headers: Headers, now: datetime) -> float | None:
    """Return how long the server asks to wait, a month at most; None if it does not say."""
    given, reset = headers.get("Retry-After"), _seconds(headers.get("X-RateLimit-Reset"))
    left = _RATE_LIMIT_SECONDS.search(headers.get("RateLimit", ""))
    until_reset = None if reset is None else reset - now.timestamp()
    waits = (_seconds(given), _seconds_until(given, now), _seconds(left and left[1]), until_reset)
    found = next((wait for wait in waits if wait is not None), None)
    return None if found is None else min(max(found, 0.0), timedelta(days=30).total_seconds())


def _seconds(value: str | None) -> float | None:
    return float(value) if value and value.isascii() and value.strip().isdigit() and len(value) < 12 else None


def _seconds_until(value: str | None, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
