"""Limits per minute of a key, its account and the deployment: which applies, and the headers of every reply."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Account
from gateway_project import environment
from gateway_project.db import pool
from keys.limits import limit_state_cache
from keys.models import ApiKey
from tests import chat, factories, stepped_clock
from tests.conftest import client_for
from tests.faults import fault
from tests.monotonic_clock import use_clock

BOTH = ("requests", "tokens")
CONCURRENT = {"x-ratelimit-limit-concurrent", "x-ratelimit-remaining-concurrent"}


@pytest.fixture(autouse=True)
def _stopped_clocks(db, monkeypatch):
    """No allowance comes back within a test, however slow the machine."""
    stepped_clock.make()
    stepped_clock.step(datetime.now(UTC) + timedelta(hours=1))  # later than the prices that tests make
    use_clock(monkeypatch, limit_state_cache).stop()


def rates_of(reply) -> dict[str, str]:
    return {name.lower(): value for name, value in reply.headers.items() if name.lower().startswith("x-ratelimit-")}


def limits_of(reply) -> tuple[str | None, str | None]:
    return reply.get("x-ratelimit-limit-requests"), reply.get("x-ratelimit-limit-tokens")


@pytest.fixture
def deployment(settings):
    settings.KEY_REQUESTS_PER_MINUTE, settings.KEY_TOKENS_PER_MINUTE = 3, 3_000


@pytest.fixture
def account(alice):
    Account.objects.filter(pk=alice.pk).update(requests_per_minute=2, tokens_per_minute=2_000)


# --- Which applies -----------------------------------------------------------------------------------------------------


def test_without_any_limit_no_request_is_refused(alice, echo_model):
    reply = chat.ask(client_for(factories.make_key(alice)[1]), max_tokens=1)
    assert set(rates_of(reply)) == CONCURRENT
    row = ApiKey.objects.get()
    assert (row.requests_full_at, row.tokens_full_at) == (None, None)


@pytest.mark.usefixtures("deployment")
def test_the_deployments_limit_applies_to_keys_and_accounts_without_one(alice, echo_model):
    client = client_for(factories.make_key(alice)[1])
    assert [chat.ask(client, max_tokens=1).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert limits_of(client.get("/v1/models")) == ("3", "3000")


@pytest.mark.usefixtures("deployment", "account")
def test_the_accounts_limit_comes_before_the_deployments(alice, echo_model):
    client = client_for(factories.make_key(alice)[1])
    assert [chat.ask(client, max_tokens=1).status_code for _ in range(3)] == [200, 200, 429]
    assert limits_of(client.get("/v1/models")) == ("2", "2000")


@pytest.mark.usefixtures("deployment", "account")
def test_the_keys_own_limit_comes_first(alice, echo_model):
    client = client_for(factories.make_key(alice, requests_per_minute=1, tokens_per_minute=1_000)[1])
    assert [chat.ask(client, max_tokens=1).status_code for _ in range(2)] == [200, 429]
    assert limits_of(client.get("/v1/models")) == ("1", "1000")


@pytest.mark.usefixtures("deployment")
def test_requests_and_tokens_are_resolved_separately(alice, echo_model):
    Account.objects.update(tokens_per_minute=2_000)
    client = client_for(factories.make_key(alice, requests_per_minute=1)[1])
    assert limits_of(chat.ask(client, max_tokens=1)) == ("1", "2000")


@pytest.mark.usefixtures("account")
def test_an_accounts_limit_applies_to_each_key_separately(alice, charlie, echo_model):
    for _ in range(2):
        client = client_for(factories.make_key(alice)[1])
        assert [chat.ask(client, max_tokens=1).status_code for _ in range(3)] == [200, 200, 429]
    assert set(rates_of(chat.ask(client_for(factories.make_key(charlie)[1]), max_tokens=1))) == CONCURRENT


@pytest.mark.usefixtures("account")
def test_a_default_limit_is_counted_on_the_keys_row_and_corrected_at_settlement(alice, echo_model):
    key, secret = factories.make_key(alice)
    before = pool.database_time()
    reply = chat.ask(client_for(secret), max_tokens=1_900)  # counted as 1,904 tokens, used 9
    assert reply["x-ratelimit-remaining-tokens"] == "96"
    row = ApiKey.objects.get()
    # A request takes half a minute to become available again, a token 30 milliseconds.
    assert 29 < (row.requests_full_at - before).total_seconds() < 60
    assert 0.2 < (row.tokens_full_at - before).total_seconds() < 30


def test_a_default_limit_costs_no_additional_query(alice, echo_model, settings):
    asked = []
    for own, default in ((60, None), (None, 60)):
        settings.KEY_REQUESTS_PER_MINUTE = default
        client = client_for(factories.make_key(alice, requests_per_minute=own)[1])
        assert chat.ask(client, max_tokens=1)["x-ratelimit-remaining-requests"] == "59"
        with CaptureQueriesContext(connection) as captured:
            chat.ask(client, max_tokens=1)
        asked.append(len(captured))
    assert asked[0] == asked[1] > 0


@pytest.mark.parametrize("value", ["0", "-1", "2147483648", "sixty", "1.5"])
def test_an_invalid_deployment_default_stops_the_process(monkeypatch, value):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_EXAMPLE must be"):
        environment.integer("GATEWAY_EXAMPLE", None, minimum=1, maximum=2_147_483_647)


@pytest.mark.parametrize(("value", "read"), [("", None), (" ", None), ("60", 60)])
def test_an_empty_deployment_default_means_no_limit(monkeypatch, value, read):
    monkeypatch.setenv("GATEWAY_EXAMPLE", value)
    assert environment.integer("GATEWAY_EXAMPLE", None, minimum=1, maximum=2_147_483_647) == read


@pytest.mark.usefixtures("deployment")
def test_usage_reports_the_limits_that_apply(alice):
    client = client_for(factories.make_key(alice, requests_per_minute=1)[1])
    limits = client.get("/v1/usage").json()["rateLimits"]
    assert (limits["requestsPerMinute"], limits["tokensPerMinute"]) == (1, 3_000)


# --- The database's clock is set back ------------------------------------------------------------------------------------


@fault(
    "Clock",
    "The database's clock is set back by hours",
    "A key with rate limits is served",
)
@pytest.mark.parametrize("column", ["requests_full_at", "tokens_full_at"])
def test_a_database_clock_set_back_by_hours_does_not_lock_a_key_out(client, column):
    ApiKey.objects.update(**{column: pool.database_time() + timedelta(hours=5)})
    statuses = [chat.ask(client, max_tokens=1).status_code for _ in range(11)]
    row = ApiKey.objects.get()
    assert statuses == [200] * 10 + [429]  # one burst, and then the limit holds
    assert getattr(row, column) - pool.database_time() <= timedelta(minutes=1)


def words(number: int) -> list[dict[str, str]]:
    """Return messages of so many tokens, which the echo repeats."""
    return [{"role": "user", "content": "w " * number}]


@pytest.mark.parametrize("minutes", [1, 30, 59, 61, 600])
def test_a_database_clock_set_back_by_minutes_refuses_for_a_minute_at_most(alice, echo_model, minutes):
    """Use up the tokens per minute, set the clock back, and ask until a request of a whole minute's tokens is admitted."""
    client = client_for(factories.make_key(alice, tokens_per_minute=2_000)[1])
    now = pool.database_time()
    stepped_clock.step(now + timedelta(minutes=minutes))
    assert chat.ask(client, messages=words(900)).status_code == 200
    assert chat.ask(client, max_tokens=1_900).status_code == 429
    stepped_clock.step(now)
    reply = chat.ask(client, max_tokens=1_900)
    if reply.status_code == 429:
        assert 0 < int(reply["Retry-After"]) <= 60
        stepped_clock.step(now + timedelta(seconds=int(reply["Retry-After"])))
        reply = chat.ask(client, max_tokens=1_900)
    assert reply.status_code == 200


