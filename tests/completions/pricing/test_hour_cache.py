"""What a cache keeps for an hour: refused without a price, held for at its price, and charged as it is reported."""

import json
from typing import Any

import pytest

from completions.models import Completion, Price
from tests import factories
from tests.chat import assert_error
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.rows import ask, assert_charged, assert_released
from tests.conftest import client_for
from tests.upstream import CLOSE, KEY_ENV, stream, whole

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
MARKED = [{"role": "user", "content": [{"type": "text", "text": "Say hello, please.", **HOUR}]}]
BRIEF = [{"role": "user", "content": [{"type": "text", "text": "Say hello, please.", "cache_control": {"type": "ephemeral"}}]}]
USAGE = {
    **claude.USAGE,
    "cache_creation_input_tokens": 50,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
}
INPUT, OUTPUT, CACHED, BRIEFLY, HOURLY = 3_000, 15_000, 300, 3_750, 6_000  # nanodollars a token
NANOS = 4 * INPUT + 100 * CACHED + 20 * BRIEFLY + 30 * HOURLY + 7 * OUTPUT
CHARGED: Any = {"prompt": 154, "cached": 100, "completion": 7, "nanos": NANOS}


def asked(api: Any, messages: Any = MARKED, **fields: Any) -> Any:
    """Ask in Anthropic's Messages."""
    return api.post("/v1/messages", {"model": "acme/large", "max_tokens": 10, "messages": messages, **fields})


@pytest.fixture
def model(upstream, db):
    provider = factories.make_provider(
        "claude", kind="anthropic", base_url=upstream.url.removesuffix("/v1"), api_key_env=KEY_ENV
    )
    fields: Any = {"input": "3.00", "output": "15.00", "cached_input": "0.30", "upstream_model": "claude-haiku-4-5"}
    return factories.make_model("acme/large", provider=provider, function_calling=True, **fields)


@pytest.fixture
def hourly(model):
    """The same model, where an hour in the cache has a price."""
    factories.change_prices(model.prices, cache_write_nanos=BRIEFLY * 1_000_000, cache_write_1h_nanos=HOURLY * 1_000_000)
    return model


# --- Where there is no price ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"messages": MARKED}, {"messages": BRIEF, **HOUR}], ids=["in a message", "in the body"])
def test_without_a_price_an_hour_is_refused_by_name(api, alice, model, upstream, body):
    told = asked(api, **body).json()["error"]
    assert (told["type"], told["message"].partition(" ")[0]) == ("invalid_request_error", "cache_control.ttl")
    assert_error(ask(api, **body), 400, "invalid_request_error", "cache_control.ttl")
    assert upstream.requests == []
    assert not alice.holds.exists()


def test_a_fallback_without_a_price_is_not_asked(api, alice, hourly, upstream):
    factories.make_model("acme/plain", provider=hourly.routes.get().provider, upstream_model="claude-plain")
    upstream.will(claude.refusal(404, "not_found_error"))
    assert asked(api, models=["acme/plain"]).status_code == 502
    assert [sent.body["model"] for sent in upstream.requests] == ["claude-haiku-4-5"]
    assert_released(alice)


# --- Where there is one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_an_hour_is_charged_apart_from_five_minutes(api, alice, hourly, upstream, is_stream):
    ended = claude.message_delta(usage={"output_tokens": 7})
    upstream.will(
        stream(claude.start(USAGE), claude.text("Hi"), ended, claude.STOP) if is_stream else claude.whole(usage=USAGE)
    )
    reply = asked(api, stream=is_stream)
    told = reply.getvalue().decode()
    assert upstream.requests[0].body["messages"] == MARKED
    assert_charged(alice, "reported", **CHARGED)
    assert '"ephemeral_1h_input_tokens":30' in told
    assert f'"cost":{NANOS / 10**9:.9f}'.rstrip("0") in told
    done = Completion.objects.get()
    assert (done.cache_write_tokens, done.cache_write_1h_tokens) == (50, 30)


def test_chat_completions_may_ask_for_an_hour_too(api, alice, hourly, upstream):
    upstream.will(claude.whole(usage=USAGE))
    tool = {"type": "function", "function": {"name": "add"}, **HOUR}
    assert ask(api, messages=MARKED, tools=[tool], **HOUR).status_code == 200
    [sent] = upstream.requests
    assert [sent.body["messages"][0]["content"][0], sent.body["tools"][0], sent.body] == [
        {**each, **HOUR} for each in (sent.body["messages"][0]["content"][0], sent.body["tools"][0], sent.body)
    ]
    assert_charged(alice, "reported", **CHARGED)


