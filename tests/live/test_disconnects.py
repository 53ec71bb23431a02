"""Clients that disconnect while their upstream is still silent: WSGI does not report it, and the gateway detects it."""

import json
import threading

import pytest

from billing.models import Hold
from completions.models import Completion
from tests import factories
from tests.completions.routes import change_provider, let_providers_cancel
from tests.completions.rows import assert_charged
from tests.faults import fault
from tests.live.gateway import answer, eventually, head, wait_until_settled
from tests.upstream import HANG, refusal, streamed, whole


@pytest.fixture
def secret(alice):
    return factories.make_key(alice)[1]


def ask(gateway, secret, stream, *headers):
    """Send a request. Return its connection."""
    client = gateway.dial()
    fields = {"model": "acme/large", "messages": [{"role": "user", "content": "hello"}], "stream": stream, "max_tokens": 10}
    body = json.dumps(fields).encode()
    client.sendall(head(secret, f"Content-Length: {len(body)}", *headers) + body)
    return client


@fault(
    "Client",
    "A client leaves before its reply",
    "The reply is read to its end and charged as reported",
)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_request_left_before_its_reply_is_read_to_its_end_and_charged(gateway, upstream, large, alice, secret, is_streamed):
    gate = threading.Event()
    upstream.will([gate, *(streamed() if is_streamed else whole())])
    client = ask(gateway, secret, is_streamed)
    eventually(lambda: upstream.requests)
    client.close()
    gate.set()
    wait_until_settled(alice)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert not upstream.requests[0].disconnected.is_set()


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_request_left_at_a_cancelling_provider_ends_it_and_is_charged_for_the_prompt(
    gateway, upstream, large, alice, secret, is_streamed
):
    let_providers_cancel()
    upstream.will([HANG])
    client = ask(gateway, secret, is_streamed)
    eventually(lambda: upstream.requests)
    client.close()
    assert upstream.sees_disconnect()
    wait_until_settled(alice)
    assert_charged(alice, "partial", prompt=2, completion=0, nanos=2 * 3_000)
    eventually(lambda: gateway.answered("POST /v1/chat/completions 408"))


def test_the_504_of_a_late_stream_is_sent_and_its_connection_ended_before_it_is_read_on(
    gateway, upstream, large, alice, secret
):
    change_provider(large, first_byte_seconds=1)
    gate = threading.Event()
    upstream.will([gate, *streamed()])
    given_up = answer(ask(gateway, secret, True, "Idempotency-Key: once"))  # reads until the connection ends
    assert (given_up.status, given_up.json()["error"]["code"]) == (504, "upstream_error")
    assert Hold.objects.get(account=alice).state == Hold.State.HELD
    gate.set()
    wait_until_settled(alice)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


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
