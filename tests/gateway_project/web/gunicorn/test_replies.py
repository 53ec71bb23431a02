"""How gunicorn sends replies. ``tests/live`` has the rest: it runs a server."""

from types import SimpleNamespace

import gevent
import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.http.wsgi import Response

from gateway_project.web.gunicorn import replies

LARGE = b"x" * 100_000


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(replies, "_SEND_SECONDS", 0.1)
    monkeypatch.setattr(replies, "_SENT_BYTES_PER_SECOND_MIN", 10_000_000)


def never_read(response, data):
    gevent.sleep(60)


def test_a_large_reply_that_its_client_does_not_read_ends_the_connection():
    with pytest.raises(ConnectionError, match="does not read"):
        replies._write_in_time(never_read)(None, LARGE)


def test_a_large_reply_that_is_read_is_sent_as_before():
    sent = []
    replies._write_in_time(lambda response, written: sent.append((response, written)))("response", LARGE)
    assert sent == [("response", LARGE)]


class Connection:
    """A socket that keeps what it is given."""

    def __init__(self) -> None:
        self.calls = []

    def sendall(self, data: bytes) -> None:
        self.calls.append(bytes(data))


def answer(method: str, parts: list[bytes], headers: list[tuple[str, str]], *, is_ours: bool) -> list[bytes]:
    """Return what gunicorn sends for a reply of these parts, by its own functions or by ours."""
    write, close = Response.write, Response.close
    if is_ours:
        write, close = replies._write_in_time(write), replies._close_at_once(close)
    request = SimpleNamespace(method=method, version=(1, 1), should_close=lambda: False)
    connection = Connection()
    response = Response(request, connection, Config())
    response.start_response("200 OK", headers)
    for part in parts:
        write(response, part)
    close(response)
    return connection.calls


LENGTH_5 = [("Content-Type", "text/plain"), ("Content-Length", "5")]
STREAM = [("Content-Type", "text/event-stream")]
REPLIES = [
    ("GET", [b"hello"], LENGTH_5),
    ("GET", [b"hel", b"lo"], LENGTH_5),
    ("GET", [b"hello", b"more than announced"], LENGTH_5),
    ("GET", [b"hello and more than announced"], LENGTH_5),
    ("HEAD", [b"hello"], LENGTH_5),
    ("GET", [b""], [("Content-Length", "0")]),
    ("GET", [b"data: 1\n\n", b"", b"data: 22222222222\n\n"], STREAM),
    ("GET", [], STREAM),
]


@pytest.mark.parametrize(("method", "parts", "headers"), REPLIES)
def test_a_small_reply_is_sent_as_gunicorn_sends_it(method, parts, headers, monkeypatch):
    monkeypatch.setattr(util, "http_date", lambda: "Mon, 23 Nov 2026 12:00:00 GMT")
    as_gunicorn = answer(method, parts, headers, is_ours=False)
    ours = answer(method, parts, headers, is_ours=True)
    assert b"".join(ours) == b"".join(as_gunicorn)
    assert len(ours) <= len(as_gunicorn)


def test_a_whole_reply_is_sent_with_its_head_and_a_stream_with_its_first_part():
    assert len(answer("GET", [b"hello"], LENGTH_5, is_ours=True)) == 1
    head_and_first, second, end = answer("GET", [b"data: 1\n\n", b"data: 2\n\n"], STREAM, is_ours=True)
    assert (head_and_first.startswith(b"HTTP/1.1 200 OK\r\n"), b"data: 1" in head_and_first) == (True, True)
    assert (second, end) == (b"9\r\ndata: 2\n\n\r\n", b"0\r\n\r\n")
