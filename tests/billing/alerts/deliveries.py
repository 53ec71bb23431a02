"""What deliveries of webhooks are tested with."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network

import pytest
from django.test import RequestFactory


class Receiver:
    """An HTTP server on loopback that answers with ``statuses``, one by one, and the last one from then on."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook?of=ours"
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.statuses = [204]
        self.answers = threading.Event()
        self.answers.set()

    @property
    def bodies(self) -> list[dict]:
        return [json.loads(body) for _, _, body in self.received]


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            here.received.append((self.path, headers, self.rfile.read(int(headers["content-length"]))))
            here.answers.wait(300)
            status = here.statuses.pop(0) if len(here.statuses) > 1 else here.statuses[0]
            self.send_response(status)
            self.send_header("Location", here.url)
            self.end_headers()

        def log_message(self, *args) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Receiver(server.server_port)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield here
    finally:
        here.answers.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def receiver():
    with receiving() as here:
        yield here


@pytest.fixture
def sends_here(settings):
    settings.GATEWAY_DEVELOPMENT = True  # where http to this machine is permitted
    settings.PRIVATE_WEBHOOKS = [ip_network("127.0.0.0/8")]
    settings.SENDS_MAIL = True


@pytest.fixture
def request_of_owner(alice):
    request = RequestFactory().get("/")
    request.user = alice.members.get()
    return request
