"""Service tiers: refused without rates, held for at the dearest that may serve, and charged at those of the one that served."""

import json
from datetime import timedelta
from typing import Any

import gevent
import pytest
from django.db.models.functions import Now

from completions import tasks
from completions.charging.recovery import checkpoints, record
from completions.models import Completion, RoutableAlias
from completions.providers import served_tiers
from completions.relay import charge
from gateway_project import metrics
from tests import factories
from tests.chat import assert_error
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.providers.openai.responses import scripts as responses
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import (
    MESSAGES,
    PROMPT_ESTIMATE,
    ask,
    ask_streamed,
    assert_charged,
    assert_released,
    begin,
    disconnect,
    events,
    lost_nanos,
)
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import CLOSE, DONE, FINISH, HANG, KEY_ENV, ROLE, Script, chunk, event, refusal, reply, stream, words

TIERS = ["flex", "priority"]
# Nanodollars a token, of input, cached input and output.
PRICES = {
    **{"": (3_000, 300, 15_000), "flex": (1_500, 150, 7_500)},
    **{"priority": (6_000, 600, 30_000), "us": (3_300, 330, 16_500)},
}
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


def test_the_refusal_names_the_model_of_an_alias_and_the_tiers_that_it_has(api, alice, large, upstream):
    factories.change_prices(large.prices, flex_input_nanos=1, flex_output_nanos=1)
    RoutableAlias.objects.create(pk="best/general", model_ids=["acme/large"])
    error = assert_error(ask(api, model="best/general", service_tier="priority"), 400, "invalid_request_error", "service_tier")
    assert error["message"] == (
        "service_tier must be one of auto, default, scale, standard, on_demand, flex: priority has no price for acme/large."
    )
    assert upstream.requests == []
    assert not alice.holds.exists()


# What is asked for -> what is sent; at whose prices it is charged; and what the header of the reply names.
ASKED: dict[Any, tuple[str | None, str, str | None]] = {
    None: (None, "", None),
    "auto": (None, "", None),
    "default": ("default", "", None),
    "scale": (None, "", "service_tier"),
    "standard": ("default", "", None),
    "on_demand": ("default", "", None),
    "flex": ("flex", "flex", None),
    "priority": ("priority", "priority", None),
    "fast": ("priority", "priority", None),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_every_word_for_a_tier_means_the_same_in_chat_and_in_responses(api, alice, tiered, upstream, path, asked):
    sent, tier, named = ASKED[asked]
    upstream.will(answered(service_tier=tier or "default"))
    prompt = {"input": "Hello"} if path == "/v1/responses" else {"messages": [{"role": "user", "content": "Hello"}]}
    replied = api.post(path, {"model": "acme/large", "service_tier": asked, **prompt})
    assert (replied.status_code, replied.get("x-gateway-ignored-fields")) == (200, named)
    assert upstream.requests[0].body.get("service_tier") == sent
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


# --- What serves ------------------------------------------------------------------------------------------------------

# What is asked for, the reply's word, and at whose prices it is charged.
SERVED: dict[str, tuple[str | None, Any, str]] = {
    "asked priority, served flex": ("priority", "flex", "flex"),
    "asked priority, served the standard one": ("priority", "default", ""),
    "asked priority, served bought capacity": ("priority", "scale", ""),
    "asked priority, served it by another name": ("priority", "fast", "priority"),
    "asked priority, served what nobody knows": ("priority", "turbo", ""),
    "asked priority, no word": ("priority", None, "priority"),
    "asked priority, a word that says nothing": ("priority", "auto", "priority"),
    "asked priority, no word but a number": ("priority", 5, "priority"),
    "asked flex, served priority": ("flex", "priority", "priority"),
    "asked flex, served the standard one": ("flex", "default", ""),
    "asked flex, no word": ("flex", None, "flex"),
    "unasked, served priority": (None, "priority", "priority"),
    "unasked, served flex": (None, "flex", "flex"),
    "unasked, no word": (None, None, ""),
    "unasked, in capitals": (None, "PRIORITY", "priority"),
    "asked the standard one, served priority": ("default", "priority", "priority"),
}
HELD = {None: "priority", "priority": "priority", "flex": "", "default": ""}  # what is asked for -> the dearest that may serve
MAX_TOKENS = 100  # so many that a hold at the standard rates pays for what priority used


def serve(model: Any, upstream: Any, **provider: Any) -> None:
    """Have another provider serve the model."""
    model.routes.all().delete()
    url = upstream.url if provider["kind"] == "openai" else upstream.url.removesuffix("/v1")
    made = factories.make_provider("other", base_url=url, api_key_env=KEY_ENV, **provider)
    model.routes.create(provider=made, upstream_model="m")


def unrated(provider: str, tier: str) -> float:
    counted: float = metrics.unrated_tiers_total.labels(provider, tier)._value.get()
    return counted


def chat_reply(word: Any, *, is_stream: bool) -> Script:
    if not is_stream:
        return answered(service_tier=word)
    return stream(ROLE, words("Hi"), FINISH, event({"choices": [], "usage": USAGE, "service_tier": word}), DONE)


def responses_reply(word: Any, *, is_stream: bool) -> Script:
    counts = {"input_tokens": 109, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 2, "total_tokens": 111}
    make = responses.streamed if is_stream else responses.whole
    return make(responses.message("Hello you"), usage=counts, service_tier=word)


def assert_served(api: Any, alice: Any, asked: str | None, tier: str, *, held: str, is_stream: bool) -> None:
    """Ask, and assert what was charged and held, that the row says so, and that the audit computes the same."""
    fields = {"service_tier": asked, "max_tokens": MAX_TOKENS, "stream": is_stream}
    quoted = api.post("/v1/quote", {"model": "acme/large", "messages": MESSAGES, **fields}).json()
    replied = ask(api, **fields)
    assert replied.status_code == 200
    assert replied.getvalue()
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=cost(tier))
    done = Completion.objects.get()
    assert done.service_tier == (tier or None)
    assert api.get(f"/v1/completions/{done.pk}").json()["service_tier"] == (tier or "default")
    input_nanos, _, output_nanos = PRICES[held]
    held_nanos = quoted["prompt_tokens_max"] * input_nanos + MAX_TOKENS * output_nanos
    assert alice.holds.get().amount_nanos == held_nanos == round(quoted["max_cost"] * 10**9)


