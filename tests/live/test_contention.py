"""200 concurrent requests on funds for ten: exactly ten are served, by one worker and by four, without hangs or faults."""

import json
import math
import select
import socket
import threading
import time
from typing import Any

import pytest

from billing.models import Account, Hold, LedgerEntry
from completions.models import Completion
from keys.models import SpendingDay
from tests import factories, waiting
from tests.chat import prompt_bytes
from tests.faults import fault
from tests.live.gateway import Answer, Gateway, answer, wait_until_settled
from tests.upstream import DONE, FINISH, ROLE, stream, usage, whole, words

pytestmark = pytest.mark.system

ASKED, SERVED = 200, 10
WORST_NANOS = 10_000_000  # a cent: 1,000 bytes of prompt at $1 per million, and 100 tokens at $90 per million
COST_NANOS = 9_009_000  # 9 tokens of prompt, and the 100
USAGE = {"prompt_tokens": 9, "completion_tokens": 100, "total_tokens": 109}


@pytest.fixture(params=["1", "4"], ids=["one-worker", "four-workers"])
def workers(request):
    return request.param


@pytest.fixture
def gateway(workers, transactional_db, gateways):
    served = gateways(WEB_CONCURRENCY=workers)
    mark = len(served.log())
    yield served
    assert "Traceback" not in served.log()[mark:]
    assert len(served.involved()) > 1 or workers == "1"


@pytest.fixture
def gate(upstream):
    """An event until which the upstream sends nothing."""
    factories.make_model(
        "acme/dear", provider=factories.make_provider("scripted", kind="openai", base_url=upstream.url), input="1", output="90"
    )
    return threading.Event()


@pytest.fixture
def body(workers, upstream, gate):
    """Return a request whose worst case costs a cent: for a whole reply with one worker, for a stream with four."""
    is_stream = workers != "1"
    upstream.will(
        stream(gate, ROLE, words("Hello you"), FINISH, usage(USAGE), DONE) if is_stream else [gate, *whole(usage=USAGE)]
    )
    messages = [{"role": "user", "content": "x" * (1_000 - prompt_bytes([{"role": "user", "content": ""}]))}]
    return json.dumps({"model": "acme/dear", "max_tokens": 100, "stream": is_stream, "messages": messages}).encode()


def answered_first(clients: list[socket.socket], count: int) -> list[socket.socket]:
    """Wait until ``count`` clients were answered. Return them, and remove them from ``clients``."""
    poller = select.poll()  # select() takes no file descriptor above 1,023
    for client in clients:
        poller.register(client, select.POLLIN)
    deadline = time.monotonic() + waiting.PROCESS_SECONDS_MAX
    answered: set[int] = set()
    while len(answered) < count:
        assert time.monotonic() < deadline, f"only {len(answered)} of {ASKED} were answered"
        for file, _ in poller.poll(100):
            poller.unregister(file)
            answered.add(file)
    first = [client for client in clients if client.fileno() in answered]
    clients[:] = [client for client in clients if client not in first]
    return first


def all_at_once_on_ten(gateway: Gateway, secret: str, body: bytes, gate: threading.Event) -> tuple[list[Answer], list[Answer]]:
    """Return the replies of the refused, received while the others still run, and the replies of the served."""
    clients = gateway.ask_at_once(secret, body, ASKED)
    try:
        refused = [answer(client) for client in answered_first(clients, ASKED - SERVED)]
        assert Hold.objects.filter(state=Hold.State.HELD).count() == SERVED
    finally:
        gate.set()
    return refused, [answer(client) for client in clients]


def kinds(answers: list[Answer]) -> set[tuple[Any, ...]]:
    return {
        (one.status, one.json()["error"]["code"], one.headers.get("retry-after"), one.headers.get("x-should-retry"))
        for one in answers
    }


def wait_retry_after(refused: list[Answer]) -> None:
    """Sleep for the Retry-After: until then a worker with many refusals may repeat them from its cache."""
    time.sleep(max(int(one.headers["retry-after"]) for one in refused))


def assert_ten_are_charged(account: Account, *, from_nanos: int, cost_nanos: int = COST_NANOS) -> None:
    wait_until_settled(account)
    account.refresh_from_db()
    assert (account.balance_nanos, account.held_nanos) == (from_nanos - SERVED * cost_nanos, 0)
    entries = LedgerEntry.objects.filter(account=account, type="USAGE_DEBIT").order_by("seq")
    assert [entry.balance_after_nanos for entry in entries] == [from_nanos - n * cost_nanos for n in range(1, SERVED + 1)]
    assert set(Hold.objects.values_list("state", flat=True)) == {"SETTLED"}
    assert Hold.objects.count() == Completion.objects.count() == SERVED
    [day] = SpendingDay.objects.filter(key__account=account)
    assert (day.spent_nanos, day.held_nanos, day.completions) == (SERVED * cost_nanos, 0, SERVED)


