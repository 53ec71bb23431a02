"""LEAF. The one door through which completions reach an upstream.

geventhttpclient, because it parses in C and hands over what has arrived; one pool of connections per event loop and origin.
Its errors become ours here, once, by phase. Redirects are not followed, proxies of the environment not used, replies bounded.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import gevent
from django.conf import settings
from geventhttpclient import HTTPClient
from geventhttpclient.connectionpool import ConnectionPool
from geventhttpclient.response import HTTPParseError, HTTPProtocolViolationError, HTTPResponse, HTTPSocketPoolResponse

from gateway_project.net import disconnects

_READ_BYTES = 65_536
_HEAD_BYTES_MAX = 65_536  # of all headers of a reply, of what goes before it and of what trails it
# By event loop, then by origin and how long a connection may take.
_pools: WeakKeyDictionary[Any, dict[tuple[str, int], HTTPClient]] = WeakKeyDictionary()


class OutboundError(Exception):
    """The upstream could not be asked, or did not finish its answer."""


class ConnectFailed(OutboundError):
    """No connection: nothing was sent."""


class TimedOut(OutboundError):
    """A deadline passed while we waited for bytes."""


class ConnectionBroken(OutboundError):
    """The connection ended, or spoke something else than HTTP, in the middle."""


class ClientDisconnected(OutboundError):
    """Nobody waits for the answer any more: raised into a wait from outside."""


class ResponseTooLarge(OutboundError):
    """The reply is larger than UPSTREAM_REPLY_BYTES_MAX."""


class Deadlines(Protocol):
    """Seconds to accept a connection; from asking, with that, to the whole head of a reply; between two reads; and in all."""

    @property
    def connect_seconds(self) -> int: ...
    @property
    def first_byte_seconds(self) -> int: ...
    @property
    def idle_seconds(self) -> int: ...
    @property
    def total_seconds(self) -> int: ...


def post(url: str, *, headers: dict[str, str], body: bytes, deadlines: Deadlines, until: float) -> "UpstreamResponse":
    """Send, and wait for the status and headers. Raises ConnectFailed, TimedOut, ConnectionBroken. Close the reply.

    ``until``, by the monotonic clock, is a deadline of the caller's own.
    """
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    now = time.monotonic()
    deadline = min(now + deadlines.total_seconds, until)
    client = _client(f"{parts.scheme}://{parts.netloc}", deadlines)
    # A timer for all that goes before a reply, beside the library's own for connecting: a head may come a byte at a time.
    with gevent.Timeout(max(min(deadline - now, deadlines.first_byte_seconds), 0), TimedOut("no head")), _mapped_errors():
        head = client._build_request("POST", target, body, headers, chunked=False).encode("latin-1")
        return UpstreamResponse(_sent(client._connection_pool, head + body), deadline, deadlines.idle_seconds)


def _sent(pool: ConnectionPool, request: bytes) -> "_Response":
    """Send, and wait for the head of the reply. The connection goes back to the pool or is closed, however that ends.

    The library's own sending forgets it when somebody gives up meanwhile, and after enough of them the pool has none left.
    """
    try:
        connection = pool.get_socket()
    except TimedOut as error:
        raise ConnectFailed("there was no connection in time") from error
    try:
        connection.sendall(request)
    except (ConnectionResetError, BrokenPipeError):
        pass  # it may have answered before it had read all
    except BaseException:
        pool.release_socket(connection)
        raise
    return _Response(connection, pool, method="POST", block_size=_READ_BYTES)


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except ValueError:  # a host that cannot be one, or a header: the library would say which, and it may be our key
        raise ConnectFailed("its address or a header cannot be sent") from None
    except TimeoutError as error:
        raise TimedOut(str(error)) from error
    except (OSError, HTTPParseError) as error:
        raise ConnectionBroken(str(error)) from error


@dataclass(slots=True)
class UpstreamResponse:
    """An upstream's reply whose head has arrived."""

    _response: Any
    _deadline: float
    idle_seconds: int

    @property
    def status(self) -> int:
        return int(self._response.status_code)

    def header(self, name: str) -> str:
        value = self._response.get(name, "")
        return value if isinstance(value, str) else value[0]

    def read_all(self) -> bytes:
        """The whole body. Raises TimedOut, ConnectionBroken, ResponseTooLarge."""
        body = bytearray()
        while data := self.read_some(self.idle_seconds):
            body += data
            if len(body) > settings.UPSTREAM_REPLY_BYTES_MAX:
                raise ResponseTooLarge(f"more than {settings.UPSTREAM_REPLY_BYTES_MAX} bytes")
        if data is None:
            raise TimedOut("idle")
        return bytes(body)

    def read_some(self, timeout_seconds: float) -> bytes | None:
        """What has arrived by now, waiting for the first byte of it. b"" at the end; None when patience ran out.

        Raises TimedOut past the total deadline, ConnectionBroken.
        """
        # The library's own read(n) waits for n bytes; a stream must pass on what is there. Hence its inner buffer.
        response = self._response
        while not response._body_buffer and not response.message_complete:
            if response._sock is None:  # it ended, and another reply came behind it, which nobody asked for
                return b""
            left_seconds = self._deadline - time.monotonic()
            if left_seconds <= 0:
                raise TimedOut("total")
            arrived = None
            # A timer, not settimeout(): the socket goes back to the pool and would keep it.
            with gevent.Timeout(min(timeout_seconds, left_seconds), False), _mapped_errors():
                arrived = response._sock.recv(_READ_BYTES)
                response.feed(arrived)
            if arrived is None:
                return None
        data = bytes(response._body_buffer)
        response._body_buffer.clear()
        return data

    def close(self) -> None:
        """Give the connection back, or close it when the reply was not read to its end."""
        self._response.release()