@pytest.mark.parametrize("case", SERVED)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ["chat", "responses"])
def test_the_tier_that_served_is_charged(api, alice, tiered, upstream, path, is_stream, case):
    asked, word, tier = SERVED[case]
    serve(tiered, upstream, kind="openai")
    tiered.routes.update(api=path)
    upstream.will({"chat": chat_reply, "responses": responses_reply}[path](word, is_stream=is_stream))
    before = unrated("other", "unknown")
    assert_served(api, alice, asked, tier, held=HELD[asked], is_stream=is_stream)
    assert unrated("other", "unknown") - before == (word == "turbo")


# What Anthropic and Google say -> at whose prices it is charged. Nobody can ask them for a tier.
ANTHROPIC: dict[str, tuple[dict[str, Any], str]] = {
    "standard": ({"service_tier": "standard", "speed": "standard", "inference_geo": "global"}, ""),
    "bought capacity": ({"service_tier": "priority"}, ""),
    "fast": ({"service_tier": "standard", "speed": "fast"}, "priority"),
    "in the United States": ({"service_tier": "standard", "inference_geo": "us"}, "us"),
    "of an old model": ({"inference_geo": "not_available"}, ""),
    "Claude at Vertex AI": ({"extra_properties": {"google": {"traffic_type": "ON_DEMAND_PRIORITY"}}}, "priority"),
}
GEMINI: dict[str, tuple[dict[str, Any], str]] = {
    "paid as used": ({"trafficType": "ON_DEMAND"}, ""),
    "bought capacity": ({"trafficType": "PROVISIONED_THROUGHPUT"}, ""),
    "untold": ({"trafficType": "TRAFFIC_TYPE_UNSPECIFIED"}, ""),
    "flex": ({"trafficType": "ON_DEMAND_FLEX"}, "flex"),
    "priority": ({"trafficType": "ON_DEMAND_PRIORITY"}, "priority"),
    "the Gemini API's priority": ({"serviceTier": "priority"}, "priority"),
    "the Gemini API's standard": ({"serviceTier": "standard"}, ""),
}


