"""An HTTP server on loopback that sends scripted replies, for code that fetches documents in the background."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, TypeVar


@dataclass(frozen=True)
class Reply:
    """``seconds_between_bytes``: the body is sent byte by byte, with these pauses."""

    status: int
    body: bytes
    headers: dict[str, str]
    seconds_between_bytes: float = 0


@dataclass(frozen=True)
class Received:
    """A received request. The names of headers are in lower case."""

    path: str
    headers: dict[str, str]


class DocumentServer:
    """Sends these replies, one to each request, and the last one to every further request."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.received: list[Received] = []
        self.is_over = Event()
        self.before_reply: Callable[[], Any] = lambda: None  # each request calls this before it is answered
        self._replies: list[Reply] = []

    def will(self, *replies: Reply) -> None:
        self._replies = list(replies)

    def next_reply(self) -> Reply:
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


Server = TypeVar("Server", bound=DocumentServer)


def reply(body: str | bytes = "", status: int = 200, seconds_between_bytes: float = 0, **headers: str) -> Reply:
    """A reply; the names of headers have underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, body.encode() if isinstance(body, str) else body, named, seconds_between_bytes)


@contextmanager
def serving(server_class: type[Server] = DocumentServer) -> Iterator[Server]:  # type: ignore[assignment]
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.received.append(Received(self.path, headers))
            server.before_reply()
            answer = server.next_reply()
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self._send(answer)

        def _send(self, answer: Reply) -> None:
            if not answer.seconds_between_bytes:
                self.wfile.write(answer.body)
                return
            for byte in answer.body:
                self.wfile.write(bytes([byte]))
                if server.is_over.wait(answer.seconds_between_bytes):
                    return

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class HTTPServer(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore connections that a client closes early, as some tests do."""

    httpd = HTTPServer(("127.0.0.1", 0), Handler)
    server = server_class(httpd.server_address[1])
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        httpd.shutdown()
        thread.join()
        httpd.server_close()
