"""Tests that need a running server: concurrency, disconnects, endless bodies, addresses and the log."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from billing.models import LedgerEntry
from completions.models import Completion
from keys import lifecycle
from tests import factories
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import assert_charged
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.live.conftest import REQUEST_BYTES_MAX
from tests.live.gateway import QUESTION, eventually, head, read_all, read_until, wait_until_settled
from tests.upstream import DONE, FINISH, HANG, KEY, ROLE, refusal, stream, usage, words

pytestmark = pytest.mark.usefixtures("gateway", "echo_model")


@pytest.fixture
def secret(alice):
    return factories.make_key(alice, requests_in_flight_max=300)[1]


# --- Concurrency -----------------------------------------------------------------------------------------------


@fault(
    "Web process",
    "200 streams run at once with four database connections",
    "They hold none of them; other requests are served",
)
def test_200_streams_on_4_connections_leave_room_for_others(gateway, alice, secret, large, upstream):
    gate = threading.Event()
    upstream.will(stream(ROLE, gate, words("Hello you"), FINISH, usage(), DONE))
    clients = []
    try:
        for _ in range(8):  # not all at the same moment: another test does that
            opened = [gateway.open_stream(secret, model="acme/large", max_tokens=10) for _ in range(25)]
            clients += opened
            for client in opened:
                assert b"200 OK" in read_until(client, b'"role":"assistant"')
        assert alice.holds.filter(state="HELD").count() == 200  # all of them are running
        answer = gateway.ask(secret)
        assert (answer.status, answer.json()["choices"][0]["message"]["content"]) == (200, "one two three")
        assert gateway.request("GET", "/readyz").status == 200
        gate.set()
        assert [read_all(client).count(b"data: [DONE]\n\n") for client in clients] == [1] * 200
    finally:
        gate.set()
        for client in clients:
            client.close()
    wait_until_settled(alice)
    alice.refresh_from_db()
    assert alice.balance_nanos == 10_000_000_000 - 200 * 57_000 - 7_500
    assert set(Completion.objects.values_list("settlement", flat=True)) == {"reported"}
    assert LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT").count() == 201


def test_exactly_10_of_20_concurrent_requests_are_served_with_funds_for_10(gateway, bob):
    factories.make_model("demo/dear", input="0", output="100")  # a cent for 100 tokens
    factories.credit(bob, 10)
    secret = factories.make_key(bob)[1]
    fields = {"model": "demo/dear", "max_tokens": 100, "echo": {"reply": "word " * 200}}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: gateway.ask(secret, **fields), range(20)))
    statuses = [answer.status for answer in answers]
    assert statuses.count(200) == 10
    assert set(statuses) <= {200, 402, 429}
    wait_until_settled(bob)
    bob.refresh_from_db()
    assert bob.balance_nanos == 0
    balances = LedgerEntry.objects.filter(account=bob, type="USAGE_DEBIT").order_by("seq")
    assert [entry.balance_after_nanos for entry in balances] == [cents * 10_000_000 for cents in range(9, -1, -1)]
    assert gateway.ask(secret, **fields).status == 402


# --- Disconnects -------------------------------------------------------------------------------------------------


def test_a_disconnect_frees_the_upstream_and_is_charged_so_far(gateway, alice, secret, large, upstream):
    let_providers_cancel()
    upstream.will(stream(ROLE, words("Hello "), HANG))
    client = gateway.open_stream(secret, model="acme/large")
    assert b"200 OK" in read_until(client, b"Hello ")
    client.close()
    assert upstream.sees_disconnect()  # seen at a heartbeat
    wait_until_settled(alice)
    assert_charged(alice, "partial", prompt=4, completion=2, nanos=4 * 3_000 + 2 * 15_000)


@fault(
    "Client",
    "A client stops reading its stream",
    "The gateway reads on, and charges the whole stream before its hold expires",
)
def test_a_client_that_stops_reading_is_charged_before_its_hold_expires(impatient, alice, secret, large, upstream):
    upstream.will(stream(ROLE, *[words("x" * 100_000)] * 200))
    client = impatient.open_stream(secret, receive_bytes=4_096, model="acme/large")
    while b"200 OK" not in read_until(client, b"xxx"):  # on a slow machine, its time may be over before it begins
        client.close()
        client = impatient.open_stream(secret, receive_bytes=4_096, model="acme/large")
    with client:
        eventually(lambda: alice.completions.filter(settlement="partial").exists())
        client.recv(1)  # it is still connected
    wait_until_settled(alice)
    assert alice.entries.get(type="USAGE_DEBIT").metadata["completionTokens"] == 4_096  # max_tokens: far more was sent


# --- The ledger, over HTTP ---------------------------------------------------------------------------------------


def test_the_first_tiny_call_shows_a_cent_and_the_next_none(gateway, alice, secret):
    for _ in range(3):
        assert gateway.ask(secret).status == 200
    page = gateway.request("GET", "/api/billing/ledger?limit=100", secret=secret).json()
    shown = [(entry["type"], entry["amountInCents"], entry["balanceAfterInCents"]) for entry in page["entries"]]
    assert shown == [
        ("USAGE_DEBIT", 0, 999),
        ("USAGE_DEBIT", 0, 999),
        ("USAGE_DEBIT", -1, 999),
        ("SUPPORT_CREDIT", 1000, 1000),
    ]
    balance = gateway.request("GET", "/api/billing/balance", secret=secret).json()
    assert balance == {"balanceInCents": 999, "balanceInDollars": 9.99}
    costs = [Decimal(entry["metadata"]["costInDollars"]) for entry in page["entries"][:3]]
    alice.refresh_from_db()
    assert sum(costs) * 10**9 == 3 * 7_500 == 10_000_000_000 - alice.balance_nanos
    assert_ledger_is_consistent()


def test_a_revoked_key_is_refused_at_once_although_its_identity_is_cached(gateway, alice):
    key, secret = factories.make_key(alice)
    assert gateway.ask(secret).status == 200
    lifecycle.revoke_key(key)
    for answer in (gateway.ask(secret), gateway.ask(secret, stream=True), gateway.request("GET", "/v1/usage", secret=secret)):
        assert (answer.status, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert Completion.objects.count() == 1


# --- Bodies ------------------------------------------------------------------------------------------------------


def nothing_happened(alice):
    return not alice.holds.exists() and not alice.completions.exists() and alice.last_seq == 1


def test_a_body_over_the_limit_is_refused(gateway, alice, secret):
    answer = gateway.ask(secret, padding="x" * REQUEST_BYTES_MAX)
    assert (answer.status, answer.json()["error"]["code"]) == (413, "invalid_request_error")
    with gateway.dial() as client:  # and before it has been sent
        client.sendall(head(secret, "Content-Length: 90000000000"))
        assert read_all(client).startswith(b"HTTP/1.1 413 ")
    assert nothing_happened(alice)


@fault(
    "Client",
    "A client leaves in the middle of its request",
    "Nothing is written",
)
def test_a_disconnect_within_the_body_writes_nothing(gateway, alice, secret):
    since = len(gateway.log())
    with gateway.dial() as client:
        client.sendall(head(secret, "Content-Length: 1000") + b'{"model":"demo/echo",')
    eventually(lambda: "POST /v1/chat/completions 4" in gateway.log()[since:])
    assert gateway.request("GET", "/healthz").status == 200
    assert nothing_happened(alice)


# --- Addresses ---------------------------------------------------------------------------------------------------


ADDRESSES = {  # the statuses at the address of the API and at that of everything else
    "/v1/models": (200, 404),
    "/v1/usage": (200, 404),
    "/api/billing/balance": (404, 200),
    "/api/billing/ledger": (404, 200),
    "/healthz": (200, 200),
    "/readyz": (200, 200),
    "/nothing": (404, 404),
}


def test_each_path_is_served_at_its_own_address_only(gateways, secret):
    served = gateways(GATEWAY_API_HOST="api.example.org", GATEWAY_BASE_HOST="www.example.org")
    for path, (on_api, on_base) in ADDRESSES.items():
        elsewhere = 200 if path in ("/healthz", "/readyz") else 400
        expected = {
            "api.example.org": on_api,
            "API.example.org": on_api,
            "www.example.org": on_base,
            "evil.example.org": elsewhere,
        }
        found = {host: served.request("GET", path, secret=secret, Host=host).status for host in expected}
        assert found == expected, path


# --- What it logs ------------------------------------------------------------------------------------------------


def test_no_secret_is_in_the_log(gateway, alice, secret, large, upstream):
    upstream.will(refusal(401, f"Incorrect API key provided: {KEY}"), refusal(400, f"no, {KEY}"))
    assert gateway.ask(secret, model="acme/large").status == 502
    assert KEY.encode() not in gateway.ask(secret, model="acme/large").body
    assert gateway.ask(secret, messages=[{"role": "user", "content": "something private"}]).status == 200
    assert gateway.ask(secret[:-1] + ("1" if secret.endswith("0") else "0")).status == 401
    assert gateway.request("GET", f"/v1/usage?api_key={secret}", secret=secret).status == 200
    assert gateway.request("POST", "/v1/chat/completions", secret=secret, body=[QUESTION]).status == 400
    log = gateway.log()
    assert "POST /v1/chat/completions 502" in log
    hidden = [secret, secret[-20:], KEY, "something private"]
    hidden += [os.environ[name] for name in ("GATEWAY_KEY_PEPPERS", "GATEWAY_SECRET_KEY", "GATEWAY_ENCRYPTION_KEYS")]
    assert [each for each in hidden if each in log] == []


def test_every_reply_has_its_request_id(gateway, secret):
    answers = [
        gateway.ask(secret),
        gateway.ask("nobody"),
        gateway.request("GET", "/nothing"),
        gateway.request("GET", "/healthz"),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == 4
    assert all(each.startswith("req_") for each in ids)