@pytest.fixture
def with_us(tiered):
    rates = zip(("input", "cached_input", "output"), PRICES["us"], strict=True)
    factories.change_prices(tiered.prices, **{f"us_{name}_nanos": price * 1_000_000 for name, price in rates})
    return tiered


@pytest.mark.parametrize("case", ANTHROPIC)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_the_tier_that_served_at_anthropic_is_charged(api, alice, with_us, upstream, is_stream, case):
    words_of_usage, tier = ANTHROPIC[case]
    serve(with_us, upstream, kind="anthropic")
    usage = {"input_tokens": 9, "cache_read_input_tokens": 100, "output_tokens": 2, **words_of_usage}
    ended = [claude.text("Hello you"), claude.message_delta(usage={"output_tokens": 2}), claude.STOP]
    upstream.will(stream(claude.start(usage), *ended) if is_stream else claude.whole(usage=usage))
    assert_served(api, alice, None, tier, held="priority", is_stream=is_stream)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_who_speaks_messages_is_charged_the_tier_that_served(api, alice, with_us, upstream, is_stream):
    serve(with_us, upstream, kind="anthropic")
    usage = {"input_tokens": 9, "cache_read_input_tokens": 100, "output_tokens": 2, "inference_geo": "us"}
    ended = [claude.text("Hello you"), claude.message_delta(usage={"output_tokens": 2}), claude.STOP]
    upstream.will(stream(claude.start(usage), *ended) if is_stream else claude.whole(usage=usage))
    asked = {"model": "acme/large", "max_tokens": MAX_TOKENS, "messages": MESSAGES, "stream": is_stream}
    assert api.post("/v1/messages", {**asked, "service_tier": "standard_only"}).getvalue()
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=cost("us"))
    quoted = api.post("/v1/messages/quote", {**asked, "service_tier": "standard_only"}).json()
    input_nanos, _, output_nanos = PRICES["us"]  # no request can ask for it, so that it may always serve
    assert alice.holds.get().amount_nanos == quoted["prompt_tokens_max"] * input_nanos + MAX_TOKENS * output_nanos


@pytest.mark.parametrize("case", GEMINI)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_the_tier_that_served_at_google_is_charged(api, alice, tiered, upstream, is_stream, case):
    words_of_usage, tier = GEMINI[case]
    serve(tiered, upstream, kind="gemini")
    counts = {"promptTokenCount": 109, "cachedContentTokenCount": 100, "candidatesTokenCount": 2, "totalTokenCount": 111}
    usage = {**counts, **words_of_usage}
    first, last = gemini.text_response("Hello "), gemini.text_response("you", finish="STOP", usage=usage)
    upstream.will(gemini.streamed(first, last) if is_stream else gemini.whole("Hello you", usage=usage))
    assert_served(api, alice, None, tier, held="priority", is_stream=is_stream)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_the_traffic_type_of_vertex_stands_inside_of_the_usage_of_a_chat_completion(api, alice, tiered, upstream, is_stream):
    usage = {**USAGE, "extra_properties": {"google": {"traffic_type": "ON_DEMAND_FLEX"}}}
    ended = stream(ROLE, words("Hi"), FINISH, event({"choices": [], "usage": usage}), DONE)
    upstream.will(ended if is_stream else answered(usage=usage))
    assert_served(api, alice, None, "flex", held="priority", is_stream=is_stream)


def test_the_last_word_of_a_stream_counts(api, alice, tiered, upstream):
    first = chunk({"role": "assistant", "content": ""}, service_tier="auto")
    ended = event({"choices": [], "usage": USAGE})
    upstream.will(stream(first, chunk({"content": "Hi"}, service_tier="priority"), FINISH, ended, DONE))
    assert_served(api, alice, None, "priority", held="priority", is_stream=True)


