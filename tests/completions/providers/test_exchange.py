"""Connections to upstreams: each response belongs to its request, reads are bounded, and the pool loses no connection."""

import socket
import threading
import time
import traceback
from types import SimpleNamespace
from typing import Any, cast

import gevent
import pytest

from completions.providers import exchange
from gateway_project.net import http
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, events, text
from tests.upstream import DONE, FINISH, HANG, ROLE, reply, streamed, usage, whole, words
from tests.upstream import stream as spoken

EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
DEADLINES = SimpleNamespace(connect_seconds=5, first_byte_seconds=5, idle_seconds=5, total_seconds=5)


def asked(url, body=b"{}", seconds=5.0):
    return http.post(url, headers={}, body=body, deadlines=DEADLINES, until=time.monotonic() + seconds)


# --- Interim and second responses -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("large")
def test_an_interim_response_is_skipped(api, alice, upstream):
    upstream.will([EARLY_HINTS, 0.05, EARLY_HINTS, *whole("Hello you")])
    assert ask(api).json()["choices"][0]["message"]["content"] == "Hello you"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.usefixtures("large")
def test_an_interim_response_before_a_stream_is_skipped(api, alice, upstream):
    upstream.will([EARLY_HINTS, *spoken(0.05, ROLE, 0.05, words("Hello you"), 0.05, FINISH, usage(), DONE)])
    assert text(events(ask_streamed(api))) == "Hello you"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_connection_stays_reserved_after_an_interim_response(upstream):
    upstream.will([EARLY_HINTS, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", HANG], whole())
    first = asked(upstream.url)
    second = asked(upstream.url)
    assert b"Hello you" in second.read_all()
    assert [received.connection for received in upstream.requests] == [1, 2]
    first.close()


@pytest.mark.usefixtures("large")
def test_a_second_response_is_dropped_with_its_connection(api, alice, upstream):
    upstream.will([whole("Hello you")[0] + whole("Hello somebody else")[0]], whole("Hello again"))
    assert ask(api).json()["choices"][0]["message"]["content"] == "Hello you"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert ask(api).json()["choices"][0]["message"]["content"] == "Hello again"
    assert [received.connection for received in upstream.requests] == [1, 2]


def test_a_connection_is_reused(upstream):
    upstream.will(whole(), streamed(), whole())
    for _ in range(3):
        asked(upstream.url).read_all()
    assert [received.connection for received in upstream.requests] == [1, 1, 1]


def test_a_connection_with_connection_close_is_not_reused(upstream):
    upstream.will(reply(b"{}", Connection="close"))
    for _ in range(2):
        asked(upstream.url).read_all()
    assert [received.connection for received in upstream.requests] == [1, 2]


@pytest.mark.parametrize("meanwhile", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"], ids=["closed", "spoken on"])
def test_an_idle_connection_that_became_readable_is_not_reused(meanwhile):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        threading.Thread(target=_answer_each_on_its_own, args=(listener, meanwhile)).start()
        for _ in range(2):
            assert asked(url).read_all() == b"{}"
            time.sleep(0.1)  # the bytes sent meanwhile have arrived


def _answer_each_on_its_own(listener, meanwhile):
    for _ in range(2):
        with listener.accept()[0] as connection:
            connection.recv(65_536)
            connection.sendall(reply(b"{}")[0])
            time.sleep(0.05)
            connection.sendall(meanwhile)


def test_a_response_sent_before_the_whole_request_is_read():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        threading.Thread(target=_refuse_early, args=(listener,)).start()
        assert asked(url, body=b"a" * 20_000_000).status == 413


def _refuse_early(listener):
    with listener.accept()[0] as connection:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)


# --- Bounds -----------------------------------------------------------------------------------------------------------

HEADS = {
    "one long header": b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 70_000,
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X-One-Of-Many: of them\r\n" * 4_000,
    "in replies before the reply": EARLY_HINTS * 5_000,
    "in replies without headers": b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
}


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_an_endless_head_is_read_to_a_bound(api, alice, upstream, head):
    upstream.will([head, HANG])
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert upstream.requests[0].disconnected.wait(5)
    assert_released(alice)


class Torrent:
    """A response that always has more to read."""

    idle_seconds = 5

    def read_some(self, timeout_seconds):
        return b": comment\n\n"


def test_a_stream_that_never_pauses_yields_to_other_greenlets():
    turns = []
    gevent.spawn(turns.append, "other")
    arrivals, deadline = exchange.reads(cast(Any, Torrent())), time.monotonic() + 5
    while not turns and time.monotonic() < deadline:
        next(arrivals)
    assert turns == ["other"]


# --- The pool ---------------------------------------------------------------------------------------------------------


def test_a_timeout_while_sending_returns_the_connection_to_the_pool(settings):
    settings.UPSTREAM_CONNECTIONS_MAX = 1
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(http.TimedOut):
            asked(url, body=b"a" * 20_000_000, seconds=0.2)  # more than the socket buffers hold, and the peer does not read
        threading.Thread(target=_answer_the_second, args=(listener,)).start()
        assert asked(url).read_all() == b"{}"


def test_a_timeout_waiting_for_a_connection_sends_nothing(settings, upstream):
    settings.UPSTREAM_CONNECTIONS_MAX = 1
    upstream.will([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", HANG])
    first = asked(upstream.url)
    with pytest.raises(http.ConnectFailed, match="no connection in time"):
        asked(upstream.url, seconds=0.2)
    first.close()
    assert len(upstream.requests) == 1


def test_an_api_key_with_invalid_characters_is_not_shown_in_errors(upstream):
    with pytest.raises(http.ConnectFailed) as failed:
        http.post(
            upstream.url,
            headers={"Authorization": "Bearer sk-secret\n"},
            body=b"{}",
            deadlines=DEADLINES,
            until=time.monotonic() + 5,
        )
    assert "secret" not in "".join(traceback.format_exception(failed.value))
    assert upstream.requests == []


def _answer_the_second(listener):
    with listener.accept()[0], listener.accept()[0] as second:
        second.recv(65_536)
        second.sendall(reply(b"{}")[0])
