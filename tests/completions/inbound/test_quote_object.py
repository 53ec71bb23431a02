"""POST /v1/quote: what a chat request would hold and at most cost, decided as a completion is, and neither sent nor written."""

import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing import money
from billing.models import Account, Hold, LedgerEntry
from completions.models import RoutableAlias
from keys import lifecycle
from keys.limits import refusal_cache
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit
from tests import chat, factories, waiting
from tests.completions.conftest import impatient
from tests.completions.rows import MESSAGES
from tests.conftest import client_for
from tests.error_table import TABLE, scenario

__all__ = ["impatient", "scenario"]

PATH = "/v1/quote"


def quote(client, **fields):
    """Return a quote, with its numbers as Decimals."""
    reply = client.post(PATH, {"model": "demo/echo", "messages": MESSAGES, **fields})
    assert (reply.status_code, reply["content-type"]) == (200, "application/json"), reply.content
    return json.loads(reply.content, parse_float=Decimal)


def complete(client, **fields):
    return client.post(chat.PATH, {"model": "demo/echo", "messages": MESSAGES, **fields})


def test_a_quote_has_every_figure(api, echo_model):
    assert quote(api, max_tokens=100) == {
        "object": "quote",
        "model": "demo/echo",
        "prompt_tokens_max": 62,
        "max_tokens": 100,
        "max_cost": Decimal("0.000181"),
        "rates": {"prompt": "0.0000005", "completion": "0.0000015"},
        "likely": None,
        "available": 10,
        "affordable_max_tokens": 4_096,
        "refusal": None,
        "routes": [
            {
                "model": "demo/echo",
                "provider": "echo",
                "priority": 1,
                "weight": 1,
                "max_tokens": 100,
                "max_cost": Decimal("0.000181"),
            }
        ],
    }


@pytest.mark.parametrize("max_tokens", [100, None])
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_quoted_is_what_the_completion_then_holds(api, echo_model, max_tokens, stream):
    quoted = quote(api, max_tokens=max_tokens, stream=stream)
    reply = complete(api, max_tokens=max_tokens, stream=stream)
    assert reply.getvalue()
    assert quoted["max_cost"] * 10**9 == Hold.objects.get().amount_nanos
    assert quoted["max_cost"] == Decimal(reply["x-gateway-max-cost"])


