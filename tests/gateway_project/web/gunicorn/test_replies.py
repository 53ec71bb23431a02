"""How a worker sends replies, and errors. ``tests/live`` has the rest: it runs a server."""

from types import SimpleNamespace

import gevent
import pytest
from gunicorn.config import Config
from gunicorn.http.errors import InvalidRequestLine, LimitRequestHeaders, UnsupportedTransferCoding

from gateway_project.web.gunicorn import replies

LARGE = b"x" * 100_000


def make_reply(write):
    return SimpleNamespace(write=write, close=lambda: None)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(replies, "_SEND_SECONDS", 0.1)
    monkeypatch.setattr(replies, "_SENT_BYTES_PER_SECOND_MIN", 10_000_000)


def test_a_large_reply_that_its_client_does_not_read_ends_the_connection():
    with pytest.raises(ConnectionError, match="does not read"):
        replies._send(make_reply(lambda data: gevent.sleep(60)), [LARGE])


def test_a_reply_that_is_read_is_sent():
    sent = []
    replies._send(make_reply(sent.append), [b"small", LARGE])
    assert sent == [b"small", LARGE]


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (InvalidRequestLine(b"GET <b>"), "400 Bad Request", "Bad Request: Invalid Request Line"),
        (LimitRequestHeaders("too <many>"), "431 Request Header Fields Too Large", "Error parsing headers: 'too <many>'"),
        (UnsupportedTransferCoding("gzip"), "501 Bad Request", "Bad Request: Unsupported transfer coding: 'gzip'"),
        (ValueError("ours"), "500 Internal Server Error", "Internal Server Error"),
    ],
)
def test_an_error_has_the_status_and_the_words_of_gunicorn_in_json(error, status, text):
    sent = []
    worker = SimpleNamespace(log=None, cfg=Config())
    client = SimpleNamespace(gettimeout=lambda: 0.0, sendall=sent.append)
    replies.refuse(worker, None, client, ("127.0.0.1", 1), error)
    head, _, body = sent[0].decode().partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}\r\nConnection: close\r\n")
    assert text in body
    assert "<html>" not in body