# Of a stream of Responses: what is asked for, the words at its begin and at its end, how it ends, and what is charged.
# OpenAI begins with the word of the request, or auto.
NAMED: dict[str, tuple[str | None, Any, Any, str, str]] = {
    "standard, then cut": ("priority", "default", None, "cut", ""),
    "standard, then an error": ("priority", "default", None, "error", ""),
    "standard, then a failure": ("priority", "default", None, "failed", ""),
    "standard, then a failure that names another": ("priority", "default", "flex", "failed", "flex"),
    "unasked flex, then cut": (None, "flex", None, "cut", "flex"),
    "unasked flex, then a failure": (None, "flex", None, "failed", "flex"),
    "unasked flex, then a failure that says nothing": (None, "flex", "auto", "failed", "flex"),
    "no word, then cut": ("priority", None, None, "cut", "priority"),
    "a word that says nothing, then cut": ("priority", "auto", None, "cut", "priority"),
    "flex, and none at the end": (None, "flex", None, "completed", "flex"),
    "flex, and a word that says nothing": (None, "flex", "auto", "completed", "flex"),
    "an echo, then the one that served": ("priority", "priority", "default", "completed", ""),
    "a word that says nothing, then the one that served": (None, "auto", "flex", "completed", "flex"),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_stream_of_responses_is_charged_at_the_tier_that_it_named_last(api, alice, tiered, upstream, case):
    asked, first, last, end, tier = NAMED[case]
    tiered.routes.update(api="responses")
    said = responses.message("abcdefgh")
    ends: dict[str, Any] = {
        "cut": CLOSE,
        "error": responses.error_event("server_error"),
        "failed": responses.failed("server_error", service_tier=last),
        "completed": responses.ended(said, usage=None, service_tier=last),
    }
    upstream.will(stream(responses.begun(service_tier=first), responses.said(0, said), 0.02, ends[end]))
    assert ask(api, service_tier=asked, stream=True).getvalue()
    settlement = "estimated" if end == "completed" else "partial"
    assert_charged(alice, settlement, prompt=PROMPT_ESTIMATE, completion=2, nanos=cost(tier, PROMPT_ESTIMATE, 2, 0))
    assert Completion.objects.get().service_tier == (tier or None)


@pytest.mark.parametrize("words_of_stream", [("flex", "auto"), ("priority", "flex"), ("default", "flex")], ids=str)
def test_the_last_word_that_says_anything_counts(api, alice, tiered, upstream, words_of_stream):
    first, last = words_of_stream
    ended = event({"choices": [], "usage": USAGE, "service_tier": last})
    upstream.will(stream(chunk({"content": "Hi"}, service_tier=first), FINISH, ended, DONE))
    assert_served(api, alice, None, "flex", held="priority", is_stream=True)


def test_responses_name_the_tier_that_was_charged(api, tiered, upstream):
    upstream.will(answered(service_tier="flex"))
    replied = api.post("/v1/responses", {"model": "acme/large", "input": "Hello", "service_tier": "priority"})
    assert replied.json()["service_tier"] == "flex"


def test_a_stream_that_breaks_off_is_charged_at_the_tier_that_it_named(api, alice, tiered, upstream):
    first = chunk({"role": "assistant", "content": ""}, service_tier="default")
    upstream.will(stream(first, chunk({"content": "abcdefgh"}, service_tier="default"), CLOSE))
    events(ask_streamed(api, service_tier="priority"))
    assert_charged(alice, "partial", prompt=PROMPT_ESTIMATE, completion=2, nanos=cost("", PROMPT_ESTIMATE, 2, 0))
    assert Completion.objects.get().service_tier is None


def test_an_estimate_is_charged_at_the_tier_that_served(api, alice, tiered, upstream):
    upstream.will(answered(usage=None, service_tier="flex"))
    ask(api, service_tier="priority")
    assert_charged(alice, "estimated", prompt=PROMPT_ESTIMATE, completion=3, nanos=cost("flex", PROMPT_ESTIMATE, 3, 0))


def test_what_a_dearer_tier_costs_above_the_hold_is_the_operators(api, alice, tiered, upstream):
    before = lost_nanos()
    upstream.will(answered(service_tier="priority", usage={"prompt_tokens": 9, "completion_tokens": 100}))
    ask(api, service_tier="flex", max_tokens=100)
    done, hold = Completion.objects.get(), alice.holds.get()
    assert (done.service_tier, done.cost_nanos) == ("priority", hold.amount_nanos)
    assert lost_nanos() - before == cost("priority", 9, 100, 0) - hold.amount_nanos > 0
    assert_ledger_is_consistent()


def test_another_host_is_not_sent_the_standard_tier(api, tiered, upstream):
    serve(tiered, upstream, kind="anthropic")
    upstream.will(claude.whole())
    assert ask(api, service_tier="default").status_code == 200
    assert "service_tier" not in upstream.requests[0].body


def test_the_standard_tier_of_messages_is_sent_to_openai(api, tiered, upstream):
    upstream.will(answered(service_tier="default"))
    asked = {"model": "acme/large", "max_tokens": 9, "messages": MESSAGES, "service_tier": "standard_only"}
    assert api.post("/v1/messages", asked).status_code == 200
    assert upstream.requests[0].body["service_tier"] == "default"


# --- A tier that serves and has no rates ------------------------------------------------------------------------------


@pytest.fixture
def _noted(db):
    """The notes of a test are written while there is a database."""
    charge._tier_next_at.clear()
    yield
    gevent.sleep(0)


@pytest.mark.parametrize(
    ("word", "label", "shown"),
    [("priority", "priority", "priority"), ("fast", "priority", "priority"), ("x" * 99, "unknown", "x" * 40)],
    ids=["one of ours", "by another name", "unknown"],
)
@pytest.mark.usefixtures("_noted")
def test_a_tier_without_rates_is_charged_at_the_standard_ones_and_noted(api, alice, large, upstream, word, label, shown):
    before = unrated("scripted", label)
    upstream.will(answered(service_tier=word))
    ask(api)
    assert_charged(alice, "reported", prompt=109, completion=2, cached=100, nanos=cost(""))
    assert Completion.objects.get().service_tier is None
    assert unrated("scripted", label) - before == 1
    gevent.sleep(0)  # a greenlet of its own writes the row
    assert large.routes.get().unrated_tier == shown


@pytest.mark.usefixtures("_noted")
def test_what_a_tier_without_rates_serves_is_noted_once_a_minute_and_counted_each_time(api, large, upstream):
    before = unrated("scripted", "flex")
    upstream.will(answered(service_tier="flex"))
    ask(api)
    gevent.sleep(0)
    large.routes.update(unrated_tier="")
    ask(api)
    gevent.sleep(0)
    assert unrated("scripted", "flex") - before == 2
    assert large.routes.get().unrated_tier == ""


@pytest.mark.usefixtures("_noted")
def test_a_tier_with_rates_is_not_noted(api, tiered, upstream):
    upstream.will(answered(service_tier="priority"))
    ask(api)
    gevent.sleep(0)
    assert tiered.routes.get().unrated_tier == ""


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
        tier: {
            "prompt": prompt,
            "completion": completion,
            "input_cache_read": cached,
            "input_cache_write": prompt,
            "image": "0.00",
        }
        for tier, prompt, completion, cached in (
            ("flex", "0.0000015", "0.0000075", "0.00000015"),
            ("priority", "0.000006", "0.00003", "0.0000006"),
        )
    }


