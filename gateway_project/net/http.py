"""The HTTP client that sends completions to providers.

Built on geventhttpclient, which parses in C and hands over bytes as they arrive. Each event loop has a connection pool per
origin. The library's errors become the classes below, by phase. The client follows no redirects, ignores the environment's
proxies, bounds responses, and connects only to addresses that ``addresses`` permits.
"""

import errno
import math
import ssl
import time
import zlib
from collections.abc import KeysView
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import gevent
import msgspec
from django.conf import settings
from geventhttpclient._parser import HTTPParseError
from geventhttpclient.connectionpool import ConnectionPool, SSLConnectionPool

from gateway_project.deadline import Deadline, SilentDeadline
from gateway_project.net import addresses, disconnects, sockets
from gateway_project.net.geventhttp import Client, Response
from gateway_project.text import web_addresses

ACCEPTED_CODING = "identity"  # of responses: a compressed stream arrives late. Some proxies compress all the same
_CODINGS = frozenset({"gzip", "x-gzip", "deflate"})  # that are read
_GZIP_OR_ZLIB, _GZIP_MAGIC = zlib.MAX_WBITS | 32, b"\x1f\x8b"
_DECOMPRESSED_BYTES_MAX = 1_048_576  # in one read
_JOINED_BYTES_MAX = 65_536  # of a body that is sent together with its head
# Errors of connecting that are not the peer's: this host has no descriptor, memory or port left, no network, or a rule against
# it. Of several addresses the first error counts; the resolver sorts those without a way to them last. EHOSTUNREACH is not one
# of them: it may be this host's router, but on its own network a server that is switched off gives the same.
_LOCAL_ERRNOS = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL),
    *(errno.EAFNOSUPPORT, errno.ENETDOWN, errno.ENETUNREACH, errno.EPERM, errno.EACCES),
}
# By event loop, then by origin and connect_seconds.
_pools: WeakKeyDictionary[Any, dict[tuple[str, int], Client]] = WeakKeyDictionary()


class OutboundError(Exception):
    """The request was not sent, or its response did not arrive completely."""


class ConnectFailed(OutboundError):
    """There was no connection, so nothing was sent."""


class LocalFault(ConnectFailed):
    """There was no connection for a reason of this host or its configuration. It says nothing about the peer."""


class TimedOut(OutboundError):
    """A deadline passed while the client waited for bytes."""


class GivenUp(TimedOut):
    """The gateway asks another peer instead. The caller of this module raises it in a wait, from outside."""


class NotSent(TimedOut):
    """A deadline passed before the whole request was sent. So the peer cannot be working on it."""


class ConnectionBroken(OutboundError):
    """The connection was closed too early, or what arrived is not HTTP."""


class Interrupted(OutboundError):
    """The gateway no longer waits. The caller of this module raises it in a wait, from outside."""

    is_sent = True  # the provider may have some of the request, so it may be working on it


class ClientDisconnected(Interrupted):
    """The gateway's own client disconnected."""


class WorkerEnding(Interrupted):
    """This process must end."""


class ResponseTooLarge(OutboundError):
    """The response is larger than UPSTREAM_REPLY_BYTES_MAX."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits: to connect; to connect, send and receive the whole head; between two reads; and in total."""

    connect_seconds: int
    first_byte_seconds: int
    idle_seconds: int
    total_seconds: int


def send(url: str, *, headers: dict[str, str], body: bytes, deadlines: Deadlines, until: float = math.inf) -> "AwaitedResponse":
    """Send a POST and return its response, which the caller closes. ``until`` is the caller's own deadline, by the monotonic
    clock. Raises ConnectFailed, TimedOut, ConnectionBroken.
    """
    origin = _origin(url)
    clients, key = _pools.setdefault(gevent.get_hub(), {}), (origin, deadlines.connect_seconds)
    if key not in clients:
        clients[key] = _make_client(origin, deadlines, settings.UPSTREAM_CONNECTIONS_MAX)
    return _send(clients[key], url, headers, body, deadlines, until)


def post_alone(
    url: str, *, headers: dict[str, str], body: bytes, deadlines: Deadlines, private_networks: addresses.Networks
) -> int:
    """Send a request on a connection of its own and return the status, without reading the body. Raises like ``send``.

    For servers that anybody may name: of the private networks only those given are connected to.
    """
    with closing(_make_client(_origin(url), deadlines, connections_max=1, private_networks=private_networks)) as client:
        awaited = _send(client, url, headers, body, deadlines, math.inf)
        response = awaited.begin()
        awaited.close()
        if response is None:
            raise TimedOut("no head")
        return response.status


class Fetched(NamedTuple):
    """The response to a GET; only one of status 200 has a body."""

    status: int
    location: str
    body: bytes


def get_alone(url: str, *, deadlines: Deadlines, until: float, private_networks: addresses.Networks, bytes_max: int) -> Fetched:
    """Fetch a document on a connection of its own, as ``post_alone`` sends one. Raises also ResponseTooLarge."""
    with closing(_make_client(_origin(url), deadlines, connections_max=1, private_networks=private_networks)) as client:
        awaited = _send(client, url, {"Accept-Encoding": ACCEPTED_CODING}, b"", deadlines, until, method="GET")
        with closing(awaited.wait()) as response:
            body = response.read_all(bytes_max) if response.status == 200 else b""
            return Fetched(response.status, response.header("location"), body)


