"""A client that sends many requests at once, or does not read its reply, does not keep others from being served."""

import select

import pytest

from tests import factories, waiting
from tests.faults import fault

PIPELINED = 3_000
ASK = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def secret(alice):
    return factories.make_key(alice)[1]


@fault(
    "Client",
    "A client sends thousands of requests at once on one connection",
    "They take turns with the requests of others",
)
def test_pipelined_requests_take_turns_with_those_of_others(gateway, secret, echo_model):
    with gateway.dial() as client:
        client.sendall(ASK * PIPELINED)
        client.setblocking(False)
        assert gateway.ask(secret).status == 200
        replies = client.recv(1_000_000).count(b"HTTP/1.1 200")
        assert 0 < replies < PIPELINED / 2  # the other was served meanwhile
        replies = 1
        while replies < 20:  # and its own are served, too
            assert select.select([client], [], [], waiting.PROCESS_SECONDS_MAX)[0]
            replies += client.recv(1_000_000).count(b"HTTP/1.1 200")


def test_a_head_of_more_than_a_quarter_of_a_megabyte_is_refused(gateway):
    with gateway.dial() as client:
        fields = b"".join(b"x-field-%d: %s\r\n" % (number, b"a" * 4_000) for number in range(70))
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + fields + b"\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 431 ")