@pytest.mark.one_cell
def test_a_settlement_that_waits_on_disk_keeps_its_tier(alice, tiered, upstream, api, tmp_path, settings):
    settings.OUTBOX_DIR = tmp_path
    upstream.will(answered(service_tier="priority"))
    ask(api, service_tier="priority")
    done = Completion.objects.get()
    path = tmp_path / f"{done.pk}.json"
    written: dict[str, Any] = {
        "version": record.VERSION,
        "completion": done.pk,
        "served_by": [done.model_id, done.price_id, done.provider_id, 1],
        "settlement": "reported",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "tier": "priority"},
        "cost_nanos": 1,
        "reply_retention": None,
    }
    path.write_text(json.dumps(written))
    read = record.load(path, done)
    assert (read.completion.service_tier, read.usage and read.usage.tier) == ("priority", "priority")
    path.write_text(json.dumps({**written, "usage": {**written["usage"], "tier": "gratis"}}))
    with pytest.raises(record.Unreadable, match="no such service tier"):
        record.load(path, done)


@pytest.mark.parametrize("words", [{"speed": "fast", "inference_geo": "us"}, {"inference_geo": "us", "speed": "fast"}])
def test_of_two_tiers_that_serve_the_dearer_one_is_charged_whatever_stands_first(words):
    assert served_tiers.read(words, served_tiers.WORDS_OF_MESSAGES, ("priority", "us")) == ("priority", "")
    assert served_tiers.read(words, served_tiers.WORDS_OF_MESSAGES, ("us",)) == ("us", "priority")