# --- What the library gets wrong ----------------------------------------------------------------------------------


class _Response(HTTPSocketPoolResponse):
    """A reply whose head is bounded, and whose connection is free for the next request when it is over, not before.

    The library gives the connection back at the end of an interim reply (103 Early Hints), while it still waits for the real
    one: another caller would get that.
    """

    _head_bytes = 0
    _is_over = False
    _may_serve_another = False

    def feed(self, data: str | bytes) -> None:
        try:
            super().feed(data)
        except HTTPParseError:
            if not self._is_over:
                raise
            self._may_serve_another = False  # something came behind the reply
        if self._is_over:
            self.release()

    def should_close(self) -> bool:
        return not self._may_serve_another

    def _on_message_begin(self) -> None:
        if self._is_over:
            raise HTTPProtocolViolationError("a reply that nobody asked for")
        self._count("HTTP/1.1 100")  # an interim reply needs no headers
        super()._on_message_begin()

    def _on_message_complete(self) -> None:
        HTTPResponse._on_message_complete(self)  # and not its child's, which gives the connection back
        if self.get_code() >= 200:
            self._is_over = True
            self._may_serve_another = not super().should_close()

    def _on_header_field(self, string: str) -> None:
        self._count(string)
        super()._on_header_field(string)

    def _on_header_value(self, string: str) -> None:
        self._count(string)
        super()._on_header_value(string)

    def _count(self, string: str) -> None:
        self._head_bytes += len(string)
        if self._head_bytes > _HEAD_BYTES_MAX:
            raise HTTPProtocolViolationError(f"more than {_HEAD_BYTES_MAX} bytes of headers")


# --- Connections --------------------------------------------------------------------------------------------------


def _client(origin: str, deadlines: Deadlines) -> HTTPClient:
    clients = _pools.setdefault(gevent.get_hub(), {})
    key = (origin, deadlines.connect_seconds)
    if key not in clients:
        clients[key] = client = HTTPClient.from_url(
            origin,
            concurrency=settings.UPSTREAM_CONNECTIONS_MAX,
            connection_timeout=deadlines.connect_seconds,
            network_timeout=None,  # the callers' own timers
            headers={"User-Agent": "model-gateway"},
        )
        pool = client._connection_pool
        pool._create_socket = partial(_connected, pool._create_socket)  # type: ignore[method-assign]
        pool._is_socket_alive = _is_idle  # type: ignore[method-assign, assignment]
    return clients[key]


def _is_idle(connection: Any) -> bool:
    """Whether nothing has come on a connection that waits: neither its end nor bytes that nobody asked for."""
    return disconnects.peek(connection) is None  # the library asks by select(), which takes ten times as long


def _connected(create_socket: Callable[[], Any]) -> Any:
    """A connection whose making failed, in whatever way, is known as such: the library's errors do not tell."""
    try:
        return create_socket()
    except OSError as error:
        raise ConnectFailed(str(error)) from error