@lru_cache(maxsize=1_024)
def _origin(url: str) -> str:
    parts = web_addresses.parse(url)
    return f"{parts.scheme}://{parts.netloc}"


def _send(
    client: Client, url: str, headers: dict[str, str], body: bytes, deadlines: Deadlines, until: float, method: str = "POST"
) -> "AwaitedResponse":
    parts = web_addresses.parse(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    now = time.monotonic()
    deadline = min(now + deadlines.total_seconds, until)
    begin_by = now + deadlines.first_byte_seconds
    pool = client._connection_pool
    try:
        if method == "POST":
            before, after = client.request_head(target, headers)
            head = b"%bContent-Length: %d%b" % (before, len(body), after)
        else:
            head = client._build_request(method, target, b"", headers, chunked=False).encode("latin-1")
        with Deadline(min(begin_by, deadline) - now, NotSent("the request was not sent")):
            connection = _sent(pool, head, body)
        return AwaitedResponse(Response(connection, pool), begin_by, deadline, deadlines.idle_seconds)
    except _FOREIGN_ERRORS as error:
        raise _own_error(error)  # noqa: B904  it has its cause


def _sent(pool: ConnectionPool, head: bytes, body: bytes) -> Any:
    """Return the connection on which the request was sent. Every other exit closes it; a timer in the library's does not."""
    try:
        connection = pool.get_socket()
    except TimedOut as error:  # it did not connect meanwhile: then the error is another one, of ``_connected``
        raise LocalFault(f"there was no connection in time: all {pool.size} are in use") from error
    except Interrupted as interruption:
        interruption.is_sent = False
        raise
    try:
        if len(body) <= _JOINED_BYTES_MAX:
            sockets.send_all(connection, head + body)
        else:  # not joined, because the copy would stay until the response begins
            connection.sendall(head)
            connection.sendall(body)
    except (ConnectionResetError, BrokenPipeError):
        pass  # the provider may have answered before it had read everything
    except BaseException:
        pool.release_socket(connection)
        raise
    return connection


_FOREIGN_ERRORS = (ValueError, OSError, HTTPParseError)  # of sockets and of the library


def _own_error(error: Exception) -> OutboundError:
    """Return one of them as an OutboundError, with its cause."""
    own: OutboundError
    if isinstance(error, ValueError):  # an invalid host or header; the library's message quotes it, and it may be our key
        own, own.__suppress_context__ = LocalFault("its address or a header cannot be sent"), True
        return own
    own = TimedOut(str(error)) if isinstance(error, TimeoutError) else ConnectionBroken(str(error))
    own.__cause__ = error
    return own


class AwaitedResponse(msgspec.Struct, eq=False):
    """A provider's response whose head may not have arrived: the request is sent, and nothing else is known."""

    _response: Response
    _begin_by: float
    _deadline: float
    _idle_seconds: int

    def begin(self) -> "BegunResponse | None":
        """Return the response once its head has arrived; None if it has not by the deadline to begin. Raises like ``wait``."""
        return self._wait(self._begin_by) if self._begin_by < self._deadline else self.wait()

    def wait(self) -> "BegunResponse":
        """Return the response once its head has arrived. Raises TimedOut or ConnectionBroken when it has closed it."""
        response = self._wait(self._deadline)
        if response is None:
            self.close()
            raise TimedOut("no head")
        return response

    def _wait(self, until: float) -> "BegunResponse | None":
        # One deadline until the head is complete: it may arrive a byte at a time.
        try:
            with SilentDeadline(until - time.monotonic()):
                self._response.read_head()
                coding = self._response.headers.get("content-encoding")
                kind = CompressedResponse if coding and coding.strip().lower() in _CODINGS else BegunResponse
                return kind(self._response, self._deadline, self._idle_seconds)
        except BaseException as error:
            self.close()
            raise _own_error(error) if isinstance(error, _FOREIGN_ERRORS) else error  # noqa: B904  it has its cause
        return None

    def close(self) -> None:
        self._response.release()


class BegunResponse(msgspec.Struct, eq=False):
    """A provider's response whose head has arrived."""

    _response: Response
    _deadline: float
    idle_seconds: int

    @property
    def status(self) -> int:
        return int(self._response.get_code())

    def header(self, name: str) -> str:
        """Return the first header of this name, in lower case; "" without one."""
        return self._response.headers.get(name, "")

    @property
    def header_names(self) -> KeysView[str]:
        return self._response.headers.keys()

    def wait_for_text(self) -> None:
        """Wait until more of the body is there than white space, with which some servers keep a connection alive."""
        response = self._response
        while not response.is_complete and not response.body.strip():
            response.body.clear()
            arrived = BegunResponse.read_some(self, self.idle_seconds)
            if arrived is None:
                raise TimedOut("idle")
            response.body.extend(arrived)

    def read_all(self, bytes_max: int | None = None) -> bytes:
        """Return the whole body. Raises TimedOut, ConnectionBroken, ResponseTooLarge."""
        response = self._response
        bytes_max = settings.UPSTREAM_REPLY_BYTES_MAX if bytes_max is None else bytes_max
        if response.is_complete and len(response.body) <= bytes_max and type(self) is BegunResponse:
            return bytes(response.body)  # all of it came with its head
        body = bytearray()
        while data := self.read_some(self.idle_seconds):
            body += data
            if len(body) > bytes_max:
                raise ResponseTooLarge(f"more than {bytes_max} bytes")
        if data is None:
            raise TimedOut("idle")
        return bytes(body)

    def read_some(self, timeout_seconds: float) -> bytes | None:
        """Wait for bytes and return them: b"" at the end, None after the timeout. Raises TimedOut, ConnectionBroken."""
        response = self._response
        while not response.body and not response.is_complete:
            left_seconds = self._deadline - time.monotonic()
            if left_seconds <= 0:
                raise TimedOut("total")
            arrived = None
            # Not settimeout(): the socket goes back to the pool and would keep it.
            try:
                with SilentDeadline(min(timeout_seconds, left_seconds)):
                    arrived = response.read()
            except _FOREIGN_ERRORS as error:
                raise _own_error(error)  # noqa: B904  it has its cause
            if arrived is None:
                return None
        data = bytes(response.body)
        response.body.clear()
        return data

    def close(self) -> None:
        self._response.release()


class CompressedResponse(BegunResponse):
    """A response in gzip or deflate. Its limits are those of what is in it."""

    _zlib: Any = msgspec.field(default_factory=lambda: zlib.decompressobj(_GZIP_OR_ZLIB))
    _left: bytes = b""  # that arrived and was not decompressed yet
    _has_begun: bool = False

    def read_some(self, timeout_seconds: float) -> bytes | None:
        while not (found := self._decompress()):
            arrived = BegunResponse.read_some(self, timeout_seconds)
            if arrived == b"" and self._has_begun and not self._zlib.eof:
                if found := self._zlib.flush():  # what the limit of a read left inside of zlib
                    return bytes(found)
                raise ConnectionBroken("its compressed body was cut off")
            if not arrived:
                return arrived
            self._left += arrived
        return found

    def _decompress(self) -> bytes:
        found = b""
        try:
            while self._left and not found:
                if self._zlib.eof:  # members of gzip may follow one another
                    if not _GZIP_MAGIC.startswith(self._left[:2]):
                        self._left = b""  # padding
                        break
                    self._zlib = zlib.decompressobj(_GZIP_OR_ZLIB)
                elif not self._has_begun and self._left[0] & 0x0F not in (zlib.DEFLATED, 0x0F):  # neither zlib nor gzip (1f 8b)
                    self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # deflate without a header: RFC 9110, 8.4.1.2
                self._has_begun = True
                found = self._zlib.decompress(self._left, _DECOMPRESSED_BYTES_MAX)
                self._left = self._zlib.unconsumed_tail or self._zlib.unused_data
        except zlib.error as error:
            raise ConnectionBroken(f"its compressed body cannot be read: {error}") from error
        return found


def _make_client(
    origin: str, deadlines: Deadlines, connections_max: int, private_networks: addresses.Networks | None = None
) -> Client:
    def make_pool(is_tls: bool, host: str, port: int) -> ConnectionPool:
        # Bytes have the deadlines of ``post`` and ``read_some``.
        times: dict[str, Any] = {"connection_timeout": deadlines.connect_seconds, "network_timeout": None}
        pool = (_TLSPool if is_tls else _Pool)(host, port, host, port, size=connections_max, **times)
        pool.private_networks = private_networks
        return pool

    return cast(Client, Client.from_url(origin, make_pool=make_pool, headers={"User-Agent": "model-gateway"}))


class _Pool(ConnectionPool):
    private_networks: addresses.Networks | None = None

    def _resolve(self) -> list[Any]:
        """Return the permitted addresses. Raises LocalFault: without one, nothing is known of the peer."""
        try:
            return addresses.permitted(super()._resolve(), self.private_networks)
        except TimedOut as error:
            raise LocalFault("its name was not resolved in time") from error
        except (OSError, addresses.NotPermitted) as error:
            raise LocalFault(str(error)) from error

    def _create_socket(self) -> Any:
        try:
            return super()._create_socket()
        except TimedOut as error:
            raise ConnectFailed("there was no connection in time") from error
        except OSError as error:
            is_local = error.errno in _LOCAL_ERRNOS and not isinstance(error, ssl.SSLError)  # whose numbers are OpenSSL's
            raise (LocalFault if is_local else ConnectFailed)(str(error)) from error

    def _is_socket_alive(self, connection: Any) -> bool:
        """Return whether a pooled connection can be used: the peer has neither closed it nor sent unexpected bytes."""
        return disconnects.peek(connection) is None  # the library uses select(), which takes ten times as long


class _TLSPool(_Pool, SSLConnectionPool): ...