@given(
    cents=st.integers(0, 30),
    limit=st.none() | st.integers(0, 30),
    max_tokens=st.none() | st.integers(1, 4_096),
    words=st.integers(1, 2_000),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_quote_says_what_happens_to_the_completion(db, echo_model, cents, limit, max_tokens, words):
    factories.change_prices(echo_model.prices, output_nanos=money.price_nanos("60"), input_nanos=money.price_nanos("3"))
    account = factories.make_account("Dora", cents=cents)
    limits = {} if limit is None else {"limit_cents": limit, "type": "FIXED"}
    client = client_for(factories.make_key(account, **limits)[1])
    fields = {"messages": [{"role": "user", "content": "word " * words}], "max_tokens": max_tokens}
    quoted, reply = quote(client, **fields), complete(client, **fields)
    if quoted["refusal"]:
        error = chat.assert_error(reply, quoted["refusal"].pop("status"), quoted["refusal"]["code"])
        assert quoted["refusal"] == error
    else:
        assert reply.status_code == 200
        hold = Hold.objects.get(account=account)
        assert quoted["max_cost"] * 10**9 == hold.amount_nanos
        assert hold.settled_nanos <= hold.amount_nanos


def test_the_affordable_tokens_are_the_most_that_are_admitted(alice, echo_model):
    factories.change_prices(echo_model.prices, output_nanos=money.price_nanos("6000"))
    client = client_for(factories.make_key(alice)[1])
    affordable = quote(client, max_tokens=4_000)["affordable_max_tokens"]
    assert 1 < affordable < 4_000
    assert complete(client, max_tokens=affordable + 1).status_code == 402
    assert complete(client, max_tokens=affordable).status_code == 200


def test_a_spending_limit_bounds_what_is_available(alice, echo_model):
    key, secret = factories.make_key(alice)
    lifecycle.set_spending_limit(key, SpendingLimit(250, "RECURRING", "DAILY"))
    assert quote(client_for(secret))["available"] == Decimal("2.50")


# --- Models and routes -----------------------------------------------------------------------------------------------


def test_an_alias_is_resolved_and_fallbacks_and_routes_are_listed_in_order(api, echo_model):
    second = factories.make_provider("second")
    add_route = echo_model.routes.create
    add_route(provider=second, upstream_model="echo", priority=0)
    factories.make_model("acme/small", provider=second, output="0.50")
    factories.make_model("acme/dear", provider=second, output="9000")
    RoutableAlias.objects.create(pk="best/general", model_ids=["nobody/knows", "demo/echo"])
    quoted = quote(api, model="best/general", models=["acme/dear", "acme/small"], max_tokens=2_000)
    assert quoted["model"] == "demo/echo"
    assert [(route["model"], route["provider"]) for route in quoted["routes"]] == [
        ("demo/echo", "second"),
        ("demo/echo", "echo"),
        ("acme/small", "second"),
    ]
    assert quoted["routes"][-1]["max_cost"] < quoted["routes"][0]["max_cost"] == quoted["max_cost"]


def test_a_dear_fallback_raises_what_is_held(api, echo_model):
    factories.make_model("acme/dear", provider=factories.make_provider("second"), output="60")
    quoted = quote(api, models=["acme/dear"], max_tokens=1_000)
    assert quoted["max_cost"] == quoted["routes"][1]["max_cost"] > quoted["routes"][0]["max_cost"]
    assert complete(api, models=["acme/dear"], max_tokens=1_000)["x-gateway-max-cost"] == str(quoted["max_cost"])


# --- Refusals --------------------------------------------------------------------------------------------------------

DECIDED = [
    *["requests a minute", "tokens a minute", "more than a minute's tokens"],
    *["requests of the key at a time", "requests of the account at a time"],
    *["account tied up", "window tied up", "FIXED limit", "FIXED limit has too little left", "DAILY limit", "MONTHLY limit"],
    *["too few credits", "in debt"],
]


@pytest.mark.parametrize("condition", DECIDED)
def test_a_refusal_for_limits_or_money_is_quoted(scenario, condition):
    arrange, status, type, code, _, _ = TABLE[condition]
    request = arrange(scenario)
    refusal_cache.process_cache.clear()
    before = chat.everything_written()
    quoted = quote(client_for(scenario.secret), **request.fields)
    assert chat.everything_written() == before
    refusal = quoted["refusal"]
    assert (refusal["status"], refusal["type"], refusal["code"], quoted["routes"]) == (status, type, code, [])
    assert refusal["message"]
    assert not refusal_cache.process_cache._recent


def test_a_refused_quote_says_what_the_request_needs_and_what_is_affordable(bob, echo_model):
    factories.credit(bob, 1)
    factories.change_prices(echo_model.prices, output_nanos=money.price_nanos("6000"))
    client = client_for(factories.make_key(bob)[1])
    quoted = quote(client, max_tokens=100)
    assert quoted["refusal"]["status"] == 402
    assert (quoted["max_tokens"], quoted["max_cost"]) == (100, Decimal("0.600031"))
    assert (quoted["available"], quoted["affordable_max_tokens"]) == (Decimal("0.01"), 1)
    assert quote(client, max_tokens=1)["refusal"] is None


def test_a_refused_quote_without_max_tokens_names_no_cost(bob, echo_model):
    quoted = quote(client_for(factories.make_key(bob)[1]))
    assert (quoted["refusal"]["status"], quoted["max_tokens"], quoted["max_cost"]) == (402, None, None)
    assert (quoted["available"], quoted["affordable_max_tokens"]) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "acme/unknown"}, 404, "model_not_found", "model"),
        ({"models": ["acme/unknown"]}, 404, "model_not_found", "models[0]"),
        ({"max_tokens": 5_000}, 400, "invalid_request_error", "max_tokens"),
        ({"temperature": 3}, 400, "invalid_request_error", "temperature"),
        ({"messages": []}, 400, "invalid_request_error", "messages"),
    ],
)
def test_a_request_that_no_money_helps_gets_the_error_of_the_completion(api, echo_model, fields, status, code, param):
    before = chat.everything_written()
    error = chat.assert_error(api.post(PATH, {"model": "demo/echo", "messages": MESSAGES, **fields}), status, code, param)
    assert error == complete(api, **fields).json()["error"]
    assert chat.everything_written() == before


def test_a_model_that_the_key_may_not_use_is_a_404(alice, echo_model):
    key, secret = factories.make_key(alice)
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=["a/b"])
    chat.assert_error(
        client_for(secret).post(PATH, {"model": "demo/echo", "messages": MESSAGES}), 404, "model_not_found", "model"
    )


# --- Nothing is written, and nobody is asked -------------------------------------------------------------------------


