"""Slow clients keep no database connections; malformed requests; a server that shuts down or is killed settles."""

import json
import select
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from billing.models import Hold, LedgerEntry
from completions import tasks
from completions.charging.recovery import checkpoints
from completions.models import Completion
from keys.models import RefusedRequest
from tests import factories
from tests.completions.admitted import admit
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.live.gateway import QUESTION, answer, eventually, head, read_all, read_until, wait_until_settled
from tests.upstream import HANG, ROLE, stream, words

pytestmark = pytest.mark.system

MORE_THAN_THE_POOL = 8  # clients; the gateway has 4 database connections


@pytest.fixture
def secret(alice):
    return factories.make_key(alice)[1]


@fault(
    "Client",
    "Clients do not read their replies",
    "They keep no database connection from others",
)
def test_a_client_that_does_not_read_keeps_no_database_connection(gateway, secret, echo_model):
    clients = [gateway.dial(receive_bytes=2_048) for _ in range(MORE_THAN_THE_POOL)]
    ask = head(secret, target="GET /v1/models").replace(b"Connection: close", b"Connection: keep-alive")
    unsent = {client: ask * 400 for client in clients}
    try:
        for client in clients:
            client.setblocking(False)
        while writable := select.select([], [client for client, rest in unsent.items() if rest], [], 0.5)[1]:
            for client in writable:
                unsent[client] = unsent[client][client.send(unsent[client]) :]
        # Neither side reads any more.
        assert gateway.ask(secret).status == 200
        assert gateway.request("GET", "/readyz").status == 200
    finally:
        for client in clients:
            client.close()


@fault(
    "Client",
    "Clients do not send their announced bodies",
    "They keep no database connection, and nothing is written",
)
def test_a_client_that_does_not_send_its_body_keeps_no_database_connection(gateway, alice, secret, echo_model):
    clients = []
    try:
        for number in range(MORE_THAN_THE_POOL):
            fresh = factories.make_key(alice, name=str(number))[1]
            client = gateway.dial()
            client.sendall(head(fresh, "Content-Length: 100") + b"{")
            clients.append(client)
        assert gateway.ask(secret).status == 200
        assert Completion.objects.count() == 1
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 9_000 + b"\r\n\r\n", 431),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: banana\r\n\r\n", 501),
        (b"get /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
    ],
    ids=["a long path", "a long header", "an unknown encoding", "a method in lower case", "nonsense"],
)
def test_a_malformed_http_request_is_refused_in_json(gateway, request_line, status):
    client = gateway.dial()
    client.sendall(request_line)
    head_lines, body = read_all(client).split(b"\r\n\r\n")
    client.close()
    assert head_lines.startswith(b"HTTP/1.1 %d " % status)
    assert b"x-request-id: req_" in head_lines
    assert set(json.loads(body)["error"]) == {"message", "type", "code", "param"}


def test_no_request_header_overrides_the_path(gateway):
    client = gateway.dial()
    client.sendall(b"GET /x/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nSCRIPT_NAME: /x\r\nConnection: close\r\n\r\n")
    assert b" 200 " not in read_all(client).split(b"\r\n")[0]
    client.close()


# --- Starts and ends. What a gateway does before it ends may take as long as a slow machine needs -------------------------

PATIENT = {"GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "300"}


@fault(
    "Worker",
    "No worker runs, and holds have expired",
    "The next web process that starts releases them",
)
def test_a_starting_server_releases_expired_holds(transactional_db, gateways, echo_model, alice):
    admitted = admit(factories.make_key(alice)[0])
    Hold.objects.update(expires_at=Now() - timedelta(seconds=1))
    gateways.start_anew(**PATIENT)
    eventually(lambda: Hold.objects.get(pk=admitted.completion.id).state == "EXPIRED")
    assert Completion.objects.get().settlement == "expired"
    alice.refresh_from_db()
    assert (alice.held_nanos, alice.last_seq) == (0, 1)
    assert_ledger_is_consistent()


@pytest.fixture
def acme(upstream):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url)
    factories.make_model("acme/large", provider=provider, input="3.00", output="15.00")


@fault(
    "Web process",
    "A gateway is killed while providers stream",
    "Its last checkpoint is charged within two minutes; the rest of the hold is released",
)
def test_text_relayed_by_a_killed_server_is_charged_and_the_rest_of_its_hold_released(
    transactional_db, gateways, alice, secret, upstream, acme
):
    upstream.will(stream(ROLE, words("Hello you"), HANG))
    gateway = gateways(**PATIENT)
    client = gateway.open_stream(secret, model="acme/large", max_tokens=10)
    read_until(client, b"Hello you")
    eventually(lambda: Completion.objects.get().relayed_bytes == len("Hello you"))
    gateway.kill()
    client.close()
    assert Hold.objects.get().state == "HELD"
    assert tasks.release_expired_holds() == 0  # not yet: the worker may only be slow
    Completion.objects.update(checkpointed_at=Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1))
    assert tasks.release_expired_holds() == 1
    done = Completion.objects.get()
    assert (done.settlement, done.completion_tokens) == ("recovered", 3)
    alice.refresh_from_db()
    assert (alice.held_nanos, alice.balance_nanos) == (0, 10_000_000_000 - done.cost_nanos)
    assert_ledger_is_consistent()


@fault(
    "Deployment",
    "A host is restarted while replies run",
    "Near the end of the grace period streams end with an error event, charged for the relayed text; missing whole"
    " replies get 503, free. Collected refusals are written",
)
def test_a_shutdown_ends_replies_and_settles_them(transactional_db, gateways, alice, secret, upstream, acme, echo_model):
    upstream.will(stream(ROLE, words("Hello you"), HANG), stream(ROLE, words("Hello you"), HANG), [HANG])
    gateway = gateways(**PATIENT)
    mark = len(gateway.log())
    streams = [gateway.open_stream(secret, model="acme/large", max_tokens=10) for _ in range(2)]
    for client in streams:
        read_until(client, b"Hello you")
    body = json.dumps({"model": "acme/large", "max_tokens": 10, "messages": QUESTION}).encode()
    [whole] = gateway.ask_at_once(secret, body, 1)
    eventually(lambda: len(upstream.requests) == 3)
    refused = gateway.ask(secret, model="demo/nobody")
    gateway.terminate()
    for client in streams:
        received = read_all(client)
        last = json.loads(received.split(b"data: ")[-1].split(b"\n\n")[0])
        assert last["error"]["code"] == "service_unavailable"
        assert b"[DONE]" not in received
        client.close()
    unfinished = answer(whole)
    assert (unfinished.status, unfinished.json()["error"]["code"]) == (503, "service_unavailable")
    gateway.stop()
    assert gateway._process.returncode == 0
    assert sorted(Completion.objects.values_list("settlement", flat=True)) == ["partial", "partial", "released"]
    assert sorted(Hold.objects.values_list("state", flat=True)) == ["RELEASED", "SETTLED", "SETTLED"]
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 2
    wait_until_settled(alice)
    assert refused.headers["x-request-id"] in RefusedRequest.objects.values_list("request_id", flat=True)
    assert "Traceback" not in gateway.log()[mark:]
