"""Searches of the web by the provider: refused without a price, held for with all they may read, and charged by use."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from billing.models import LedgerEntry
from completions.models import Completion, Price
from gateway_project import metrics
from tests import factories
from tests.completions.pricing.searches import FOUND, SEARCH, SEARCHED
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.rows import assert_charged, assert_released, lost_nanos
from tests.upstream import CLOSE, KEY_ENV, stream, whole

QUESTION = [{"role": "user", "content": "Say hello, please."}]
FAILED = {**FOUND, "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}
INPUT, OUTPUT, CACHED, EACH = 3_000, 15_000, 300, 10_000_000  # nanodollars a token, and a search
CONTEXT = 100_000
USAGE = {"input_tokens": 50_000, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0, "output_tokens": 7}
TOKENS_NANOS = 50_000 * INPUT + 100 * CACHED + 7 * OUTPUT
COUNTS: Any = {"prompt": 50_100, "cached": 100, "completion": 7}


def used(searches: int) -> dict[str, Any]:
    return {**USAGE, "server_tool_use": {"web_search_requests": searches}}


def asked(api: Any, *tools: Any, messages: Any = QUESTION, **fields: Any) -> Any:
    """Ask in Anthropic's Messages."""
    body = {"model": "acme/large", "max_tokens": 10, "messages": messages, "tools": list(tools or (SEARCH,)), **fields}
    return api.post("/v1/messages", body)


def streamed(*blocks: Any, usage: Any, ends: bool = True) -> Any:
    begun = claude.start({**USAGE, "input_tokens": 9, "output_tokens": 1})
    sent = [claude.block_start(index, block) + claude.block_stop(index) for index, block in enumerate(blocks)]
    ended = [claude.message_delta(usage=usage), claude.STOP] if ends else [CLOSE]
    return stream(begun, *sent, claude.text("Hi", index=len(blocks)), *ended)


@pytest.fixture
def model(upstream, db):
    provider = factories.make_provider(
        "claude", kind="anthropic", base_url=upstream.url.removesuffix("/v1"), api_key_env=KEY_ENV
    )
    prices: Any = {"input": "3.00", "output": "15.00", "cached_input": "0.30", "upstream_model": "claude-haiku-4-5"}
    return factories.make_model(
        "acme/large", provider=provider, function_calling=True, context_window=CONTEXT, max_output_tokens=4_096, **prices
    )


@pytest.fixture
def searching(model):
    """The same model, where a search has a price."""
    factories.change_prices(model.prices, web_search_nanos=EACH)
    return model


# --- Where there is no price ------------------------------------------------------------------------------------------


def test_without_a_price_a_search_is_refused_by_name(api, alice, model, upstream):
    told = asked(api).json()["error"]
    assert (told["type"], told["message"]) == (
        "invalid_request_error",
        "tools[0].type is web_search, which has no price for acme/large.",
    )
    assert upstream.requests == []
    assert not alice.holds.exists()


def test_a_fallback_without_a_price_is_not_asked(api, alice, searching, upstream):
    provider = searching.routes.get().provider
    factories.make_model("acme/plain", provider=provider, upstream_model="claude-plain", function_calling=True)
    upstream.will(claude.refusal(404, "not_found_error"))
    assert asked(api, models=["acme/plain"]).status_code == 502
    assert [sent.body["model"] for sent in upstream.requests] == ["claude-haiku-4-5"]
    assert_released(alice)


def test_another_makers_model_is_not_asked(api, alice, large, upstream):
    large.function_calling = True
    large.save()
    factories.change_prices(large.prices, web_search_nanos=EACH)
    assert asked(api).json()["error"]["message"].startswith("tools[0].type ")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ({**SEARCH, "max_uses": None}, "max_uses"),
        ({**SEARCH, "max_uses": 0}, "max_uses"),
        ({**SEARCH, "max_uses": 101}, "max_uses"),
        ({**SEARCH, "type": "web_search_20260209"}, "allowed_callers"),
        ({"type": "code_execution_20250825", "name": "code_execution"}, "type"),
        ({"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 1}, "type"),
    ],
    ids=str,
)
def test_what_nothing_bounds_or_prices_is_refused(api, alice, searching, upstream, tool, field):
    assert asked(api, tool).json()["error"]["message"].startswith(f"tools[0].{field} ")
    assert upstream.requests == []
    assert not alice.holds.exists()


