"""A run keeps its budget over two hosts, under 200 concurrent requests, and when a host dies. The official SDKs name it."""

import json
import select
import threading
import time
from typing import Any

import anthropic
import openai
import pytest

from billing.models import Hold
from completions.charging.recovery import sweeper
from completions.models import Completion
from keys.models import Run
from tests import factories, waiting
from tests.chat import prompt_bytes
from tests.live.gateway import QUESTION, Answer, answer, head, wait_until_settled
from tests.upstream import DONE, FINISH, ROLE, stream, usage, whole, words

pytestmark = pytest.mark.system

ASKED, SERVED = 200, 10
WORST_NANOS = 10_000_000  # a cent: 1,000 bytes of prompt at $1 per million, and 100 tokens at $90 per million
COST_NANOS = 9_009_000  # 9 tokens of prompt, and the 100
USAGE = {"prompt_tokens": 9, "completion_tokens": 100, "total_tokens": 109}


@pytest.fixture
def hosts(transactional_db, gateways):
    """Two gateways on one database."""
    return [gateways(WEB_CONCURRENCY="2", PORT_NAME=name) for name in ("one", "other")]


@pytest.fixture
def gate(upstream):
    """An event until which the upstream sends nothing."""
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url)
    factories.make_model("acme/dear", provider=provider, input="1", output="90")
    event = threading.Event()
    upstream.will([event, *whole(usage=USAGE)])
    return event


def body(**fields: Any) -> bytes:
    content = "x" * (1_000 - prompt_bytes([{"role": "user", "content": ""}]))
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": "acme/dear", "max_tokens": 100, "messages": messages, **fields}).encode()


def ask_both(hosts, secret: str, budgets: list[str]) -> list[Any]:
    """Send 200 requests of one run to two hosts at once, with these budgets in turn. Return their connections."""
    clients = [hosts[number % 2].dial() for number in range(ASKED)]
    for number, client in enumerate(clients):
        headers = ("x-gateway-run: nightly", f"x-gateway-run-budget: {budgets[number % len(budgets)]}")
        client.sendall(head(secret, f"Content-Length: {len(body())}", *headers) + body())
    return clients


def refused_first(clients: list[Any], count: int) -> list[Answer]:
    """Return the replies of the first ``count`` that are answered, and remove these from ``clients``."""
    poller, deadline, answered = select.poll(), time.monotonic() + waiting.PROCESS_SECONDS_MAX, set()
    for client in clients:
        poller.register(client, select.POLLIN)
    while len(answered) < count:
        assert time.monotonic() < deadline, f"only {len(answered)} were answered"
        for file, _ in poller.poll(100):
            poller.unregister(file)
            answered.add(file)
    first = [client for client in clients if client.fileno() in answered]
    clients[:] = [client for client in clients if client not in first]
    return [answer(client) for client in first]


@pytest.mark.parametrize("limit_cents", [None, 11], ids=["run", "run-and-limit"])
def test_a_run_with_a_budget_for_ten_serves_ten_over_two_hosts(hosts, alice, gate, limit_cents):
    limit = {"limit_cents": limit_cents, "type": "FIXED"} if limit_cents else {}
    key, secret = factories.make_key(alice, requests_in_flight_max=ASKED, **limit)
    clients = ask_both(hosts, secret, ["0.10"])
    try:
        refused = refused_first(clients, ASKED - SERVED)
        run = Run.objects.get()
        assert (run.spent_nanos, run.held_nanos, run.requests) == (0, SERVED * WORST_NANOS, SERVED)
    finally:
        gate.set()
    assert [answer(client).status for client in clients] == [200] * SERVED
    assert {(one.status, one.json()["error"]["limit_source"], one.headers["retry-after"]) for one in refused} == {
        (429, "run", "1")
    }
    wait_until_settled(alice)
    run.refresh_from_db()
    assert (run.spent_nanos, run.held_nanos) == (SERVED * COST_NANOS, 0)
    assert Hold.objects.count() == Completion.objects.filter(run="nightly", key=key).count() == SERVED
    time.sleep(1)  # until then a worker may repeat refusals from its cache
    late = [answer(client) for client in ask_both(hosts, secret, ["0.10"])]
    assert {(one.status, one.json()["error"]["code"], one.headers["x-should-retry"]) for one in late} == {
        (402, "budget_exceeded", "false")
    }


def test_of_two_budgets_in_a_race_one_is_in_force_for_all(hosts, alice, gate):
    secret = factories.make_key(alice, requests_in_flight_max=ASKED)[1]
    gate.set()
    answers = [answer(client) for client in ask_both(hosts, secret, ["0.50", "0.60"])]
    wait_until_settled(alice)
    run = Run.objects.get()
    assert {one.headers["x-gateway-run-budget"] for one in answers} == {f"{run.budget_nanos / 10**9:.2f}"}
    assert run.spent_nanos == COST_NANOS * len([one for one in answers if one.status == 200]) <= run.budget_nanos


def test_a_run_is_counted_after_the_death_of_a_worker(transactional_db, gateways, alice, upstream, gate):
    gateway = gateways.start_anew(WEB_CONCURRENCY="2", PORT_NAME="dying")
    upstream.will(stream(ROLE, words("Hello you"), threading.Event(), FINISH, usage(USAGE), DONE))
    secret, client = factories.make_key(alice)[1], gateway.dial()
    raw = body(stream=True)
    headers = ("x-gateway-run: nightly", "x-gateway-run-budget: 0.015")
    client.sendall(head(secret, f"Content-Length: {len(raw)}", *headers) + raw)
    waiting.until(lambda: Run.objects.filter(held_nanos=WORST_NANOS).exists())
    gateway.kill()
    client.close()
    Completion.objects.update(relayed_bytes=40)
    assert sweeper.resolve(Completion.objects.get())
    wait_until_settled(alice)
    run = Run.objects.get()
    assert (run.spent_nanos, run.held_nanos) == (Completion.objects.get().cost_nanos, 0)
    assert run.spent_nanos > 0


HEADERS = {"x-gateway-run": "nightly", "x-gateway-run-budget": "0.015", "x-gateway-run-deadline": "3600"}


def test_openais_sdk_names_a_run_and_ends_at_its_budget(gateway, alice, upstream, gate):
    gate.set()
    secret = factories.make_key(alice)[1]
    messages = json.loads(body())["messages"]
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=secret, default_headers=HEADERS, max_retries=2) as sdk:
        sdk.chat.completions.create(model="acme/dear", messages=messages, max_tokens=100)
        with pytest.raises(openai.APIStatusError) as refused:
            sdk.chat.completions.create(model="acme/dear", messages=messages, max_tokens=100)
    assert (refused.value.status_code, refused.value.code) == (402, "budget_exceeded")
    assert Completion.objects.count() == 1


def test_anthropics_sdk_names_a_run_and_ends_at_its_budget(gateway, alice, upstream, gate):
    gate.set()
    secret = factories.make_key(alice)[1]
    messages: list[Any] = QUESTION
    with anthropic.Anthropic(base_url=gateway.url, api_key=secret, default_headers=HEADERS, max_retries=2) as sdk:
        sdk.messages.create(model="acme/dear", messages=messages, max_tokens=100)
        with pytest.raises(anthropic.APIStatusError) as refused:
            sdk.messages.create(model="acme/dear", messages=messages, max_tokens=100)
    error = refused.value.response.json()["error"]
    assert (refused.value.status_code, error["type"], error["details"]["run_id"]) == (402, "billing_error", "nightly")
    assert Completion.objects.count() == 1
