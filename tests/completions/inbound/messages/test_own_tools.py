"""Anthropic's own tools that run at the caller, citations, deferred tools: Claude gets them as they came, and others do not."""

import json
from typing import Any

from completions.models import Completion
from tests import factories
from tests.completions.inbound.messages.requests import HELLO, ask, assert_error, events
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.rows import assert_charged
from tests.upstream import stream, whole

BASH = {"type": "bash_20250124", "name": "bash"}
EDITOR = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9_000}
COMPUTER = {"type": "computer_20251124", "name": "computer", "display_width_px": 1_024, "display_height_px": 768}
CITED = {"type": "text", "text": "Twice.", "citations": [{"type": "search_result_location", "cited_text": "Twice a day."}]}
FOUND = {
    "type": "search_result",
    "title": "Tides",
    "source": "https://example.org/tides",
    "content": [{"type": "text", "text": "Twice a day."}],
    "citations": {"enabled": True},
}
DOCUMENT = {
    "type": "document",
    "title": "A tale",
    "context": "Of 1880.",
    "source": {"type": "text", "media_type": "text/plain", "data": "Once."},
    "citations": {"enabled": True},
}
TURNS = [
    {"role": "user", "content": [DOCUMENT, FOUND, {"type": "text", "text": "How often?"}]},
    {"role": "assistant", "content": [CITED]},
    {"role": "user", "content": "Sure?"},
]
CHARGED: Any = {"prompt": 124, "cached": 100, "completion": 7, "nanos": 4 * 3_000 + 100 * 300 + 20 * 3_000 + 7 * 15_000}


def test_claude_gets_its_own_tools_with_the_beta_that_they_need(api, alice, sonnet, upstream):
    call = claude.tool_use_block("toolu_1", "bash", command="wc -w notes.txt")
    upstream.will(claude.whole(call, stop_reason="tool_use"))
    tools = [BASH, EDITOR, COMPUTER, {"type": "memory_20250818", "name": "memory"}]
    reply = ask(api, model="acme/sonnet", tools=tools, headers={"anthropic-beta": "effort-2025-11-24"})
    assert reply.json()["content"] == [call]
    [sent] = upstream.requests
    assert sent.body["tools"] == tools
    assert sent.headers["anthropic-beta"] == "effort-2025-11-24,computer-use-2025-11-24"
    assert "x-gateway-ignored-fields" not in reply
    assert_charged(alice, "reported", **CHARGED, model="acme/sonnet")


def test_without_a_computer_no_beta_is_added(api, sonnet, upstream):
    upstream.will(claude.whole())
    assert ask(api, model="acme/sonnet", tools=[BASH]).status_code == 200
    assert "anthropic-beta" not in upstream.requests[0].headers


def test_the_hold_has_tokens_for_what_anthropic_says_of_its_tools(api, alice, sonnet, upstream):
    upstream.will(claude.whole(), claude.whole())
    held = []
    for tools in ([], [BASH], [BASH, EDITOR]):
        ask(api, model="acme/sonnet", tools=tools)
        held.append(alice.holds.get(pk=Completion.objects.latest("id").pk).amount_nanos)
    assert held[1] - held[0] >= (1_024 + 4_096) * 3_000
    assert held[2] - held[1] >= 4_096 * 3_000


def test_other_models_refuse_them_by_name_and_nothing_is_held(api, alice, large, upstream):
    large.function_calling = True
    large.save()
    own = {"name": "add", "input_schema": {"type": "object"}}
    refused = ask(api, tools=[own, BASH])
    assert_error(refused, 400, "invalid_request_error", "tools[1].type is a tool of Anthropic's own")
    assert upstream.requests == []
    assert not alice.holds.exists()


def test_a_route_to_another_kind_of_provider_is_not_eligible(api, sonnet, upstream):
    other = factories.make_provider("other", kind="openai", base_url=upstream.url)
    sonnet.routes.create(provider=other, upstream_model="claude", priority=0)
    upstream.will(claude.refusal(404, "not_found_error"))
    assert ask(api, model="acme/sonnet", tools=[BASH]).status_code == 502
    assert {sent.body["model"] for sent in upstream.requests} == {"claude-sonnet-4-5"}


def test_a_fallback_of_another_maker_is_not_asked(api, large, sonnet, upstream):
    large.function_calling = True
    large.save()
    upstream.will(claude.refusal(404, "not_found_error"))
    assert ask(api, model="acme/sonnet", models=["acme/large"], tools=[BASH]).status_code == 502
    assert len(upstream.requests) == 1


# --- Citations --------------------------------------------------------------------------------------------------------


def test_claude_gets_documents_and_search_results_to_cite(api, sonnet, upstream):
    upstream.will(claude.whole(CITED))
    reply = ask(api, model="acme/sonnet", messages=TURNS)
    assert upstream.requests[0].body["messages"] == TURNS
    assert reply.json()["content"] == [CITED]
    assert "x-gateway-ignored-fields" not in reply


def test_citations_are_streamed_as_they_come(api, alice, sonnet, upstream):
    delta = claude.block_delta(0, "citations_delta", citation=CITED["citations"][0])
    said = [claude.block_start(0, {**CITED, "text": "", "citations": []}), delta, claude.block_stop(0)]
    upstream.will(stream(claude.start(), *said, claude.message_delta(), claude.STOP))
    _, *blocks, _, _ = events(ask(api, model="acme/sonnet", messages=TURNS, stream=True))
    assert b"".join(claude.event(block) for block in blocks) == b"".join(said)
    assert_charged(alice, "reported", **CHARGED, model="acme/sonnet")


def test_other_models_get_the_text_and_the_reply_says_that_they_cite_nothing(api, large, upstream):
    upstream.will(whole())
    reply = ask(api, messages=TURNS)
    sent = json.dumps(upstream.requests[0].body["messages"])
    for text in ("A tale\\n\\nOf 1880.\\n\\nOnce.", "Tides\\nhttps://example.org/tides\\n\\nTwice a day.", "Twice."):
        assert text in sent
    assert "citations" not in sent
    assert reply["x-gateway-ignored-fields"] == "messages.citations"


# --- Deferred tools and examples --------------------------------------------------------------------------------------

ADD = {"name": "add", "input_schema": {"type": "object"}, "input_examples": [{"a": 1}], "defer_loading": True}
SEARCH = {"name": "search", "input_schema": {"type": "object"}}
SEARCHED = [
    *HELLO,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "search", "input": {}}]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "add"}]}],
    },
]


def test_claude_gets_deferred_tools_and_what_was_found_of_them(api, sonnet, upstream):
    upstream.will(claude.whole())
    reply = ask(api, model="acme/sonnet", messages=SEARCHED, tools=[ADD, SEARCH])
    [sent] = upstream.requests
    assert (sent.body["messages"], sent.body["tools"]) == (SEARCHED, [ADD, SEARCH])
    assert "x-gateway-ignored-fields" not in reply


def test_other_models_get_every_tool_at_once(api, large, upstream):
    large.function_calling = True
    large.save()
    upstream.will(whole())
    reply = ask(api, messages=SEARCHED, tools=[ADD, SEARCH])
    [sent] = upstream.requests
    assert [tool["function"]["name"] for tool in sent.body["tools"]] == ["add", "search"]
    assert not {"input_examples", "defer_loading"} & {*sent.body["tools"][0], *sent.body["tools"][0]["function"]}
    assert sent.body["messages"][-1]["content"] == [{"type": "text", "text": "The tool add is there."}]
    assert reply["x-gateway-ignored-fields"] == "tools.defer_loading, tools.input_examples"
