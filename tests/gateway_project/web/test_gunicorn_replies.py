"""How gunicorn sends replies. ``tests/live`` has the rest: it runs a server."""

import gevent
import pytest

from gateway_project.web import gunicorn_replies

LARGE = b"x" * 100_000


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(gunicorn_replies, "_SEND_SECONDS", 0.1)
    monkeypatch.setattr(gunicorn_replies, "_SENT_BYTES_PER_SECOND_MIN", 10_000_000)


def never_read(response, data):
    gevent.sleep(60)


def test_a_large_reply_that_its_client_does_not_read_ends_the_connection():
    with pytest.raises(ConnectionError, match="does not read"):
        gunicorn_replies._write_in_time(never_read)(None, LARGE)


@pytest.mark.parametrize("data", [LARGE, b"small"])
def test_a_reply_that_is_read_is_sent_as_before(data):
    sent = []
    gunicorn_replies._write_in_time(lambda response, written: sent.append((response, written)))("response", data)
    assert sent == [("response", data)]
