"""What servers of clouds on loopback have in common: an HTTP server that answers by a function, and keys that expire."""

import itertools
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = tuple[int, Any]  # a status, and what is sent as JSON, or as text


@dataclass(frozen=True)
class Asked:
    """A received request. The names of headers are in lower case; ``form`` has a body of that type."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


@dataclass
class AccessKeys:
    """Access keys that a server of a cloud has issued: each is good for ``seconds``, by the clock of that server."""

    prefix: str
    seconds: float = 3_600
    issued: list[str] = field(default_factory=list)
    refusals: int = 0
    _good_until: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def issue(self) -> str:
        with self._lock:
            secret = f"{self.prefix}{next(self._numbers):04}-secret-of-this-server"
            self.issued.append(secret)
            self._good_until[secret] = time.monotonic() + self.seconds
        return secret

    def revoke(self) -> None:
        """Refuse from now on what was issued until now."""
        self._good_until.clear()

    def accepts(self, authorization: str) -> bool:
        """Return whether a header has a key that is good now."""
        is_good = time.monotonic() < self._good_until.get(authorization.removeprefix("Bearer "), 0.0)
        with self._lock:
            self.refusals += not is_good
        return is_good


class CloudServer:
    """``is_down``: it breaks every connection. ``asked`` has what it received."""

    def __init__(self, port: int, scheme: str) -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.is_down = False
        self.before_answer: Callable[[], object] = lambda: None
        self.answer: Callable[[Asked], Answer] = lambda asked: (404, "")


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[CloudServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address, length = urlsplit(self.path), int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, address.path, dict(parse_qsl(address.query)), headers, self.rfile.read(length))
            cloud.asked.append(asked)
            cloud.before_answer()
            if cloud.is_down:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            status, content = cloud.answer(asked)
            body = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Metadata-Flavor", "Google")  # as Google's libraries want of its metadata server
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        cloud = CloudServer(server.server_port, "https" if context else "http")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield cloud
        server.shutdown()
        thread.join()
