"""Searches of the web by OpenAI, in its Responses: refused without a price, held for, and charged one by one."""

import json
from typing import Any

import pytest

from billing.models import LedgerEntry
from completions.models import Completion
from gateway_project import metrics
from tests import factories
from tests.chat import assert_error
from tests.completions.providers.openai.responses import scripts
from tests.completions.rows import assert_charged, lost_nanos
from tests.upstream import CLOSE, KEY_ENV, event, stream, whole

SEARCH = {"type": "web_search", "search_context_size": "low"}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
SEARCHED = {"type": "search", "query": "tides"}
OPENED = {"type": "open_page", "url": "https://example.org"}
CITED = {"type": "url_citation", "url": "https://example.org", "title": "Tides", "start_index": 0, "end_index": 5}
HELLO = scripts.message("Hello you")
HELLO["content"][0]["annotations"] = [CITED]
INPUT, CACHED, OUTPUT, EACH, CONTEXT = 3_000, 300, 15_000, 10_000_000, 100_000
TOKENS_NANOS = 5 * INPUT + 4 * CACHED + 7 * OUTPUT
COUNTS: Any = {"prompt": 9, "cached": 4, "completion": 7}


def searched(number: int, action: Any = SEARCHED) -> dict[str, Any]:
    return {"id": f"ws_{number}", "type": "web_search_call", "status": "completed", "action": action}


def asked(api: Any, *tools: Any, **fields: Any) -> Any:
    body = {"model": "acme/large", "input": "Say hello, please.", "max_tool_calls": 2, "tools": list(tools or (SEARCH,))}
    return api.post("/v1/responses", {**body, **fields})


def streamed(*items: Any) -> Any:
    parts = []
    for index, item in enumerate((*items, HELLO)):
        parts.append(event({"type": "response.output_item.added", "output_index": index, "item": item}))
        if item is HELLO:
            place = {"output_index": index, "content_index": 0}
            parts.append(event({"type": "response.output_text.delta", **place, "delta": "Hello you"}))
            parts.append(event({"type": "response.output_text.annotation.added", **place, "annotation": CITED}))
        parts.append(event({"type": "response.output_item.done", "output_index": index, "item": item}))
    return stream(scripts.begun(), *parts, scripts.ended(*items, HELLO))


@pytest.fixture
def model(upstream, db):
    provider = factories.make_provider("openai", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    prices: Any = {"input": "3.00", "output": "15.00", "cached_input": "0.30", "upstream_model": "gpt-5.5"}
    made = factories.make_model(
        "acme/large", provider=provider, function_calling=True, context_window=CONTEXT, max_output_tokens=4_096, **prices
    )
    made.routes.update(api="responses")
    return made


@pytest.fixture
def searching(model):
    """The same model, where a search has a price."""
    factories.change_prices(model.prices, web_search_nanos=EACH)
    return model


def test_without_a_price_a_search_is_refused_by_name(api, alice, model, upstream):
    assert_error(asked(api, TOOL, SEARCH), 400, "invalid_request_error", "tools[1].type")
    assert upstream.requests == []
    assert not alice.holds.exists()


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini", "echo"])
def test_a_provider_without_responses_is_not_asked(api, alice, searching, upstream, kind):
    searching.routes.all().delete()
    provider = factories.make_provider(f"an-{kind}", kind=kind, base_url=upstream.url)
    searching.routes.create(provider=provider, upstream_model="m")
    assert_error(asked(api, TOOL, SEARCH), 400, "invalid_request_error", "tools[1].type")
    assert upstream.requests == []


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("actions", "number"), [([], 0), ([SEARCHED], 1), ([SEARCHED, OPENED, None], 2)], ids=str)
def test_each_search_is_charged_and_told(api, alice, searching, upstream, is_stream, actions, number):
    items = [searched(index, action) for index, action in enumerate(actions)]
    upstream.will(streamed(*items) if is_stream else scripts.whole(*items, HELLO))
    told = asked(api, TOOL, SEARCH, stream=is_stream).getvalue().decode()
    [sent] = upstream.requests
    assert (sent.body["tools"][-1], sent.body["max_tool_calls"]) == (SEARCH, 2)
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS + number * EACH)
    done = json.loads(told.rpartition("event: response.completed\ndata: ")[2])["response"] if is_stream else json.loads(told)
    assert [item["type"] for item in done["output"]] == ["web_search_call"] * len(actions) + ["message"]
    assert [item["action"] for item in done["output"][:-1]] == [action or {"type": "search"} for action in actions]
    assert done["output"][-1]["content"][0]["annotations"] == [CITED]
    assert (done["max_tool_calls"], "response.output_text.annotation.added" in told) == (2, is_stream)
    entry = LedgerEntry.objects.get(type=LedgerEntry.Type.USAGE_DEBIT)
    assert (Completion.objects.get().web_searches, entry.metadata.get("webSearches")) == (number or None,) * 2


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_search_that_failed_costs_nothing(api, alice, searching, upstream, is_stream):
    items = [{**searched(0), "status": "failed"}, searched(1)]
    upstream.will(streamed(*items) if is_stream else scripts.whole(*items, HELLO))
    assert asked(api, stream=is_stream).getvalue()
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS + EACH)
    assert Completion.objects.get().web_searches == 1


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_more_searches_than_were_asked_for_are_the_operators_loss(api, alice, searching, upstream, is_stream):
    loss, counter = lost_nanos("openai"), metrics.usage_contradictions_total.labels("openai")
    contradictions, items = counter._value.get(), [searched(number) for number in range(5)]
    upstream.will(streamed(*items) if is_stream else scripts.whole(*items, HELLO))
    assert asked(api, stream=is_stream).getvalue()
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS + 2 * EACH)
    assert Completion.objects.get().web_searches == 2
    assert (lost_nanos("openai") - loss, counter._value.get() - contradictions) == (3 * EACH, 1)


