"""What a cloud lacks of a maker's API is refused by name before money is held; another route that has it serves instead."""

from typing import Any

import pytest

from completions.models import Route
from tests import factories
from tests.chat import everything_written
from tests.completions.providers.anthropic import scripts as claude
from tests.upstream import KEY_ENV

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
BASH, EDITOR = (
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
)
SCHEMA = {"type": "object", "properties": {}}
HELLO = [{"role": "user", "content": "Hello"}]
LACKING_SEARCH = ["azure", "bedrock", "bedrock-mantle"]
LACKING_FORMATS = ["azure", "bedrock-mantle"]


@pytest.fixture
def at(upstream, db):
    """Make a model whose first provider is at a platform, with searches that have a price."""

    def make(platform, speaks="anthropic", upstream_model="claude-haiku-4-5", **model):
        address = {"base_url": upstream.url.removesuffix("/v1"), "api_key_env": KEY_ENV}
        provider = factories.make_provider("cloud", kind=speaks, access={"platform": platform}, **address)
        named = {"provider": provider, "upstream_model": upstream_model}
        large = factories.make_model("acme/large", function_calling=True, **named, **model)
        factories.change_prices(large.prices, web_search_nanos=10_000_000)
        return large

    return make


def ask(api: Any, path: str = "/v1/messages", **fields: Any) -> Any:
    return api.post(path, {"model": "acme/large", "max_tokens": 100, "messages": HELLO, **fields})


def assert_refused(reply: Any, upstream: Any, words: str) -> None:
    assert (reply.status_code, reply.json()["error"]["message"]) == (400, words)
    assert upstream.requests == []


@pytest.mark.parametrize("platform", LACKING_SEARCH)
def test_a_search_of_the_web_is_refused_where_it_does_not_run(api, alice, at, upstream, platform):
    at(platform)
    before = everything_written()
    told = ask(api, tools=[BASH, SEARCH])
    assert_refused(told, upstream, "tools[1].type asks for a search of the web, which cloud does not have.")
    assert everything_written() == before


def test_another_route_that_has_it_serves(api, alice, at, upstream):
    model = at("bedrock")
    maker = factories.make_provider("maker", kind="anthropic", base_url=upstream.url.removesuffix("/v1"), api_key_env=KEY_ENV)
    Route.objects.create(model=model, provider=maker, upstream_model="claude-haiku-4-5", priority=9)
    upstream.will(claude.whole())
    for fields, provider in (({"tools": [SEARCH]}, "maker"), ({"tools": [BASH]}, "cloud")):
        reply = ask(api, **fields)
        assert (reply.status_code, reply["x-gateway-provider"]) == (200, provider)


@pytest.mark.parametrize("platform", [*LACKING_SEARCH, "vertex"])
def test_tools_that_run_at_the_caller_are_sent(api, alice, at, upstream, platform):
    at(platform)
    upstream.will(claude.whole())
    assert ask(api, tools=[BASH, EDITOR]).status_code == 200
    assert [tool["type"] for tool in upstream.requests[0].body["tools"]] == [BASH["type"], EDITOR["type"]]


@pytest.mark.parametrize(("platform", "beta"), [("vertex", "web-search-2025-03-05"), ("azure-anthropic", None)])
def test_a_search_of_the_web_is_sent_where_it_runs(api, alice, at, upstream, platform, beta):
    at(platform)
    upstream.will(claude.whole())
    assert ask(api, tools=[SEARCH]).status_code == 200
    assert upstream.requests[0].body["tools"] == [SEARCH]
    assert upstream.requests[0].headers.get("anthropic-beta") == beta


@pytest.mark.parametrize("platform", LACKING_FORMATS)
def test_a_schema_of_the_reply_is_refused_in_the_callers_words(api, alice, at, upstream, platform):
    at(platform)
    told = ask(api, output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
    assert_refused(told, upstream, "output_config.format asks for a schema of the reply, which cloud does not have.")
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    told = ask(api, "/v1/chat/completions", response_format=wanted)
    assert_refused(told, upstream, "response_format asks for a schema of the reply, which cloud does not have.")


@pytest.mark.parametrize("platform", ["vertex", "bedrock", "azure-anthropic"])
def test_a_schema_of_the_reply_is_sent_to_the_others(api, alice, at, upstream, platform):
    at(platform)
    upstream.will(claude.whole())
    assert ask(api, output_config={"format": {"type": "json_schema", "schema": SCHEMA}}).status_code == 200
    assert upstream.requests[0].body["output_config"]["format"]["schema"] == SCHEMA


def test_a_search_in_responses_is_refused_at_bedrocks_runtime(api, alice, at, upstream):
    model = at("bedrock", "openai", "openai.gpt-5.5")
    model.routes.update(api="responses")
    asked = {"model": "acme/large", "input": "Hi", "tools": [{"type": "web_search"}], "max_tool_calls": 1}
    told = api.post("/v1/responses", asked)
    assert_refused(told, upstream, "tools[0].type asks for a search of the web, which cloud does not have.")


def test_embeddings_of_gemini_are_refused_at_vertex(api, alice, at, upstream):
    at("vertex", "gemini", "gemini-embedding-001", kind="embedding")
    told = api.post("/v1/embeddings", {"model": "acme/large", "input": "Hi"})
    assert_refused(told, upstream, "input asks for embeddings, which cloud does not have.")
