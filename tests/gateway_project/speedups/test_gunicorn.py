"""What replaces functions of gunicorn's on the way of every request does what they do."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.body import Body, LengthReader
from gunicorn.http.message import HeaderPolicy, Request
from gunicorn.http.parser import Parser
from gunicorn.http.unreader import IterUnreader, SocketUnreader

from gateway_project.speedups import gunicorn


@pytest.mark.parametrize("allowed", ["127.0.0.1", "10.0.0.0/8,::1", "*", ""])
def test_a_peer_is_trusted_as_by_gunicorn_each_time_that_it_asks(allowed):
    cfg = Config()
    cfg.set("forwarded_allow_ips", allowed)
    for address in [("127.0.0.1", 1), ("10.1.2.3", 1), ("::1", 1, 0, 0), ("nowhere", 1), "", b"", ("10.1.2.3", 2)]:
        request = SimpleNamespace(cfg=cfg, peer_addr=address)
        expected = HeaderPolicy._peer_is_trusted_proxy(request)
        assert gunicorn.peer_is_trusted_proxy(request) == expected, address


def test_a_date_is_written_as_by_gunicorn():
    for moment in (0.0, 1_700_000_000.2, 1_700_000_000.9, 1_700_000_001.0):
        assert gunicorn.http_date(moment) == util.http_date(moment)
    before, now, after = util.http_date(), gunicorn.http_date(), util.http_date()
    assert now in (before, after)


def test_each_request_has_an_environ_of_its_own():
    cfg = Config()
    first, second = gunicorn.base_environ(cfg), gunicorn.base_environ(cfg)
    first["HTTP_X_SECRET"] = "of the first"
    assert second.keys() == wsgi.base_environ(cfg).keys()
    assert {name: value for name, value in second.items() if name != "wsgi.errors"} == {
        name: value for name, value in wsgi.base_environ(cfg).items() if name != "wsgi.errors"
    }


@pytest.mark.parametrize(("length", "failed", "left"), [(5, False, 0), (5, False, 3), (5, True, 0), (0, False, 0)])
def test_what_was_not_read_of_a_body_is_discarded_as_by_gunicorn(length, failed, left):
    def outcome(finish_body):
        unreader = IterUnreader([b"abcdeGET /"])
        body = Body(LengthReader(unreader, length))
        body.read(length - left)
        body.failed = failed
        parser = SimpleNamespace(mesg=SimpleNamespace(body=body), unreader=unreader)
        return finish_body(parser), unreader.read(3)

    assert outcome(gunicorn.finish_body) == outcome(Parser.finish_body)


def test_before_the_first_request_there_is_no_body_to_discard():
    assert gunicorn.finish_body(SimpleNamespace(mesg=None)) is True


# --- Heads of requests ---

LINES = [
    b"POST /v1/chat/completions HTTP/1.1",
    b"GET /a%20b?c=d#e HTTP/1.0",
    b"OPTIONS * HTTP/1.1",
    b"GET http://host/path HTTP/1.1",
    b"get / HTTP/1.1",
    b"GET / HTTP/2.0",
    b"GET  / HTTP/1.1",
    b"GET /\xe9 HTTP/1.1",
    b"GET /",
    b"",
]
USUAL = [
    b"Host: example.org",
    b"Host:example.org",
    b"HOST: again",
    b"Content-Length: 12",
    b"content-length: 13",
    b"Content-Type:  application/json \t",
    b"Authorization: Bearer secret",
    b"X-Name: one",
    b"X-Name: two",
    b"X-Empty:",
    b"X-Tab: a\tb",
    b"X-Latin: \xe9\xa0",
    b"X-Forwarded-Proto: https",
]
UNUSUAL = [
    b"X-Forwarded-Proto: http",
    b"X-Forwarded-Ssl: on",
    b"Expect: 100-Continue",
    b"Expect: more",
    b"X_Under: score",
    b"X Space: x",
    b"X-Space : x",
    b": no name",
    b"no colon",
    b" folded",
    b"\tfolded",
    b"X-Null: a\0b",
    b"X-Return: a\rb",
    b"X-Feed: a\nb",
    b"X-Delete: a\x7fb",
    b"\xdf: sharp s",
    b"X-Long: " + b"x" * 5_000,
    b"",
]


def make_request(cfg: Config) -> Any:
    request = Request.__new__(Request)
    facts = {"cfg": cfg, "peer_addr": ("127.0.0.1", 1), "version": (1, 1), "scheme": "http", "_expected_100_continue": False}
    limits = {"limit_request_fields": 8, "limit_request_field_size": 4_094, "_policy_expect_continue": True}
    vars(request).update(facts | limits)
    return request


def outcome(parse: Any, request: Any, *args: Any) -> Any:
    """Return what the function returns, or the class and text of what it raises, and all that it has noted."""
    try:
        result = parse(request, *args)
    except Exception as error:
        return type(error), str(error)
    return result, {name: value for name, value in vars(request).items() if name != "cfg"}


@pytest.fixture
def cfg() -> Config:
    made = Config()
    made.set("forwarder_headers", "")
    return made


@pytest.mark.parametrize("line", LINES)
def test_a_request_line_is_parsed_as_by_gunicorn_each_time(cfg, line):
    parse = Request.parse_request_line
    for _ in range(2):
        assert outcome(gunicorn.parse_request_line, make_request(cfg), line) == outcome(parse, make_request(cfg), line)


def test_no_line_with_a_query_is_kept(cfg):
    gunicorn.parse_request_line(make_request(cfg), b"GET /callback?code=secret HTTP/1.1")
    gunicorn.parse_request_line(make_request(cfg), b"GET /callback HTTP/1.1")
    kept = b"".join(gunicorn._lines)
    assert b"/callback" in kept
    assert b"secret" not in kept


def parsed_alike(cfg: Config, lines: list[bytes], *, from_trailer: bool = False) -> bool:
    data = b"\r\n".join(lines)
    ours = outcome(gunicorn.parse_headers, make_request(cfg), data, from_trailer)
    return bool(ours == outcome(Request.parse_headers, make_request(cfg), data, from_trailer))


@pytest.mark.parametrize("trusted", ["127.0.0.1", "10.0.0.1"])
@pytest.mark.parametrize("line", USUAL + UNUSUAL)
def test_a_header_is_parsed_as_by_gunicorn(cfg, trusted, line):
    cfg.set("forwarded_allow_ips", trusted)
    for lines in ([line], [b"Host: example.org", line], [line, b"X-After: it"], [line, line]):
        assert parsed_alike(cfg, lines)
        assert parsed_alike(cfg, lines, from_trailer=True)


@pytest.mark.parametrize("trusted", ["127.0.0.1", "10.0.0.1"])
@pytest.mark.parametrize("kinds", [USUAL, USUAL + UNUSUAL])
def test_several_headers_are_parsed_as_by_gunicorn(cfg, trusted, kinds):
    cfg.set("forwarded_allow_ips", trusted)
    pick = random.Random(1)
    for _ in range(500):
        lines = pick.choices(kinds, k=pick.randint(2, 9))
        assert parsed_alike(cfg, lines), lines


def test_the_usual_headers_take_the_short_way(cfg, monkeypatch):
    monkeypatch.setattr(gunicorn, "_parse_headers", None)
    data = b"Host: example.org\r\nContent-Type: application/json\r\nContent-Length: 2\r\nAuthorization: Bearer secret"
    parsed = gunicorn.parse_headers(make_request(cfg), data)
    assert [name for name, _ in parsed] == ["HOST", "CONTENT-TYPE", "CONTENT-LENGTH", "AUTHORIZATION"]


@pytest.mark.parametrize("size_hint", [None, 0, 1, 8_193, 10_000_000])
def test_the_next_bytes_are_received_in_the_sizes_of_gunicorn(size_hint):
    class Connection:
        def recv(self, size: int) -> bytes:
            sizes.append(size)
            return b"x"

    sizes: list[int] = []
    for chunk in (gunicorn.chunk, SocketUnreader.chunk):
        assert chunk(SocketUnreader(Connection()), size_hint) == b"x"
    assert sizes[0] == sizes[1]


# --- Headers of replies ---

REPLIES: list[list[tuple[Any, Any]]] = [
    [("Content-Type", "application/json"), ("Content-Length", "12")],
    [("Content-Type", " padded\t"), ("X-Tab", "a\tb"), ("X-Latin", "\xe9")],
    [("content-length", "12"), ("Content-Length", "13")],
    [("Content-Length", "-1")],
    [("Content-Length", "x")],
    [("Connection", "close"), ("Keep-Alive", "5"), ("X-After", "hop-by-hop")],
    [("Connection", "upgrade"), ("Upgrade", "websocket")],
    [("X-Feed", "a\nb")],
    [("X Space", "x")],
    [("X-Unicode", "\u20ac")],
    [("X-Number", 1)],
    [(1, "x")],
    [],
]


def test_headers_of_a_reply_are_taken_over_as_by_gunicorn_each_time():
    def taken(process_headers: Any, headers: list[tuple[str, str]]) -> Any:
        response = SimpleNamespace(headers=[], response_length=None, upgrade=False)
        try:
            process_headers(response, headers)
        except Exception as error:
            return type(error), str(error)
        return vars(response)

    for _ in range(2):
        for headers in REPLIES:
            assert taken(gunicorn.process_headers, headers) == taken(wsgi.Response.process_headers, headers), headers