# --- Where there is one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("searches", [0, 1, 2])
def test_each_search_is_charged_as_the_provider_reports(api, alice, searching, upstream, is_stream, searches):
    upstream.will(
        streamed(SEARCHED, FOUND, usage=used(searches))
        if is_stream
        else claude.whole(SEARCHED, FOUND, claude.text_block("Hi"), usage=used(searches))
    )
    told = asked(api, stream=is_stream).getvalue().decode()
    assert upstream.requests[0].body["tools"] == [SEARCH]
    nanos = TOKENS_NANOS + searches * EACH
    assert_charged(alice, "reported", **COUNTS, nanos=nanos)
    assert f'"cost":{nanos / 10**9:.9f}'.rstrip("0") in told
    assert f'"server_tool_use":{{"web_search_requests":{searches}}}' in told
    assert '"encrypted_content":"EqgfCio"' in told
    entry = LedgerEntry.objects.get(type=LedgerEntry.Type.USAGE_DEBIT)
    assert (Completion.objects.get().web_searches, entry.metadata.get("webSearches")) == (searches or None,) * 2


def test_a_search_that_is_called_by_the_model_itself_is_passed_on(api, alice, searching, upstream):
    tool = {**SEARCH, "type": "web_search_20260209", "allowed_callers": ["direct"], "user_location": {"type": "approximate"}}
    upstream.will(claude.whole(usage=used(1)))
    assert asked(api, tool).status_code == 200
    assert upstream.requests[0].body["tools"] == [tool]
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS + EACH)


def test_the_hold_is_for_every_search_and_a_whole_context_window_after_each(api, alice, searching, upstream):
    upstream.will(claude.whole(usage=used(2)))
    tools = [SEARCH, {**SEARCH, "name": "web_search", "max_uses": 1}]
    body = {"model": "acme/large", "max_tokens": 10, "messages": QUESTION, "tools": tools}
    quoted = api.post("/v1/messages/quote", body).json()
    replied = asked(api, *tools)
    held_nanos = (1 + 3) * CONTEXT * INPUT + 3 * EACH + 10 * OUTPUT
    assert alice.holds.get().amount_nanos == held_nanos == round(quoted["max_cost"] * 10**9)
    assert quoted["prompt_tokens_max"] == 4 * CONTEXT
    assert replied["x-gateway-max-cost"] == f"{held_nanos / 10**9:.9f}".rstrip("0")


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("asked_for", [1, 2])
def test_more_searches_than_were_asked_for_are_the_operators_loss(api, alice, searching, upstream, is_stream, asked_for):
    loss, counter = lost_nanos("claude"), metrics.usage_contradictions_total.labels("claude")
    contradictions = counter._value.get()
    usage = {**used(50), "input_tokens": 9}
    told = claude.whole(SEARCHED, FOUND, claude.text_block("Hi"), usage=usage)
    upstream.will(streamed(SEARCHED, FOUND, usage=usage) if is_stream else told)
    assert asked(api, {**SEARCH, "max_uses": asked_for}, max_tokens=4_000, stream=is_stream).getvalue()
    nanos = 9 * INPUT + 100 * CACHED + 7 * OUTPUT + asked_for * EACH
    assert_charged(alice, "reported", prompt=109, cached=100, completion=7, nanos=nanos)
    assert Completion.objects.get().web_searches == asked_for
    assert (lost_nanos("claude") - loss, counter._value.get() - contradictions) == ((50 - asked_for) * EACH, 1)
    assert alice.unpaid_until is None


# How many results and errors came, and what the provider counts -> what is paid. Its documents: an error is not billed.
FAILURES = {
    "counted with the results": ([FOUND, FAILED], 2, 1),
    "not counted": ([FOUND, FAILED], 1, 1),
    "counted alone": ([FAILED], 1, 0),
    "counted as none": ([FAILED], 0, 0),
    "two of three": ([FAILED, FOUND, FAILED], 3, 1),
}


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("blocks", "reported", "paid"), FAILURES.values(), ids=FAILURES.keys())
def test_a_search_that_failed_costs_nothing(api, alice, searching, upstream, is_stream, blocks, reported, paid):
    sent = [each for block in blocks for each in (SEARCHED, block)]
    told = claude.whole(*sent, claude.text_block("Hi"), usage=used(reported))
    upstream.will(streamed(*sent, usage=used(reported)) if is_stream else told)
    assert asked(api, stream=is_stream).getvalue()
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS + paid * EACH)
    assert Completion.objects.get().web_searches == (paid or None)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_searches_that_nobody_asked_for_are_the_operators_loss(api, alice, searching, upstream, is_stream, path):
    loss, counter = lost_nanos("claude"), metrics.usage_contradictions_total.labels("claude")
    contradictions = counter._value.get()
    usage = {**used(3), "input_tokens": 9}
    told = claude.whole(SEARCHED, FOUND, claude.text_block("Hi"), usage=usage)
    upstream.will(streamed(SEARCHED, FOUND, usage=usage) if is_stream else told)
    assert api.post(path, {"model": "acme/large", "max_tokens": 4_000, "messages": QUESTION, "stream": is_stream}).getvalue()
    nanos = 9 * INPUT + 100 * CACHED + 7 * OUTPUT
    assert_charged(alice, "reported", prompt=109, cached=100, completion=7, nanos=nanos)
    assert Completion.objects.get().web_searches is None
    assert (lost_nanos("claude") - loss, counter._value.get() - contradictions) == (3 * EACH, 1)


