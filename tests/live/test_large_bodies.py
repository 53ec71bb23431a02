"""Large bodies on a real server: refused before they are sent, discarded after the reply, received as they come."""

import gzip
import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from billing.models import Hold
from completions.models import Completion
from keys import lifecycle
from keys.spending_limit import SpendingLimit
from tests import factories, waiting
from tests.live.conftest import REQUEST_BYTES_MAX
from tests.live.gateway import Answer, answer, eventually, head, read_all, read_until, wait_until_settled

LENGTH = 90_000  # above 64 KB, and below the bound of the gateway under test


@pytest.fixture
def key(alice):
    return factories.make_key(alice)


@pytest.fixture
def secret(key):
    return key[1]


def refuse_revoked(key, alice) -> int:
    lifecycle.revoke_key(key[0])
    return 401


def refuse_broke(key, alice) -> int:
    lifecycle.set_spending_limit(key[0], SpendingLimit(0, "FIXED"))
    return 402


@pytest.mark.parametrize("arrange", [refuse_revoked, refuse_broke])
def test_a_refusal_comes_before_the_body_is_sent(gateway, key, alice, echo_model, arrange):
    status = arrange(key, alice)
    with gateway.dial() as client:
        client.sendall(head(key[1], f"Content-Length: {LENGTH}"))
        assert answer(client).status == status
    assert not Completion.objects.exists()
    assert not Hold.objects.exists()


def keep_alive(secret: str, body: bytes) -> bytes:
    return head(secret, f"Content-Length: {len(body)}").replace(b"Connection: close\r\n", b"") + body


def read_answer(client) -> Answer:
    """Read one reply with a Content-Length from a connection that stays open."""
    received = read_until(client, b"\r\n\r\n")
    start, _, body = received.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in start.decode().lower().split("\r\n")[1:])
    while len(body) < int(headers["content-length"]):
        body += client.recv(65_536)
    return Answer(int(start[9:12]), headers, body)


def test_a_connection_is_used_again_after_a_body_that_nobody_read(gateway, key, alice, echo_model):
    _, other = factories.make_key(alice, name="other")
    lifecycle.revoke_key(key[0])
    with gateway.dial() as client:
        for _ in range(2):
            client.sendall(keep_alive(key[1], b"{" * LENGTH))
            assert read_answer(client).status == 401
        client.sendall(keep_alive(other, b'{"model": "demo/echo", "messages": [{"role": "user", "content": "one two"}]}'))
        assert read_answer(client).json()["choices"][0]["message"]["content"] == "one two"
    wait_until_settled(alice)


def test_a_connection_is_closed_if_the_rest_of_a_refused_body_does_not_come(impatient, key):
    lifecycle.revoke_key(key[0])
    with impatient.dial() as client:
        client.sendall(keep_alive(key[1], b"{" * LENGTH)[:-1])
        assert read_answer(client).status == 401
        assert client.recv(1) == b""


# The gateway holds three of its largest bodies.


@contextmanager
def announced(gateway, secret: str, count: int, *, sent_bytes: int) -> Iterator[list[socket.socket]]:
    """Send the head of the largest body and so many bytes of it, on each of so many connections.

    At the end, wait until the gateway has noticed that they are closed: then it has room again.
    """
    since = len(gateway.log())
    with ExitStack() as connections:
        clients = [connections.enter_context(gateway.dial()) for _ in range(count)]
        for client in clients:
            client.sendall(head(secret, f"Content-Length: {REQUEST_BYTES_MAX}") + b" " * sent_bytes)
        yield clients
    eventually(lambda: gateway.log()[since:].count(" POST /v1/chat/completions 4") >= count)


def test_bodies_that_are_announced_and_not_sent_leave_room_for_others(gateway, alice, bob, secret, echo_model):
    factories.credit(bob, 100)
    neighbour = factories.make_key(bob)[1]
    text = "x" * (REQUEST_BYTES_MAX - 1_000)
    with announced(gateway, secret, 6, sent_bytes=0):
        for _ in range(2):
            assert gateway.ask(neighbour, messages=[{"role": "user", "content": text}], max_tokens=1).status == 200
    wait_until_settled(bob)


def test_a_body_is_refused_while_it_arrives_when_its_account_has_no_room_for_more(gateway, alice, secret, echo_model):
    with announced(gateway, secret, 4, sent_bytes=REQUEST_BYTES_MAX - 1) as clients:
        refused = select.select(clients, [], [], waiting.PROCESS_SECONDS_MAX)[0]
        assert [answer(client).status for client in refused] == [429]
    assert not Completion.objects.exists()


def test_large_bodies_are_read_whole_and_the_next_request_after_them(gateway, secret, alice, echo_model):
    text = "x" * LENGTH
    large = json.dumps({"model": "demo/echo", "messages": [{"role": "user", "content": text}], "max_tokens": 1}).encode()
    small = b'{"model": "demo/echo", "messages": [{"role": "user", "content": "one two"}]}'
    with gateway.dial() as client:
        client.sendall(keep_alive(secret, large) + keep_alive(secret, small))
        assert read_answer(client).json()["choices"][0]["message"]["content"] == "x" * 16
        assert read_answer(client).json()["choices"][0]["message"]["content"] == "one two"
        client.sendall(keep_alive(secret, large)[:1_000])
        client.sendall(keep_alive(secret, large)[1_000:])
        assert read_answer(client).status == 200
    wait_until_settled(alice)
    assert Completion.objects.count() == 3


# --- In chunks ----------------------------------------------------------------------------------------------------------

CHUNKED = "Transfer-Encoding: chunked"
ASKED = b'{"model": "demo/echo", "messages": [{"role": "user", "content": "one two"}]}'


def kept_open(secret: str) -> bytes:
    return head(secret, CHUNKED).replace(b"Connection: close\r\n", b"")


def in_chunks(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_a_body_in_chunks_is_read_and_the_next_request_after_it(gateway, alice, secret, echo_model):
    kept = kept_open(secret)
    packed = head(secret, CHUNKED, "Content-Encoding: gzip")
    with gateway.dial() as client:
        client.sendall(kept + in_chunks(ASKED, 1) + kept + in_chunks(ASKED, 30) + packed + in_chunks(gzip.compress(ASKED), 20))
        replies = read_all(client)
    assert replies.count(b'"content":"one two"') == 3
    wait_until_settled(alice)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"zz\r\n", 400),
        (in_chunks(ASKED, 9).removesuffix(b"0\r\n\r\n") + b"9\r\n{", 400),
        (in_chunks(b" " * 20_001, 1), 400),
        (in_chunks(b" " * (REQUEST_BYTES_MAX + 1), 60_000), 413),
        (in_chunks(b"", 1), 400),
    ],
    ids=["no chunks", "cut off", "too many", "too large", "empty"],
)
def test_a_body_in_wrong_chunks_is_refused_and_its_connection_closed(gateway, secret, body, status):
    with gateway.dial() as client:
        client.sendall(kept_open(secret) + body)
        client.shutdown(socket.SHUT_WR)
        assert answer(client).status == status
    assert not Hold.objects.exists()


def test_a_body_in_chunks_without_an_end_is_not_read_for_a_caller_who_is_refused(gateway, alice):
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    with gateway.dial() as client:
        client.sendall(kept_open("mgw_live_wrong") + piece)
        assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 401 ")
        with suppress(ConnectionError):
            for _ in range(1_000):
                client.sendall(piece)
            pytest.fail("it reads without an end")
    assert not Hold.objects.exists()