def test_a_quote_writes_counts_and_asks_nothing(alice, large, upstream):
    client = client_for(factories.make_key(alice, requests_per_minute=60, tokens_per_minute=100_000)[1])
    before = chat.everything_written()
    reply = client.post(PATH, {"model": "acme/large", "messages": MESSAGES, "max_tokens": 1_000})
    assert reply.status_code == 200
    assert (reply["x-ratelimit-remaining-requests"], reply["x-ratelimit-remaining-tokens"]) == ("60", "100000")
    assert chat.everything_written() == before
    assert not upstream.requests
    assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()


def test_an_idempotency_key_changes_nothing(api, echo_model):
    headers = {"Idempotency-Key": "a"}
    fields = {"model": "demo/echo", "messages": MESSAGES}
    assert api.post(chat.PATH, fields, headers=headers).status_code == 200
    assert json.loads(api.post(PATH, fields, headers=headers).content)["object"] == "quote"


@pytest.mark.django_db(transaction=True)
def test_a_quote_does_not_wait_for_a_locked_account(impatient, alice, echo_model):
    client = client_for(factories.make_key(alice)[1])
    with waiting.meanwhile(lambda: Account.objects.select_for_update().get(pk=alice.pk)):
        assert quote(client)["refusal"] is None


# --- Limits ----------------------------------------------------------------------------------------------------------


def test_it_counts_as_a_read(api, echo_model, settings):
    settings.KEY_READS_PER_MINUTE = 2
    fields = {"model": "demo/echo", "messages": MESSAGES}
    assert [api.post(PATH, fields).status_code for _ in range(3)] == [200, 200, 429]
    assert complete(api).status_code == 200


def test_it_needs_a_key_and_a_post(echo_model, api):
    chat.assert_error(client_for(None).post(PATH, {"model": "demo/echo", "messages": MESSAGES}), 401, "invalid_api_key")
    chat.assert_error(api.get(PATH), 405, "invalid_request_error")


def test_its_body_is_bounded_like_that_of_a_completion(api, echo_model, settings):
    settings.REQUEST_BYTES_MAX = 1_000
    chat.assert_error(api.post(PATH, {"messages": "x" * 1_000}), 413, "invalid_request_error")
    chat.assert_error(api.generic("POST", PATH, "{}", content_type="text/plain"), 415, "invalid_request_error")
    chat.assert_error(api.generic("POST", PATH, "", content_type="application/json"), 400, "invalid_request_error")
    chat.assert_error(api.generic("POST", PATH, "[1]", content_type="application/json"), 400, "invalid_request_error")


def test_large_bodies_count_towards_the_bytes_in_flight_of_the_account(api, echo_model, settings):
    settings.ACCOUNT_BYTES_IN_FLIGHT_MAX = 100_000
    large = {"model": "demo/echo", "messages": [{"role": "user", "content": "x" * 150_000}]}
    chat.assert_error(api.post(PATH, large), 429, "rate_limit_exceeded")


# --- In the other languages ---------------------------------------------------------------------------------------------

LANGUAGES = {
    "/v1/messages": {"max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}], "system": "Be brief."},
    "/v1/responses": {"max_output_tokens": 100, "input": "Hello", "instructions": "Be brief."},
}


@pytest.mark.parametrize("path", LANGUAGES)
def test_a_quote_of_another_language_is_what_its_completion_holds(api, large, path):
    fields = {"model": "acme/large", **LANGUAGES[path]}
    before = chat.everything_written()
    reply = api.post(f"{path}/quote", fields)
    assert (reply.status_code, reply["content-type"]) == (200, "application/json")
    assert chat.everything_written() == before
    told = json.loads(reply.content, parse_float=Decimal)
    assert (told["object"], told["max_tokens"], told["routes"][0]["provider"]) == ("quote", 100, "scripted")
    completion = api.post(path, fields)
    assert told["max_cost"] == Decimal(completion["x-gateway-max-cost"])


@pytest.mark.parametrize("path", LANGUAGES)
def test_a_quote_of_another_language_names_its_own_fields(api, large, upstream, path):
    refused = api.post(f"{path}/quote", {"model": "acme/large", **LANGUAGES[path], "temperature": 9})
    error = refused.json()["error"]
    assert (refused.status_code, error["message"][:11]) == (400, "temperature")
    assert (refused.json().get("type") == "error") == (path == "/v1/messages")
    unknown = api.post(f"{path}/quote", {**LANGUAGES[path], "model": "acme/none"})
    assert unknown.status_code == 404
    assert not upstream.requests