def test_tokens_above_those_counted_are_owed_and_paid_back(client):
    """Without max_tokens, admission counts the prompt only."""
    now = pool.database_time()
    assert chat.ask(client, messages=words(600)).status_code == 200
    owed = ApiKey.objects.get().tokens_owed
    assert owed > 0
    refused = chat.ask(client, max_tokens=1)
    assert (refused.status_code, refused.json()["error"]["message"].count("tokens per minute")) == (429, 1)
    stepped_clock.step(now + timedelta(seconds=60 * owed / 1_000))
    assert chat.ask(client, max_tokens=1).status_code == 429
    stepped_clock.step(now + timedelta(seconds=60 * owed / 1_000 + 10))
    assert chat.ask(client, max_tokens=1).status_code == 200
    assert ApiKey.objects.get().tokens_owed == 0


# --- Every reply tells where the key stands ------------------------------------------------------------------------------

NAMES = {f"x-ratelimit-{name}-{what}" for name in ("limit", "remaining", "reset") for what in BOTH} | CONCURRENT


@pytest.fixture
def client(alice, echo_model):
    return client_for(factories.make_key(alice, requests_per_minute=10, tokens_per_minute=1_000)[1])


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/demo/echo", "/v1/usage", "/v1/models/demo/nobody"])
def test_a_read_has_rate_limit_headers_and_counts_nothing(client, path):
    assert chat.ask(client, max_tokens=1)["x-ratelimit-remaining-requests"] == "9"
    before = chat.everything_written()
    replies = [client.get(path) for _ in range(3)]
    assert chat.everything_written() == before
    for reply in replies:
        assert set(rates_of(reply)) == NAMES
        assert reply["x-ratelimit-remaining-requests"] == "9"


def test_the_first_read_reports_the_whole_allowance(client):
    assert rates_of(client.get("/v1/usage")) == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "10",
        "x-ratelimit-reset-requests": "0ms",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "1000",
        "x-ratelimit-reset-tokens": "0ms",
        "x-ratelimit-limit-concurrent": "100",
        "x-ratelimit-remaining-concurrent": "100",
    }