@fault(
    "Client",
    "200 requests arrive at once on funds for ten",
    "Ten are served and charged. Others get 429 while the funds are held, then 402",
)
def test_a_balance_for_ten_serves_ten_and_refuses_others_as_tied_up_then_as_spent(gateway, bob, body, gate):
    factories.credit(bob, SERVED)
    secret = factories.make_key(bob, requests_in_flight_max=ASKED)[1]
    refused, served = all_at_once_on_ten(gateway, secret, body, gate)
    assert kinds(refused) == {(429, "rate_limit_exceeded", "1", None)}
    assert [one.status for one in served] == [200] * SERVED
    assert_ten_are_charged(bob, from_nanos=SERVED * WORST_NANOS)
    other = factories.make_key(bob, "other", requests_in_flight_max=ASKED)[1]  # no worker has refusals of it in its cache
    late = [answer(client) for client in gateway.ask_at_once(other, body, ASKED)]
    assert kinds(late) == {(402, "insufficient_quota", None, "false")}
    assert_ten_are_charged(bob, from_nanos=SERVED * WORST_NANOS)


def test_a_spending_limit_for_ten_serves_ten_and_refuses_others_as_tied_up_then_as_reached(gateway, alice, body, gate):
    secret = factories.make_key(alice, limit_cents=SERVED, type="FIXED", requests_in_flight_max=ASKED)[1]
    refused, served = all_at_once_on_ten(gateway, secret, body, gate)
    assert kinds(refused) == {(429, "rate_limit_exceeded", "1", None)}
    assert [one.status for one in served] == [200] * SERVED
    assert_ten_are_charged(alice, from_nanos=10_000_000_000)
    wait_retry_after(refused)
    late = [answer(client) for client in gateway.ask_at_once(secret, body, ASKED)]
    assert kinds(late) == {(402, "insufficient_quota", None, "false")}
    assert_ten_are_charged(alice, from_nanos=10_000_000_000)


def test_a_balance_for_ten_serves_ten_when_replies_are_immediate(gateway, bob):
    factories.make_model("demo/dear", input="0", output="100")  # a cent for 100 tokens, and every reply has them
    factories.credit(bob, SERVED)
    secret = factories.make_key(bob, requests_in_flight_max=ASKED)[1]
    fields = {"model": "demo/dear", "max_tokens": 100, "echo": {"reply": "word " * 200}}
    body = json.dumps({**fields, "messages": [{"role": "user", "content": "hello"}]}).encode()
    statuses = [answer(client).status for client in gateway.ask_at_once(secret, body, ASKED)]
    assert statuses.count(200) == SERVED
    assert set(statuses) <= {200, 402, 429}
    assert_ten_are_charged(bob, from_nanos=SERVED * WORST_NANOS, cost_nanos=WORST_NANOS)


def test_ten_requests_per_minute_are_counted_across_workers(transactional_db, gateways, alice, echo_model):
    gateway = gateways(WEB_CONCURRENCY="4")
    secret = factories.make_key(alice, requests_per_minute=SERVED, requests_in_flight_max=ASKED)[1]
    body = json.dumps({"model": "demo/echo", "max_tokens": 3, "messages": [{"role": "user", "content": "one two"}]}).encode()
    started = time.monotonic()
    answers = [answer(client) for client in gateway.ask_at_once(secret, body, ASKED)]
    come_back = math.floor((time.monotonic() - started) / 6)  # on a slow machine one more is allowed every six seconds
    served = [one for one in answers if one.status == 200]
    refused = [one for one in answers if one.status != 200]
    assert SERVED <= len(served) <= SERVED + come_back
    assert {(one.status, one.json()["error"]["code"]) for one in refused} == {(429, "rate_limit_exceeded")}
    assert all(1 <= int(one.headers["retry-after"]) <= 6 for one in refused)
    assert {int(one.headers["x-ratelimit-remaining-requests"]) for one in served} == set(range(SERVED))
    assert len(gateway.involved()) > 1
    wait_until_settled(alice)
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == Completion.objects.count() == len(served)