@pytest.mark.parametrize(("messages", "price"), [(BRIEF, BRIEFLY), (MARKED, HOURLY)], ids=["five minutes", "an hour"])
def test_the_hold_is_for_the_whole_prompt_at_the_dearest_price_that_was_asked_for(
    api, alice, hourly, upstream, messages, price
):
    upstream.will(claude.whole())
    body = {"model": "acme/large", "max_tokens": 10, "messages": messages}
    tokens = api.post("/v1/messages/quote", body).json()["prompt_tokens_max"]
    assert asked(api, messages).status_code == 200
    assert alice.holds.get().amount_nanos == tokens * price + 10 * OUTPUT


def test_a_quote_says_what_is_held(api, alice, hourly, upstream):
    upstream.will(claude.whole())
    body = {"model": "acme/large", "max_tokens": 10, "messages": MARKED}
    quoted = api.post("/v1/messages/quote", body).json()
    assert asked(api)["x-gateway-max-cost"] == f"{quoted['max_cost']:.9f}".rstrip("0")


def test_a_prompt_that_is_all_kept_for_an_hour_never_costs_more_than_the_hold(alice, hourly, upstream):
    poor = factories.make_account("Poor", cents=1)
    upstream.will(
        claude.whole(
            usage={
                **USAGE,
                "input_tokens": 0,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 900_000,
                "cache_creation": {"ephemeral_1h_input_tokens": 900_000},
            }
        )
    )
    assert asked(client_for(factories.make_key(poor)[1])).status_code == 200
    [hold] = poor.holds.all()
    assert hold.settled_nanos == hold.amount_nanos
    poor.refresh_from_db()
    assert poor.balance_nanos == 10_000_000 - hold.amount_nanos > 0


@pytest.mark.parametrize(
    ("reported", "counted"),
    [
        (None, 0),
        ({}, 0),
        ({"ephemeral_1h_input_tokens": -1}, 0),
        ({"ephemeral_1h_input_tokens": 999}, 50),
        ({"ephemeral_5m_input_tokens": 999, "ephemeral_1h_input_tokens": 10}, 10),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_no_more_is_an_hours_than_was_written_and_the_caller_is_told(
    api, alice, hourly, upstream, reported, counted, is_stream
):
    usage = {**USAGE, "cache_creation": reported}
    ended = [claude.text("Hi"), claude.message_delta(usage={"output_tokens": 7}), claude.STOP]
    upstream.will(stream(claude.start(usage), *ended) if is_stream else claude.whole(usage=usage))
    told = asked(api, stream=is_stream).getvalue().decode()
    kept = {**(reported or {}), "ephemeral_5m_input_tokens": 50 - counted, "ephemeral_1h_input_tokens": counted}
    shown = "null" if reported is None else json.dumps(kept, separators=(",", ":"))
    assert told.count('"cache_creation":') == told.count(f'"cache_creation":{shown}') == 1 + is_stream
    nanos = NANOS - (30 - counted) * (HOURLY - BRIEFLY)
    assert_charged(alice, "reported", **{**CHARGED, "nanos": nanos})


def test_a_stream_that_breaks_off_is_charged_what_it_reported(api, alice, hourly, upstream):
    upstream.will(stream(claude.start({**USAGE, "output_tokens": 1}), claude.text("Hi"), CLOSE))
    asked(api, stream=True).getvalue()
    assert_charged(alice, "partial", **{**CHARGED, "completion": 1, "nanos": NANOS - 6 * OUTPUT})


def test_a_provider_that_reports_no_hour_is_charged_as_for_five_minutes(api, alice, large, upstream):
    factories.change_prices(large.prices, cache_write_nanos=BRIEFLY * 1_000_000, cache_write_1h_nanos=HOURLY * 1_000_000)
    details = {"cached_tokens": 0, "cache_write_tokens": 8}
    upstream.will(whole(usage={"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": details}))
    assert ask(api, messages=MARKED).status_code == 200
    price = Price.objects.get()
    large_input, large_output = price.input_nanos // 1_000_000, price.output_nanos // 1_000_000
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=large_input + 8 * BRIEFLY + 2 * large_output)


# --- Where it is shown ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("hourly")
def test_the_price_is_in_the_list_of_models(api):
    pricing = api.get("/v1/models/acme/large").json()["pricing"]
    assert (pricing["input_cache_write"], pricing["input_cache_write_1h"]) == ("0.00000375", "0.000006")
    factories.make_model("acme/plain")
    assert "input_cache_write_1h" not in api.get("/v1/models/acme/plain").json()["pricing"]  # OpenRouter's SDKs refuse null


def test_a_completion_says_how_much_was_kept_for_an_hour(api, hourly, upstream):
    upstream.will(claude.whole(usage=USAGE))
    completion_id = asked(api).json()["id"]
    details = api.get(f"/v1/completions/{completion_id}").json()["usage"]["prompt_tokens_details"]
    assert details == {"cached_tokens": 100, "cache_write_tokens": 50, "cache_write_1h_tokens": 30}
