"""Clients that disconnect while their upstream is still silent: WSGI does not report it, and the gateway detects it."""

import json

import pytest

from completions.models import Completion
from tests import factories
from tests.live.gateway import answer, eventually, head, wait_until_settled
from tests.upstream import HANG, refusal, stream, whole


@pytest.fixture
def secret(alice):
    return factories.make_key(alice)[1]


def ask(gateway, secret, stream):
    """Send a request. Return its connection."""
    client = gateway.dial()
    fields = {"model": "acme/large", "messages": [{"role": "user", "content": "hello"}], "stream": stream, "max_tokens": 10}
    body = json.dumps(fields).encode()
    client.sendall(head(secret, f"Content-Length: {len(body)}") + body)
    return client


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_disconnect_before_the_upstream_begins_frees_it_and_costs_nothing(
    gateway, upstream, large, alice, secret, is_streamed
):
    upstream.will([HANG])
    client = ask(gateway, secret, is_streamed)
    eventually(lambda: upstream.requests)
    client.close()
    assert upstream.sees_disconnect()
    wait_until_settled(alice)
    assert Completion.objects.get().settlement == "released"
    eventually(lambda: gateway.answered("POST /v1/chat/completions 408"))


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_disconnect_before_the_first_word_is_charged_for_the_prompt(gateway, upstream, large, alice, secret, is_streamed):
    upstream.will(stream(HANG) if is_streamed else [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", HANG])
    client = ask(gateway, secret, is_streamed)
    eventually(lambda: upstream.requests and upstream.requests[0].played)
    # The head is on its way to the gateway. A request sent now is answered after the gateway has read it.
    assert gateway.request("GET", "/healthz").status == 200
    client.close()
    assert upstream.sees_disconnect()
    wait_until_settled(alice)
    done = Completion.objects.get()
    assert (done.settlement, done.prompt_tokens, done.completion_tokens) == ("partial", 2, 0)


def test_a_waiting_client_is_served(gateway, upstream, large, alice, secret):
    """The client pipelines another request meanwhile, and another client connects and disconnects."""
    upstream.will(refusal(429, retry_after="1"), whole())
    client = ask(gateway, secret, stream=False)
    eventually(lambda: upstream.requests)
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    gateway.dial().close()
    assert answer(client).json()["choices"][0]["message"]["content"] == "Hello you"
    wait_until_settled(alice)
    assert Completion.objects.get().settlement == "reported"