@pytest.mark.parametrize("reported", [None, {}, {"web_search_requests": -1}, {"web_search_requests": "many"}], ids=str)
def test_no_report_of_searches_is_none(api, alice, searching, upstream, reported):
    upstream.will(claude.whole(usage={**USAGE, "server_tool_use": reported}))
    asked(api)
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS)


def test_a_stream_that_breaks_off_is_charged_the_searches_that_it_told(api, alice, searching, upstream):
    upstream.will(streamed(SEARCHED, FOUND, SEARCHED, FAILED, usage=None, ends=False))
    asked(api, stream=True).getvalue()
    nanos = 9 * INPUT + 100 * CACHED + OUTPUT + EACH
    assert_charged(alice, "partial", prompt=109, cached=100, completion=1, nanos=nanos)


def test_a_search_in_the_history_is_sent_back_as_it_came(api, alice, searching, upstream):
    upstream.will(claude.whole(usage=used(0)))
    turns = [*QUESTION, {"role": "assistant", "content": [SEARCHED, FOUND, {"type": "text", "text": "Hi"}]}, *QUESTION]
    assert asked(api, messages=turns).status_code == 200
    assert upstream.requests[0].body["messages"] == turns


@pytest.mark.parametrize("mark", [{"type": "ephemeral", "ttl": "1h"}, 5], ids=str)
def test_a_search_in_the_history_is_not_kept_for_an_hour(api, alice, searching, upstream, mark):
    found = [SEARCHED, {**FOUND, "cache_control": mark}]
    refused = asked(api, messages=[*QUESTION, {"role": "assistant", "content": found}, *QUESTION])
    assert refused.status_code == 400
    assert "messages[1].content[1].cache_control" in refused.json()["error"]["message"]
    assert upstream.requests == []
    assert not alice.holds.exists()


def test_another_model_goes_on_without_the_searches_and_the_reply_says_so(api, large, upstream):
    upstream.will(whole())
    turns = [*QUESTION, {"role": "assistant", "content": [SEARCHED, FOUND, {"type": "text", "text": "Hi"}]}, *QUESTION]
    replied = api.post("/v1/messages", {"model": "acme/large", "max_tokens": 10, "messages": turns})
    assert replied["x-gateway-ignored-fields"] == "messages.server_tool_use, messages.web_search_tool_result"
    assert upstream.requests[0].body["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}


# --- Where it is kept and shown ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("searching")
def test_the_price_is_in_the_list_of_models(api):
    assert api.get("/v1/models/acme/large").json()["pricing"]["web_search"] == "0.01"
    factories.make_model("acme/plain")
    assert "web_search" not in api.get("/v1/models/acme/plain").json()["pricing"]  # OpenRouter's SDKs refuse null


def test_a_completion_tells_its_searches(api, searching, upstream):
    upstream.will(claude.whole(usage=used(2)))
    completion_id = asked(api).json()["id"]
    assert api.get(f"/v1/completions/{completion_id}").json()["usage"]["web_searches"] == 2


def test_a_negative_price_is_not_stored(model):
    with pytest.raises(IntegrityError), transaction.atomic():
        Price.objects.create(model=model, rates=factories.rates_of(input_nanos=1, output_nanos=1, web_search_nanos=-1))


def test_what_was_charged_for_searches_is_never_changed(api, searching, upstream):
    upstream.will(claude.whole(usage=used(2)))
    asked(api)
    with pytest.raises(Exception, match="stays as it is"), transaction.atomic():
        Completion.objects.update(web_searches=0)
