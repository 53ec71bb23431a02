"""What replaces attributes of gunicorn does as they do."""

from types import SimpleNamespace

import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.message import HeaderPolicy
from gunicorn.http.wsgi import Response

from gateway_project.speedups import gunicorn


@pytest.mark.parametrize("allowed", ["127.0.0.1", "10.0.0.0/8,::1", "*", ""])
def test_a_peer_is_trusted_as_by_gunicorn_each_time(allowed):
    cfg = Config()
    cfg.set("forwarded_allow_ips", allowed)
    for address in [("127.0.0.1", 1), ("10.1.2.3", 1), ("::1", 1, 0, 0), ("nowhere", 1), "", b"", ("10.1.2.3", 2)]:
        request = SimpleNamespace(cfg=cfg, peer_addr=address)
        expected = HeaderPolicy._peer_is_trusted_proxy(request)
        assert gunicorn.peer_is_trusted_proxy(request) == expected, address


def test_each_request_has_an_environ_of_its_own():
    cfg = Config()
    first, second = gunicorn.base_environ(cfg), gunicorn.base_environ(cfg)
    first["HTTP_X_SECRET"] = "of the first"
    assert second.keys() == wsgi.base_environ(cfg).keys()
    assert {name: value for name, value in second.items() if name != "wsgi.errors"} == {
        name: value for name, value in wsgi.base_environ(cfg).items() if name != "wsgi.errors"
    }


def test_each_setting_has_the_value_that_gunicorn_returns():
    ours, expected = Config(), Config()
    asked = [name for name in expected.settings if not hasattr(Config, name)]  # others are properties
    assert len(asked) > 50
    for name in asked:
        assert gunicorn.get_setting(ours, name) == vars(ours)[name] == getattr(expected, name), name
    with pytest.raises(AttributeError):
        gunicorn.get_setting(ours, "no_such_setting")


@pytest.mark.parametrize("name", ["Connection", "keep-alive", "TE", "Content-Type", "Server", "date", "x-request-id", ""])
def test_a_header_is_hop_by_hop_as_for_gunicorn(name):
    assert gunicorn.is_hoppish(name) == gunicorn.is_hoppish(name) == util.is_hoppish(name)


def test_a_part_of_a_request_is_read_as_by_gunicorn():
    every_byte = bytes(range(256))
    assert gunicorn.read_latin_1(every_byte) == util.bytes_to_str(every_byte)


# --- Sending ---


class Connection:
    """A socket that keeps what it is given."""

    def __init__(self) -> None:
        self.calls = []

    def sendall(self, data: bytes) -> None:
        self.calls.append(bytes(data))


def answer(method: str, parts: list[bytes], headers: list[tuple[str, str]], *, is_ours: bool) -> list[bytes]:
    """Return what gunicorn sends for a reply of these parts, by its own functions or by ours."""
    write = gunicorn.write if is_ours else Response.write
    request = SimpleNamespace(method=method, version=(1, 1), should_close=lambda: False)
    connection = Connection()
    response = Response(request, connection, Config())
    response.start_response("200 OK", headers)
    for part in parts:
        write(response, part)
    response.close()
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
