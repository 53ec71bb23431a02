"""A process whose slots for completions are all taken still answers probes and pages."""

import select

import pytest
from django.urls import reverse

from billing.models import Account, Hold
from completions.models import Completion
from keys import lifecycle
from tests import factories
from tests.completions.routes import let_providers_cancel
from tests.faults import fault
from tests.live.gateway import answer, eventually, head, read_until, wait_until_settled
from tests.upstream import whole

SLOTS = 18  # of 20 connections


@pytest.fixture
def narrow(transactional_db, gateways):
    return gateways(GATEWAY_WORKER_CONNECTIONS="20", GATEWAY_KEY_REQUESTS_IN_FLIGHT="3")


@fault(
    "Web process",
    "Streams take all slots of a process",
    "Further completions get 503 with `Retry-After`; probes and pages are served. Ended streams free their slots",
)
def test_a_process_full_of_completions_answers_probes_and_pages_and_frees_its_slots(narrow, alice, echo_model):
    """The streams of one key leave in silence: demo/echo waits a minute before its first word."""
    let_providers_cancel()
    secret = factories.make_key(alice, requests_in_flight_max=SLOTS + 1)[1]
    streams = [narrow.open_stream(secret, echo={"delay_seconds": 60}) for _ in range(SLOTS)]
    assert all(b" 200 " in read_until(stream, b"\r\n") for stream in streams)
    before = list(Account.objects.values())
    refused = narrow.ask(secret, stream=True)
    assert (refused.status, refused.json()["error"]["code"]) == (503, "service_unavailable")
    assert refused.headers["retry-after"] == "2"
    assert (list(Account.objects.values()), Hold.objects.count()) == (before, SLOTS)
    for path in ("/healthz", "/readyz", reverse("account_login"), "/v1/models"):
        assert narrow.request("GET", path, secret=secret).status == 200, path
    for stream in streams:
        stream.close()
    wait_until_settled(alice)
    assert set(Completion.objects.values_list("settlement", flat=True)) == {"partial"}
    eventually(lambda: narrow.ask(secret).status == 200)


@pytest.mark.parametrize("lines", [[], ["Idempotency-Key: once"]])
@pytest.mark.parametrize("is_revoked", [True, False])
def test_bodies_that_one_key_half_sends_leave_slots_to_others(narrow, alice, bob, echo_model, is_revoked, lines):
    key, secret = factories.make_key(alice)
    if is_revoked:
        lifecycle.revoke_key(key)
    half_sent = [narrow.dial() for _ in range(SLOTS + 1)]
    for client in half_sent:
        client.sendall(head(secret, "Content-Length: 500", *lines) + b"{")
    taken_max = 6 if lines else 3
    refused = []
    eventually(lambda: len(refused.extend(readable(set(half_sent) - set(refused))) or refused) >= len(half_sent) - taken_max)
    assert {answer(client).status for client in refused} == {401 if is_revoked else 429}
    factories.credit(bob, 100)
    assert narrow.ask(factories.make_key(bob)[1]).status == 200
    wait_until_settled(bob)
    for client in half_sent:
        client.close()


UNREAD_CHARACTERS = 8_000_000  # more than the buffers of both sockets take


@fault(
    "Client",
    "A client does not read a large whole reply",
    "It is charged. Until it is sent or the client leaves, it is one of the key's requests in flight",
)
def test_a_large_reply_that_is_not_read_keeps_its_slot_until_its_client_leaves(gateway, large, upstream, alice):
    secret = factories.make_key(alice, requests_in_flight_max=1)[1]
    upstream.will(whole("x" * UNREAD_CHARACTERS), whole())
    body = b'{"model": "acme/large", "messages": [{"role": "user", "content": "Hi"}]}'
    [client] = gateway.ask_at_once(secret, body, 1)
    eventually(lambda: Completion.objects.filter(settlement="reported").exists())
    wait_until_settled(alice)
    assert gateway.ask(secret, model="acme/large").json()["error"]["code"] == "rate_limit_exceeded"
    client.close()
    eventually(lambda: gateway.ask(secret, model="acme/large").status == 200)
    wait_until_settled(alice)


def readable(clients):
    return select.select(list(clients), [], [], 0)[0]
