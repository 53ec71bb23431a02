"""The pool of upstream connections: each response belongs to its request, and no connection is lost."""

import errno
import socket
import threading
import time
import traceback

import pytest
from geventhttpclient.connectionpool import ConnectionPool

from gateway_project.net import geventhttp, http
from tests.gateway_project.net.requests import DEADLINES, post
from tests.upstream import EARLY_HINTS, HANG, reply, streamed, upstream, whole

__all__ = ["upstream"]


def test_a_connection_stays_reserved_after_an_interim_response(upstream):
    upstream.will([EARLY_HINTS, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", HANG], whole())
    first = post(upstream.url)
    second = post(upstream.url)
    assert b"Hello you" in second.read_all()
    assert [received.connection for received in upstream.requests] == [1, 2]
    first.close()


def test_a_connection_is_reused(upstream):
    upstream.will(whole(), streamed(), whole())
    for _ in range(3):
        post(upstream.url).read_all()
    assert [received.connection for received in upstream.requests] == [1, 1, 1]


def test_a_connection_with_connection_close_is_not_reused(upstream):
    upstream.will(reply(b"{}", Connection="close"))
    for _ in range(2):
        post(upstream.url).read_all()
    assert [received.connection for received in upstream.requests] == [1, 2]


@pytest.mark.parametrize("meanwhile", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"], ids=["closed", "sent more"])
def test_an_idle_connection_that_became_readable_is_not_reused(meanwhile):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        has_read, has_ended = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=_reply_on_two_connections, args=(listener, meanwhile, has_read, has_ended)).start()
        for _ in range(2):
            assert post(url).read_all() == b"{}"
            has_read.release()
            assert has_ended.acquire(timeout=60)


def _reply_on_two_connections(listener, meanwhile, has_read, has_ended):
    for _ in range(2):
        with listener.accept()[0] as connection:
            connection.recv(65_536)
            connection.sendall(reply(b"{}")[0])
            assert has_read.acquire(timeout=60)
            connection.sendall(meanwhile)
        has_ended.release()


def test_a_response_sent_before_the_whole_request_is_read():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        threading.Thread(target=_refuse_early, args=(listener,)).start()
        assert post(url, body=b"a" * 20_000_000).status == 413


def _refuse_early(listener):
    with listener.accept()[0] as connection:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)


def test_a_timeout_while_sending_returns_the_connection_to_the_pool(settings):
    settings.UPSTREAM_CONNECTIONS_MAX = 1
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(http.NotSent):
            post(url, body=b"a" * 20_000_000, seconds=0.2)  # more than the socket buffers hold, and the peer does not read
        threading.Thread(target=_reply_on_the_second_connection, args=(listener,)).start()
        assert post(url).read_all() == b"{}"


def test_a_timeout_waiting_for_a_connection_sends_nothing(settings, upstream):
    settings.UPSTREAM_CONNECTIONS_MAX = 1
    upstream.will([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", HANG])
    first = post(upstream.url)
    with pytest.raises(http.LocalFault, match="no connection in time: all 1 are in use"):
        post(upstream.url, seconds=0.2)
    first.close()
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (errno.EHOSTUNREACH, http.ConnectFailed),  # a server of one's own network that is switched off
        (errno.ECONNREFUSED, http.ConnectFailed),
        (errno.ENETUNREACH, http.LocalFault),
        (errno.EMFILE, http.LocalFault),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else value.__name__,
)
def test_an_error_of_connecting_is_this_hosts_or_it_is_not(monkeypatch, settings, upstream, number, fault):
    def connect(pool, *address):
        raise OSError(number, "as connect() says")

    settings.UPSTREAM_CONNECTIONS_MAX = 1
    monkeypatch.setattr(ConnectionPool, "_connect_socket", connect)
    with pytest.raises(http.ConnectFailed) as raised:
        post(upstream.url)
    assert type(raised.value) is fault


def test_an_api_key_with_invalid_characters_is_not_shown_in_errors(upstream):
    headers = {"Authorization": "Bearer sk-secret\n"}
    with pytest.raises(http.ConnectFailed) as failed:
        http.send(upstream.url, headers=headers, body=b"{}", deadlines=DEADLINES)
    assert "secret" not in "".join(traceback.format_exception(failed.value))
    assert upstream.requests == []


def _reply_on_the_second_connection(listener):
    with listener.accept()[0], listener.accept()[0] as second:
        second.recv(65_536)
        second.sendall(reply(b"{}")[0])


# --- What is a response, as the parsers of Node (llhttp) and h11 are tested ------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 2\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
RESPONSES = {
    "a length": (OK + LENGTH + b"\r\nhi", (200, b"hi", True)),
    "a length of nothing": (OK + b"Content-Length: 0\r\n\r\n", (200, b"", True)),
    "chunks": (OK + CHUNKED + b"\r\n1\r\nh\r\n01\r\ni\r\n0\r\n\r\n", (200, b"hi", True)),
    "chunk extensions": (OK + CHUNKED + b'\r\n2;a=b;c="d\\";e"\r\nhi\r\n0;f\r\n\r\n', (200, b"hi", True)),
    "trailers": (OK + CHUNKED + b"\r\n2\r\nhi\r\n0\r\nX-Tried: 2\r\nX-Other: 3\r\n\r\n", (200, b"hi", True)),
    "interim responses": (b"HTTP/1.1 100 Continue\r\n\r\n" + EARLY_HINTS + OK + LENGTH + b"\r\nhi", (200, b"hi", True)),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True)),
    "no reason": (b"HTTP/1.1 200\r\n" + LENGTH + b"\r\nhi", (200, b"hi", True)),
    "an empty value": (OK + b"X-Empty:\r\nX-Blank: \t\r\n" + LENGTH + b"\r\nhi", (200, b"hi", True)),
    "until the end": (OK + b"\r\nhi", (200, b"hi", False)),
    "an old version": (b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\nhi", (200, b"hi", False)),
    "to be closed": (OK + LENGTH + b"Connection: close\r\n\r\nhi", (200, b"hi", False)),
    "a folded line": (OK + b"X-A: b\r\n c\r\n" + LENGTH + b"\r\nhi", None),
    "both lengths": (OK + LENGTH + CHUNKED + b"\r\n2\r\nhi\r\n0\r\n\r\n", None),
    "two lengths": (OK + LENGTH + b"Content-Length: 1\r\n\r\nhi", None),
    "a negative length": (OK + b"Content-Length: -2\r\n\r\nhi", None),
    "a length that is none": (OK + b"Content-Length: 2x\r\n\r\nhi", None),
    "a chunk size that is none": (OK + CHUNKED + b"\r\n0x2\r\nhi\r\n0\r\n\r\n", None),
    "a chunk size of many digits": (OK + CHUNKED + b"\r\n" + b"f" * 20 + b"\r\nhi\r\n0\r\n\r\n", None),
    "a chunk longer than its size": (OK + CHUNKED + b"\r\n1\r\nhi\r\n0\r\n\r\n", None),
    "a space before the colon": (OK + b"X-A : b\r\n" + LENGTH + b"\r\nhi", None),
    "a line without a colon": (OK + b"X-A\r\n" + LENGTH + b"\r\nhi", None),
    "a null byte": (OK + b"X-A: b\x00\r\n" + LENGTH + b"\r\nhi", None),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", None),
    "an end in the head": (OK + LENGTH, None),
    "an end in the body": (OK + LENGTH + b"\r\nh", None),
    "an end in a chunk": (OK + CHUNKED + b"\r\n2\r\nh", None),
    "an end before the last chunk": (OK + CHUNKED + b"\r\n2\r\nhi\r\n", None),
    "an end in the trailers": (OK + CHUNKED + b"\r\n2\r\nhi\r\n0\r\nX-A: b\r\n", None),
    "an end after an interim response": (EARLY_HINTS, None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize(("sent", "expected"), RESPONSES.values(), ids=RESPONSES)
@pytest.mark.parametrize("piece_bytes", [1, 7, 65_536])
def test_a_response_is_read_however_it_is_cut_or_refused(sent, expected, piece_bytes):
    ours, theirs = socket.socketpair()
    pool = ConnectionPool("127.0.0.1", 1, "127.0.0.1", 1, size=1)
    connection = _Pieces(ours, piece_bytes)
    with theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        pool._semaphore.acquire()  # as the pool has lent the connection
        response = geventhttp.Response(connection, pool)
        awaited = http.AwaitedResponse(response, time.monotonic() + 60, time.monotonic() + 60, 60)
        try:
            arrived = awaited.wait()
            outcome = arrived.status, arrived.read_all(), bool(pool._socket_queue.qsize())
            assert arrived.header("content-length") in ("", "0", "2")
            assert arrived.header("x-tried") == ""  # a trailer is no header
        except http.ConnectionBroken:
            outcome = None
    awaited.close()
    connection.close()
    assert outcome == expected


@pytest.mark.parametrize("behind", [b" more", OK + LENGTH + b"\r\nho"], ids=["more bytes", "a second response"])
def test_a_connection_with_more_than_its_response_is_not_reused(upstream, behind):
    upstream.will([OK + LENGTH + b"\r\nhi" + behind], whole())
    assert post(upstream.url).read_all() == b"hi"
    post(upstream.url).read_all()
    assert [received.connection for received in upstream.requests] == [1, 2]


class _Pieces:
    """A connection of which no more than so many bytes are received at once."""

    def __init__(self, connection, piece_bytes):
        self._sock, self._piece_bytes = connection, piece_bytes

    def recv(self, count):
        return self._sock.recv(min(count, self._piece_bytes))

    def close(self):
        self._sock.close()
