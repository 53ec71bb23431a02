"""The project's changes of geventhttpclient: heads of requests are kept, and llhttp's parser in C reads the responses.

The library's own responses take thirty calls more, do not bound their heads, and return the connection at the end of an interim
response (103 Early Hints), while the final one is still to come.
"""

from collections.abc import Callable
from typing import Any

from geventhttpclient import HTTPClient
from geventhttpclient._parser import HTTPParseError, HTTPResponseParser
from geventhttpclient.connectionpool import ConnectionPool

from gateway_project.net import sockets

_READ_BYTES = 65_536
_HEADS_MAX = 64  # that a client keeps
_HEAD_BYTES_MAX = 65_536  # of all headers and trailers of a response, with those of its interim responses
_INTERIM_BYTES = len("HTTP/1.1 100")  # of a head: that of an interim response may have no headers
_LENGTH = "Content-Length"


class Client(HTTPClient):
    """A client that keeps the heads of its requests: they differ by the length of the body only, or by few headers."""

    def __init__(
        self, host: str, port: int | None, ssl: bool, make_pool: Callable[..., ConnectionPool], headers: dict[str, str]
    ) -> None:
        super().__init__(host, port or (443 if ssl else 80), headers)
        self._connection_pool = make_pool(ssl, self.host, self.port)
        self._heads: dict[tuple[Any, ...], tuple[bytes, bytes]] = {}

    def request_head(self, target: str, headers: dict[str, str]) -> tuple[bytes, bytes]:
        """Return what comes before and after the Content-Length in the head of a POST. Raises ValueError."""
        key = (target, *headers.items())
        if (found := self._heads.get(key)) is None:
            if len(self._heads) >= _HEADS_MAX:
                self._heads.clear()
            head = self._build_request("POST", target, b"", {_LENGTH: "?", **headers}, chunked=False).encode("latin-1")
            before, _, after = head.partition(f"{_LENGTH}: ?".encode())
            found = self._heads[key] = before, after
        return found


class Response(HTTPResponseParser):
    """A response on a connection of the pool, which goes back there when the response is complete."""

    _on_status: Any = staticmethod({}.get)  # the code says it all; a function of C that returns None

    def __init__(self, connection: Any, pool: ConnectionPool) -> None:
        super().__init__()
        self._connection, self._pool = connection, pool
        self.headers: dict[str, str] = {}  # by name in lower case: the first of each
        self.body = bytearray()  # that was not taken yet
        self._on_body = self.body.extend
        self._lines: list[str] = []  # names and values of the head, or of the trailers, in turn
        self._head_bytes = 0
        self._has_head = False
        self.is_complete = False
        self._is_reusable = False  # the connection

    def read_head(self) -> None:
        """Read until the head of the final response is complete. It may be interrupted, and called again."""
        while not self._has_head:
            if not self.read():
                raise HTTPParseError("the connection was closed before the end of the head")

    def read(self) -> bytes:
        """Wait for bytes and parse them. Return what has arrived; nothing if the connection has ended."""
        arrived = sockets.receive(self._connection, _READ_BYTES)
        try:
            self.feed(arrived)
        except HTTPParseError:
            if not self.is_complete:
                raise
            self._is_reusable = False  # more bytes followed the response
        if self._head_bytes > _HEAD_BYTES_MAX:  # looked at once a read, so at most one read more is kept of what is refused
            self._is_reusable = False
            raise HTTPParseError(f"more than {_HEAD_BYTES_MAX} bytes of headers")
        if self.is_complete:
            self.release()
        return arrived

    def release(self) -> None:
        """Return the connection to the pool, or close it, once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            (self._pool.return_socket if self._is_reusable else self._pool.release_socket)(connection)

    __del__ = release

    def _on_message_begin(self) -> None:
        if self.is_complete:
            raise HTTPParseError("a second response")
        self._lines.clear()
        self._head_bytes += _INTERIM_BYTES

    def _on_header_field(self, piece: str) -> None:
        self._head_bytes += len(piece)
        if len(self._lines) % 2:
            self._lines[-1] += piece
        else:
            self._lines.append(piece)

    def _on_header_value(self, piece: str) -> None:
        self._head_bytes += len(piece)
        if len(self._lines) % 2:
            self._lines.append(piece)
        else:
            self._lines[-1] += piece

    def _on_headers_complete(self) -> None:
        if self.get_code() >= 200:
            self._has_head = True
            self.headers = dict(zip(map(str.lower, self._lines[-2::-2]), self._lines[-1::-2], strict=True))
            self._lines.clear()

    def _on_message_complete(self) -> None:
        if self.get_code() >= 200:
            self.is_complete = True
            self._is_reusable = not self.parser_failed() and self.should_keep_alive()