def test_headers_cost_a_read_no_additional_query(client, django_assert_num_queries):
    client.get("/v1/usage")
    with django_assert_num_queries(1):  # the key with its account; the missing model costs no query
        assert rates_of(client.get("/v1/models/%00"))


def refusals_of(client) -> dict[str, tuple[int, Any]]:
    broken = {"HTTP_IDEMPOTENCY_KEY": "once"}
    chat.send(client, chat.body(max_tokens=1), **broken)
    return {
        "no JSON": (400, chat.send(client, b"{")),
        "a bad field": (400, chat.ask(client, temperature=3)),
        "no such model": (404, chat.ask(client, model="demo/nobody")),
        "above the model": (400, chat.ask(client, max_tokens=5_000)),
        "another body": (400, chat.send(client, chat.body(max_tokens=2), **broken)),
        "more than a minute's tokens": (429, chat.ask(client, max_tokens=1_001)),
        "another method": (405, client.get(chat.PATH)),
        "another path": (404, client.post("/v1/files")),
        "a slash too many": (404, client.get("/v1/models/")),
        "not called JSON": (415, chat.send(client, chat.body(), "text/plain")),
    }


def test_every_refusal_has_rate_limit_headers(client):
    for what, (status, reply) in refusals_of(client).items():
        assert (what, reply.status_code) == (what, status)
        assert (what, set(rates_of(reply))) == (what, NAMES)
        assert (what, reply["x-ratelimit-remaining-requests"]) == (what, "9")


def test_a_replayed_reply_has_rate_limit_headers_and_counts_nothing(client):
    for stream in (False, True):
        body, once = chat.body(max_tokens=1, stream=stream), {"HTTP_IDEMPOTENCY_KEY": f"once {stream}"}
        first = chat.send(client, body, **once)
        told = first.getvalue()
        again = chat.send(client, body, **once)
        assert (again.getvalue(), again["idempotent-replayed"]) == (told, "true")
        assert set(rates_of(again)) == NAMES
        assert again["x-ratelimit-remaining-requests"] == first["x-ratelimit-remaining-requests"]


@pytest.mark.parametrize("cents", [1_000, 0], ids=["funds", "spending limit"])
def test_a_refusal_for_funds_has_rate_limit_headers(bob, echo_model, cents):
    limits = {"limit_cents": cents, "type": "FIXED", "requests_per_minute": 10, "tokens_per_minute": 1_000}
    reply = chat.ask(client_for(factories.make_key(bob, **limits)[1]), max_tokens=1)
    assert (reply.status_code, set(rates_of(reply))) == (402, NAMES)
    assert (reply["x-ratelimit-remaining-requests"], reply["x-ratelimit-remaining-tokens"]) == ("10", "1000")


def test_an_upstream_failure_has_rate_limit_headers(client):
    reply = chat.ask(client, max_tokens=1, echo={"status": 500})
    assert (reply.status_code, set(rates_of(reply))) == (502, NAMES)


def test_a_refusal_before_the_first_read_of_a_key_has_no_headers_and_reads_nothing(alice, django_assert_num_queries):
    client = client_for(factories.make_key(alice, requests_per_minute=10)[1])
    with django_assert_num_queries(1):  # finds the key of the secret
        reply = chat.ask(client, temperature=3)
    assert (reply.status_code, rates_of(reply)) == (400, {})


def test_a_refusal_for_tokens_does_not_claim_that_a_request_was_counted(client):
    reply = chat.ask(client, max_tokens=1_001)
    assert (reply.status_code, reply["x-ratelimit-remaining-requests"]) == (429, "10")


def test_an_unknown_caller_gets_no_rate_limit_headers(client, alice):
    client.get("/v1/usage")
    ApiKey.objects.update(revoked_at=pool.database_time())
    for reply in (client.get("/v1/usage"), chat.ask(client), client_for(None).get("/v1/usage")):
        assert (reply.status_code, rates_of(reply)) == (401, {})


def test_a_removed_limit_is_no_longer_reported(client):
    assert rates_of(client.get("/v1/usage"))
    ApiKey.objects.update(requests_per_minute=None, tokens_per_minute=None)
    assert set(rates_of(client.get("/v1/usage"))) == CONCURRENT
    assert set(rates_of(chat.ask(client, temperature=3))) == CONCURRENT


def test_cached_state_is_reported_as_of_the_time_of_the_reply(alice):
    key, _ = factories.make_key(alice, requests_per_minute=60)
    now = pool.database_time()
    key.requests_full_at = now + timedelta(seconds=10)
    limit_state_cache.store(key, alice, now)
    sighting = limit_state_cache.get(key.pk)
    told = [sighting.headers(sighting.clock_seconds + seconds) for seconds in (0, 4, 11)]
    assert [headers["x-ratelimit-remaining-requests"] for headers in told] == ["50", "54", "60"]
    assert [headers["x-ratelimit-reset-requests"] for headers in told] == ["10s", "6s", "0ms"]
