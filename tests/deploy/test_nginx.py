"""The file of nginx that ships: nginx accepts it, ends TLS with it, and sends no POST twice that a host may have taken."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests import waiting
from tests.deploy.proxy import NGINX, Proxy
from tests.gateway_project.local.launch import free_port

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK"


REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 2\r\nConnection: close\r\n"
TO_ANOTHER = b"X-Accel-Redirect: @another_host\r\n"


class Host:
    """A host of the gateway that answers each request with ``reply``, or closes the connection if there is none.

    One that is not ``ready`` says so at /readyz, and that it took nothing of a request that may go to another host.
    """

    def __init__(self, reply: bytes, *, ready: bool = True) -> None:
        self.reply, self.ready = reply, ready
        self.heads: list[str] = []  # of all but probes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client:
                    client.sendall(self._answer(client.recv(65_536).decode()))

    def _answer(self, request: str) -> bytes:
        if request.startswith("GET /readyz"):
            return REPLY if self.ready else REFUSAL + b"\r\nno"
        self.heads.append(request)
        if self.ready:
            return self.reply
        return REFUSAL + (TO_ANOTHER if "X-Gateway-Another-Host: 1" in request else b"") + b"\r\nno"

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def proxy(tmp_path) -> Proxy:
    return Proxy(tmp_path)


@pytest.fixture
def good() -> Iterator[Host]:
    with closing(Host(REPLY)) as host:
        yield host


@pytest.fixture
def sick() -> Iterator[Host]:
    with closing(Host(b"", ready=False)) as host:
        yield host


def ask(proxy: Proxy, method: str = "POST") -> tuple[int, str]:
    connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, context=proxy.trust, timeout=waiting.PROCESS_SECONDS_MAX)
    with closing(connection):
        connection.request(
            method, "/v1/chat/completions", b"{}" if method == "POST" else None, {"X-Forwarded-For": "203.0.113.7"}
        )
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def test_nginx_accepts_the_file(proxy):
    proxy.use([8_000, 8_001])
    done = proxy.run("-t")
    assert (done.returncode, "test is successful" in done.stderr, "warn" in done.stderr) == (0, True, False), done.stderr


def test_a_request_reaches_the_gateway_with_what_it_needs_to_know(proxy, good):
    proxy.use([good.port])
    with proxy.running():
        assert ask(proxy) == (200, "OK")
    [head] = good.heads
    lines = head.split("\r\n")
    assert {"Host: 127.0.0.1", "X-Forwarded-Proto: https", "X-Forwarded-For: 203.0.113.7, 127.0.0.1"} <= set(lines)
    assert not any(line.lower().startswith("connection:") for line in lines)


def test_a_post_goes_to_the_next_host_if_the_first_cannot_be_reached(proxy, good):
    proxy.use([free_port(), good.port])
    with proxy.running():
        assert [ask(proxy) for _ in range(4)] == [(200, "OK")] * 4
    assert len(good.heads) == 4


def test_a_post_that_was_sent_is_never_sent_again(proxy, good):
    with closing(Host(b"")) as ending:
        proxy.use([ending.port])
        with proxy.running():
            assert ask(proxy)[0] == 502
            proxy.use([ending.port, good.port])
            replies = [ask(proxy)[0] for _ in range(4)]
        # Each request was read by one host, and only those that the good one read have an answer.
        assert (len(ending.heads) + len(good.heads), replies.count(200)) == (5, len(good.heads))


def test_what_a_host_took_nothing_of_goes_to_one_that_is_ready_with_its_body(proxy, good, sick):
    proxy.use([sick.port, good.port])
    with proxy.running():
        assert [ask(proxy) for _ in range(6)] == [(200, "OK")] * 6
    assert len(sick.heads) > 0
    assert len(good.heads) == 6  # once each
    assert [head.partition("\r\n\r\n")[2] for head in good.heads] == ["{}"] * 6
    assert not any("X-Accel-Redirect" in head for head in good.heads)


@pytest.mark.parametrize("others", ["none", "sick", "unreachable"])
def test_when_no_host_is_ready_the_gateways_own_refusal_is_the_reply(proxy, sick, others):
    with closing(Host(b"", ready=False)) as second:
        ports = {"none": [], "sick": [second.port], "unreachable": [free_port()]}[others]
        proxy.use([sick.port, *ports])
        with proxy.running():
            assert [ask(proxy) for _ in range(4)] == [(503, "no")] * 4
        assert len(sick.heads + second.heads) <= 2 * 4  # no loop


def test_a_503_of_a_host_that_may_have_taken_something_is_the_reply(proxy, good):
    with closing(Host(REFUSAL + b"\r\nno")) as taking:
        proxy.use([taking.port, good.port])
        with proxy.running():
            replies = [ask(proxy) for _ in range(4)]
        assert len(taking.heads) + len(good.heads) == 4
        assert (replies.count((503, "no")), replies.count((200, "OK"))) == (len(taking.heads), len(good.heads))


def test_a_post_that_breaks_at_the_second_host_is_not_sent_again(proxy, sick):
    with closing(Host(b"")) as ending:
        proxy.use([sick.port, ending.port])
        with proxy.running():
            replies = [ask(proxy)[0] for _ in range(4)]
        assert set(replies) <= {502, 503}
        assert len(ending.heads) == replies.count(502)


def test_what_is_sent_without_tls_is_not_passed_on(proxy, good):
    proxy.use([good.port])
    with proxy.running(), closing(http.client.HTTPConnection("127.0.0.1", proxy.plain_port, timeout=60)) as connection:
        connection.request("POST", "/v1/chat/completions", b"{}", {"Authorization": "Bearer secret"})
        reply = connection.getresponse()
        assert (reply.status, reply.headers["Location"]) == (308, "https://127.0.0.1/v1/chat/completions")
    assert good.heads == []
