"""Requests in flight: which maximum applies, what counts, and what callers are told."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from billing.models import Account, Hold
from completions import tasks
from completions.relay import slots
from gateway_project.db import pool
from tests import chat, factories, usage
from tests.conftest import client_for

Begin = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def _small(settings: Any, monkeypatch: Any) -> None:
    settings.KEY_REQUESTS_IN_FLIGHT, settings.ACCOUNT_REQUESTS_IN_FLIGHT = 3, 5
    monkeypatch.setattr(slots, "_REFUSALS_BURST", 1_000)  # so that none is held back


@pytest.fixture
def begin(db: None) -> Iterator[Begin]:
    """Begin streams and leave them running: their first chunk has arrived. They end with the test."""
    running: list[Any] = []

    def begin(client: Any, requests: int = 1, **fields: Any) -> list[Any]:
        replies = [chat.ask(client, stream=True, **fields) for _ in range(requests)]
        assert {reply.status_code for reply in replies} == {200}
        running.extend(replies)
        return replies

    yield begin
    for reply in running:
        reply.getvalue()


def concurrent_of(reply: Any) -> tuple[str | None, str | None]:
    return reply.get("x-ratelimit-limit-concurrent"), reply.get("x-ratelimit-remaining-concurrent")


def test_one_request_more_than_the_maximum_is_refused_until_one_ends(alice, echo_model, begin):
    client = client_for(factories.make_key(alice)[1])
    running = begin(client, 3)
    before = chat.everything_written()
    error = chat.assert_error(chat.ask(client), 429, "rate_limit_exceeded")
    assert error["message"] == "The key has 3 requests in flight, which is its maximum. Try again when one has ended."
    assert chat.everything_written() == before
    running[0].getvalue()
    assert chat.ask(client).status_code == 200


def test_a_maximum_of_one_says_so(alice, echo_model, begin):
    client = client_for(factories.make_key(alice, requests_in_flight_max=1)[1])
    begin(client)
    assert "The key has 1 request in flight" in chat.ask(client).json()["error"]["message"]


def test_the_keys_own_maximum_comes_before_the_deployments(alice, echo_model, begin):
    client = client_for(factories.make_key(alice, requests_in_flight_max=4)[1])
    begin(client, 4)
    assert chat.ask(client).status_code == 429


def test_keys_of_an_account_share_its_maximum(alice, echo_model, begin):
    first, second = (client_for(factories.make_key(alice)[1]) for _ in range(2))
    begin(first, 3)
    begin(second, 2)
    error = chat.assert_error(chat.ask(second), 429, "rate_limit_exceeded")
    assert error["message"].startswith("The account has 5 requests in flight")


def test_the_accounts_own_maximum_comes_before_the_deployments(alice, charlie, echo_model, begin):
    Account.objects.filter(pk=alice.pk).update(requests_in_flight_max=1)
    client = client_for(factories.make_key(alice)[1])
    begin(client)
    assert chat.ask(client).status_code == 429
    assert chat.ask(client_for(factories.make_key(charlie)[1])).status_code == 200


def test_a_model_may_have_a_maximum_for_each_key(alice, echo_model, begin):
    factories.make_model("demo/slow", requests_in_flight_max=2, provider=echo_model.routes.get().provider)
    first, second = (client_for(factories.make_key(alice)[1]) for _ in range(2))
    running = begin(first, 2, model="demo/slow")
    before = chat.everything_written()
    refused = chat.ask(first, model="demo/slow")
    error = chat.assert_error(refused, 429, "rate_limit_exceeded")
    assert error["message"] == (
        "The key has 2 requests for demo/slow in flight, which is the maximum of a key. Try again when one has ended."
    )
    assert refused["Retry-After"] == "1"
    assert chat.everything_written() == before
    assert chat.ask(first).status_code == 200
    assert chat.ask(second, model="demo/slow").status_code == 200
    running[0].getvalue()
    assert chat.ask(first, model="demo/slow").status_code == 200


def test_every_reply_tells_the_maximum_and_what_remains(alice, echo_model, begin):
    client = client_for(factories.make_key(alice)[1])
    first, second = begin(client, 2)
    assert [concurrent_of(reply) for reply in (first, second)] == [("3", "2"), ("3", "1")]
    for reply in (client.get("/v1/models"), client.get("/v1/usage"), chat.ask(client, temperature=3)):
        assert concurrent_of(reply) == ("3", "1")
    assert concurrent_of(chat.ask(client)) == ("3", "0")
    assert concurrent_of(chat.ask(client, temperature=3)) == ("3", "1")  # that one has ended
    begin(client)
    refused = chat.ask(client)
    assert (refused.status_code, concurrent_of(refused)) == (429, ("3", "0"))


def test_what_remains_is_what_the_account_has_disconnected(alice, echo_model, begin):
    first, second = (client_for(factories.make_key(alice)[1]) for _ in range(2))
    begin(first, 3)
    assert concurrent_of(begin(second)[0]) == ("3", "1")


def test_usage_reports_the_maxima_in_force(alice):
    client = client_for(factories.make_key(alice, requests_in_flight_max=7)[1])
    limits = client.get("/v1/usage").json()["rateLimits"]
    assert (limits["requestsInFlight"], limits["accountRequestsInFlight"]) == (7, 5)


@pytest.mark.parametrize("ending", ["a failed request", "a stream that its caller left", "an expired hold"])
def test_a_request_that_ends_in_any_way_is_in_flight_no_longer(alice, echo_model, begin, ending):
    key, secret = factories.make_key(alice, requests_in_flight_max=1)
    client = client_for(secret)
    if ending == "a failed request":
        assert chat.ask(client, echo={"status": 500}).status_code == 502
    elif ending == "a stream that its caller left":
        [reply] = begin(client)
        next(reply._iterator)
        reply._iterator.close()
    else:
        [reply] = begin(client)
        Hold.objects.update(expires_at=Now() - timedelta(seconds=1))
        assert tasks.release_expired_holds() == 1
        reply.getvalue()  # its process was dead only for the sweeper
    assert concurrent_of(client.get("/v1/usage")) == ("1", "1")
    assert chat.ask(client).status_code == 200


def test_a_request_of_yesterday_is_still_in_flight(alice, echo_model):
    key, secret = factories.make_key(alice, requests_in_flight_max=1)
    yesterday = pool.database_time().date() - timedelta(days=1)
    usage.reserve(key, day=yesterday, amount_nanos=0)
    client = client_for(secret)
    assert concurrent_of(client.get("/v1/usage")) == ("1", "0")
    assert chat.ask(client).status_code == 429


def test_a_request_beyond_the_maximum_of_this_process_is_refused_before_its_body_is_read(alice, echo_model, begin):
    client = client_for(factories.make_key(alice)[1])
    begin(client, 3)
    assert chat.send(client, b"{").status_code == 429
    assert concurrent_of(chat.send(client, b"{")) == ("3", "0")


def test_a_repeated_request_gets_its_stored_reply_with_all_slots_taken(alice, echo_model, begin):
    client = client_for(factories.make_key(alice, requests_in_flight_max=1)[1])
    once = {"HTTP_IDEMPOTENCY_KEY": "once"}
    first = chat.send(client, chat.body(), **once)
    begin(client)
    again = chat.send(client, chat.body(), **once)
    assert (again.status_code, again.content) == (200, first.content)


def test_a_flood_of_refusals_ends_with_the_request_that_caused_it(alice, echo_model, begin):
    client = client_for(factories.make_key(alice, requests_in_flight_max=1)[1])
    running = begin(client)
    assert {chat.ask(client).status_code for _ in range(30)} == {429}  # the last ones from memory
    running[0].getvalue()
    assert chat.ask(client).status_code == 200
