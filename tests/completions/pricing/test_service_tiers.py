"""Service tiers: refused without prices, held for at the dearest price, and charged at those of the tier that was used."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from completions import tasks
from completions.charging import checkpoints, outbox
from completions.models import Completion, Price
from tests import factories
from tests.chat import assert_error
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import (
    PROMPT_ESTIMATE,
    ask,
    ask_streamed,
    assert_charged,
    assert_released,
    begin,
    disconnect,
    events,
)
from tests.upstream import CLOSE, FINISH, HANG, ROLE, Script, event, refusal, reply, stream, words

TIERS = ["flex", "priority"]
# Nanodollars a token, of input, cached input and output.
PRICES = {"": (3_000, 300, 15_000), "flex": (1_500, 150, 7_500), "priority": (6_000, 600, 30_000)}
USAGE = {"prompt_tokens": 109, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 100}}


def cost(tier: str, prompt: int = 109, completion: int = 2, cached: int = 100) -> int:
    input_nanos, cached_nanos, output_nanos = PRICES[tier]
    return (prompt - cached) * input_nanos + cached * cached_nanos + completion * output_nanos


def answered(**fields: Any) -> Script:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello you"}, "finish_reason": "stop"}
    return reply(json.dumps({"choices": [choice], "usage": USAGE, **fields}).encode())


@pytest.fixture
def tiered(large):
    """The model with prices of both tiers."""
    columns = {
        f"{tier}_{name}_nanos": price * 1_000_000
        for tier in TIERS
        for name, price in zip(("input", "cached_input", "output"), PRICES[tier], strict=True)
    }
    factories.change_prices(large.prices, cached_input_nanos=300_000_000, **columns)
    return large


# --- Where there is no price ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", TIERS)
def test_without_prices_a_tier_is_refused_by_name(api, alice, large, upstream, tier):
    assert_error(ask(api, service_tier=tier), 400, "invalid_request_error", "service_tier")
    asked = {"model": "acme/large", "input": "Hello", "service_tier": tier}
    assert_error(api.post("/v1/responses", asked), 400, "invalid_request_error", "service_tier")
    asked = {"model": "acme/large", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "service_tier": tier}
    assert api.post("/v1/messages", asked).json()["error"]["message"].startswith("service_tier must be")
    assert upstream.requests == []
    assert not alice.holds.exists()


# What is asked for -> what is sent, and at whose prices it is charged; and what the header of the reply names.
ASKED: dict[Any, tuple[str, str | None]] = {
    None: ("", None),
    "auto": ("", None),
    "default": ("", None),
    "scale": ("", "service_tier"),
    "standard": ("", "service_tier"),
    "on_demand": ("", "service_tier"),
    "flex": ("flex", None),
    "priority": ("priority", None),
    "fast": ("priority", None),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_every_word_for_a_tier_means_the_same_in_chat_and_in_responses(api, alice, tiered, upstream, path, asked):
    tier, named = ASKED[asked]
    upstream.will(answered(service_tier=tier or "default"))
    prompt = {"input": "Hello"} if path == "/v1/responses" else {"messages": [{"role": "user", "content": "Hello"}]}
    replied = api.post(path, {"model": "acme/large", "service_tier": asked, **prompt})
    assert (replied.status_code, replied.get("x-gateway-ignored-fields")) == (200, named)
    assert upstream.requests[0].body.get("service_tier") == (tier or None)
    assert replied.json().get("service_tier") in (None, tier or "default")
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=cost(tier))


@pytest.mark.parametrize("tier", ["turbo", "ultrafast", 5, True, ["flex"], {}])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_what_is_no_tier_is_refused_by_name(api, alice, tiered, upstream, path, tier):
    prompt = {"input": "Hello"} if path == "/v1/responses" else {"messages": [{"role": "user", "content": "Hello"}]}
    assert_error(
        api.post(path, {"model": "acme/large", "service_tier": tier, **prompt}), 400, "invalid_request_error", "service_tier"
    )
    assert upstream.requests == []
    assert not alice.holds.exists()


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
def test_a_provider_that_has_no_tiers_is_not_asked(api, tiered, upstream, kind):
    tiered.routes.all().delete()
    tiered.routes.create(provider=factories.make_provider(kind, kind=kind, base_url=upstream.url), upstream_model="m")
    assert_error(ask(api, service_tier="flex"), 400, "invalid_request_error", "service_tier")
    assert upstream.requests == []


def test_a_host_with_tiers_of_its_own_is_not_asked(api, tiered):
    groq = factories.make_provider("groq", kind="openai", base_url="https://api.groq.com/openai/v1")
    tiered.routes.update(provider=groq)
    assert_error(ask(api, service_tier="flex"), 400, "invalid_request_error", "service_tier")


# --- Where there is one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_tier_is_charged_at_its_prices(api, alice, tiered, upstream, tier, is_stream):
    ended = event({"choices": [], "usage": USAGE, "service_tier": tier})
    upstream.will(stream(ROLE, words("Hi"), FINISH, ended, b"data: [DONE]\n\n") if is_stream else answered(service_tier=tier))
    replied = ask(api, service_tier=tier, stream=is_stream)
    assert replied.getvalue()
    assert upstream.requests[0].body["service_tier"] == tier
    assert "x-gateway-ignored-fields" not in replied
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=cost(tier))
    told = api.get(f"/v1/completions/{Completion.objects.get().pk}").json()
    assert (told["service_tier"], Completion.objects.get().service_tier) == (tier, tier)


@pytest.mark.parametrize("tier", TIERS)
def test_responses_may_ask_for_a_tier(api, alice, tiered, upstream, tier):
    upstream.will(answered(service_tier=tier))
    replied = api.post("/v1/responses", {"model": "acme/large", "input": "Hello", "service_tier": tier})
    assert replied.json()["service_tier"] == tier
    assert upstream.requests[0].body["service_tier"] == tier
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=cost(tier))


@pytest.mark.parametrize(
    ("reported", "used"), [({"service_tier": "default"}, ""), ({}, "priority"), ({"service_tier": "scale"}, "priority")]
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_tier_that_was_not_used_is_not_charged(api, alice, tiered, upstream, reported, used, is_stream):
    ended = event({"choices": [], "usage": USAGE, **reported})
    upstream.will(stream(ROLE, words("Hi"), FINISH, ended, b"data: [DONE]\n\n") if is_stream else answered(**reported))
    assert ask(api, service_tier="priority", stream=is_stream).getvalue()
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=cost(used))
    assert Completion.objects.get().service_tier == (used or None)


@pytest.mark.parametrize(("tier", "dearest"), [("flex", ""), ("priority", "priority")])
def test_the_hold_is_at_the_dearest_price_that_may_be_used(api, alice, tiered, upstream, tier, dearest):
    upstream.will(answered(service_tier=tier))
    body = {"model": "acme/large", "messages": [{"role": "user", "content": "x"}], "max_tokens": 10, "service_tier": tier}
    quoted = api.post("/v1/quote", body).json()
    assert api.post("/v1/chat/completions", body).status_code == 200
    input_nanos, _, output_nanos = PRICES[dearest]
    held_nanos = alice.holds.get().amount_nanos
    assert held_nanos == quoted["prompt_tokens_max"] * input_nanos + 10 * output_nanos == round(quoted["max_cost"] * 10**9)


def test_a_small_balance_buys_fewer_tokens_of_a_dearer_tier(api, alice, tiered, upstream):
    body = {"model": "acme/large", "messages": [{"role": "user", "content": "x"}]}
    standard, dearer = (
        api.post("/v1/quote", {**body, **tier, "max_tokens": 1}).json()["affordable_max_tokens"]
        for tier in ({}, {"service_tier": "priority"})
    )
    assert dearer <= standard


def test_a_tier_that_is_dearer_than_the_caller_allows_is_refused(api, tiered, upstream):
    upstream.will(answered())
    preferences = {"max_price": {"prompt": 3, "completion": 15}}
    assert_error(ask(api, service_tier="priority", provider=preferences), 400, "invalid_request_error", "provider.max_price")
    assert ask(api, provider=preferences).status_code == 200


def test_an_hour_in_the_cache_has_no_price_in_a_tier(api, tiered, upstream):
    factories.change_prices(tiered.prices, cache_write_1h_nanos=6_000_000_000)
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert_error(ask(api, service_tier="flex", **hour), 400, "invalid_request_error", "cache_control.ttl")
    upstream.will(answered())
    assert ask(api, **hour).status_code == 200


# --- However it ends --------------------------------------------------------------------------------------------------


def test_an_estimate_is_charged_at_the_tier(api, alice, tiered, upstream):
    upstream.will(answered(usage=None))
    ask(api, service_tier="priority")
    nanos = cost("priority", PROMPT_ESTIMATE, 3, 0)
    assert_charged(alice, "estimated", prompt=PROMPT_ESTIMATE, completion=3, nanos=nanos)


def test_a_stream_that_breaks_off_is_charged_at_the_tier(api, alice, tiered, upstream):
    upstream.will(stream(ROLE, words("abcdefgh"), CLOSE))
    events(ask_streamed(api, service_tier="priority"))
    nanos = cost("priority", PROMPT_ESTIMATE, 2, 0)
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=2, nanos=nanos)


def test_a_stream_whose_process_died_is_charged_at_the_tier(api, alice, tiered, upstream):
    let_providers_cancel()
    upstream.will(stream(ROLE, words("abcdefgh"), HANG))
    asked = ask_streamed(api, service_tier="priority")
    begin(asked, "abcdefgh")
    checkpoints.write()
    Completion.objects.update(checkpointed_at=Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1))
    assert tasks.release_expired_holds() == 1
    tokens = Completion.objects.get().completion_tokens
    nanos = cost("priority", PROMPT_ESTIMATE, tokens, 0)
    assert_charged(alice, "recovered", prompt=PROMPT_ESTIMATE, completion=tokens, nanos=nanos)
    disconnect(asked)


def test_a_request_that_fails_costs_nothing(api, alice, tiered, upstream):
    upstream.will(refusal(404))
    assert ask(api, service_tier="flex").status_code == 502
    assert_released(alice)


def test_a_fallback_is_charged_at_its_own_price_of_the_tier(api, alice, tiered, upstream):
    fallback = factories.make_model("acme/small", provider=tiered.routes.get().provider, input="3.00", output="15.00")
    factories.change_prices(fallback.prices, flex_input_nanos=1_000_000, flex_output_nanos=2_000_000)
    factories.make_model("acme/plain", provider=tiered.routes.get().provider, input="3.00", output="15.00")
    upstream.will(refusal(404), answered(service_tier="flex"))
    assert ask(api, service_tier="flex", models=["acme/plain", "acme/small"]).json()["model"] == "acme/small"
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=109 + 2 * 2, model="acme/small")


# --- Where it is kept and shown ---------------------------------------------------------------------------------------


def test_the_list_of_models_has_the_prices_of_tiers(api, tiered):
    told = api.get("/v1/models/acme/large").json()["pricing"]["service_tiers"]
    assert told == {
        "flex": {"prompt": "0.0000015", "completion": "0.0000075", "input_cache_read": "0.00000015"},
        "priority": {"prompt": "0.000006", "completion": "0.00003", "input_cache_read": "0.0000006"},
    }


@pytest.mark.parametrize(
    "columns",
    [
        {"flex_input_nanos": 1},
        {"flex_output_nanos": 1},
        {"priority_cached_input_nanos": 1},
        {"priority_input_nanos": -1, "priority_output_nanos": 1},
        {"flex_input_nanos": 1, "flex_output_nanos": 1, "flex_cached_input_nanos": -1},
        {"cache_write_1h_nanos": -1},
    ],
    ids=str,
)
def test_half_a_tier_and_a_negative_price_are_not_stored(large, columns):
    with pytest.raises(IntegrityError), transaction.atomic():
        Price.objects.create(model=large, **columns, rates=factories.rates_of(input_nanos=1, output_nanos=1))


@pytest.mark.one_cell
def test_a_settlement_that_waits_on_disk_keeps_its_tier(alice, tiered, upstream, api, tmp_path, settings):
    settings.OUTBOX_DIR = tmp_path
    upstream.will(answered(service_tier="priority"))
    ask(api, service_tier="priority")
    done = Completion.objects.get()
    path = tmp_path / f"{done.pk}.json"
    record: dict[str, Any] = {
        "version": outbox.VERSION,
        "completion": done.pk,
        "served_by": [done.model_id, done.price_id, done.provider_id, 1],
        "settlement": "reported",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "tier": "priority"},
        "cost_nanos": 1,
        "reply_retention": None,
    }
    path.write_text(json.dumps(record))
    read = outbox.load(path)
    assert (read.completion.service_tier, read.usage and read.usage.tier) == ("priority", "priority")
    path.write_text(json.dumps({**record, "usage": {**record["usage"], "tier": "gratis"}}))
    with pytest.raises(outbox.Unreadable, match="no such service tier"):
        outbox.load(path)