def test_sources_are_asked_for(api, searching, upstream):
    upstream.will(scripts.whole(HELLO))
    assert asked(api, include=["web_search_call.action.sources"]).status_code == 200
    assert "web_search_call.action.sources" in upstream.requests[0].body["include"]


def test_the_hold_is_for_every_search_and_a_whole_context_window_after_each(api, alice, searching, upstream):
    upstream.will(scripts.whole(HELLO))
    asked(api, max_output_tokens=20)
    assert alice.holds.get().amount_nanos == 3 * CONTEXT * INPUT + 2 * EACH + 20 * OUTPUT


def test_a_stream_that_breaks_off_is_charged_no_search(api, alice, searching, upstream):
    """No usage came that would say how many there were."""
    item = event({"type": "response.output_item.done", "output_index": 0, "item": searched(0)})
    delta = event({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "abcdefgh"})
    upstream.will(stream(scripts.begun(), item, delta, CLOSE))
    asked(api, stream=True).getvalue()
    assert_charged(alice, "partial", prompt=5, completion=2, nanos=5 * INPUT + 2 * OUTPUT)


def test_a_conversation_goes_on_after_a_search(api, alice, searching, upstream):
    upstream.will(scripts.whole(searched(0), HELLO), scripts.whole(HELLO))
    earlier = asked(api).json()["id"]
    assert asked(api, previous_response_id=earlier)["x-gateway-ignored-fields"] == "input.web_search_call"
    assert [item["type"] for item in upstream.requests[1].body["input"]] == ["message"] * 3


def test_what_was_searched_unasked_is_neither_told_nor_charged(api, alice, searching, upstream):
    upstream.will(scripts.whole(searched(0), HELLO))
    replied = api.post("/v1/responses", {"model": "acme/large", "input": "Say hello, please."})
    assert [item["type"] for item in replied.json()["output"]] == ["message"]
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS)


@pytest.mark.parametrize("tools", [(SEARCH,), (TOOL, SEARCH)], ids=["alone", "beside a function"])
def test_a_choice_of_no_tool_searches_and_holds_nothing(api, alice, searching, upstream, tools):
    upstream.will(scripts.whole(HELLO))
    assert asked(api, *tools, tool_choice="none", max_output_tokens=20).status_code == 200
    assert SEARCH not in upstream.requests[0].body.get("tools", [])
    assert alice.holds.get().amount_nanos < EACH


@pytest.mark.parametrize(
    "odd",
    [
        {"annotations": 5},
        {"web_searches": "x"},
        {"annotations": [{"type": "file_citation"}]},
        {"web_searches": [{"type": "x"}]},
    ],
    ids=str,
)
def test_other_upstreams_neither_cite_nor_search(api, alice, large, upstream, odd):
    upstream.will(whole(message={"role": "assistant", "content": "Hello you", **odd}))
    replied = api.post("/v1/responses", {"model": "acme/large", "input": "Say hello, please."})
    [item] = replied.json()["output"]
    assert (item["type"], item["content"][0]["annotations"]) == ("message", [])
    assert set(alice.holds.values_list("state", flat=True)) == {"SETTLED"}


@pytest.mark.parametrize("odd", [{"annotations": [{"url": "x"}, 5]}, {"annotations": {}}], ids=str)
def test_what_is_no_citation_is_left_out(api, alice, searching, upstream, odd):
    message = scripts.message("Hello you")
    message["content"][0] |= odd
    upstream.will(scripts.whole(searched(0, "a text"), message))
    output = asked(api).json()["output"]
    assert (output[0]["action"], output[1]["content"][0]["annotations"]) == ({"type": "search"}, [])
    assert_charged(alice, "reported", **COUNTS, nanos=TOKENS_NANOS + EACH)
