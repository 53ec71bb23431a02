"""Models at Google's cloud: where they are asked, with which body, and what is charged."""

from typing import Any

import pytest

from tests import factories
from tests.chat import assert_error
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.rows import ask, assert_charged
from tests.upstream import KEY_ENV

TIER_HEADER = "x-vertex-ai-llm-shared-request-type"
CALL = {"id": "gemini_c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED: Any = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "gemini_c1", "content": "4"},
]


@pytest.fixture
def at_vertex(upstream, db):
    def make(kind, upstream_model):
        maker = {"anthropic": "anthropic", "gemini": "google"}[kind]
        address = f"{upstream.url}/projects/p/locations/global/publishers/{maker}"
        access = {"platform": "vertex", "auth": {"type": "bearer"}}
        provider = factories.make_provider("vertex", kind=kind, base_url=address, api_key_env=KEY_ENV, access=access)
        model = factories.make_model(
            "acme/large", provider=provider, upstream_model=upstream_model, input="3.00", output="15.00", function_calling=True
        )
        factories.change_prices(model.prices, flex_input_nanos=1_500_000_000, flex_output_nanos=7_500_000_000)

    return make


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_claude_is_named_in_the_address_and_not_in_the_body(api, alice, at_vertex, upstream, path, is_stream):
    at_vertex("anthropic", "claude-haiku-4-5@20251001")
    upstream.will(claude.streamed() if is_stream else claude.whole())
    asked = {"model": "acme/large", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}], "stream": is_stream}
    assert api.post(path, asked).getvalue()
    [sent] = upstream.requests
    verb = "streamRawPredict" if is_stream else "rawPredict"
    models = "/v1/projects/p/locations/global/publishers/anthropic/models"
    assert sent.path == f"{models}/claude-haiku-4-5@20251001:{verb}"
    assert (sent.body["anthropic_version"], sent.body["stream"]) == ("vertex-2023-10-16", is_stream)
    assert "model" not in sent.body
    assert sent.headers["authorization"].startswith("Bearer ")
    assert "x-api-key" not in sent.headers


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("model", "has_id"), [("gemini-3.5-flash", True), ("gemini-2.5-flash", False)])
def test_gemini_gets_the_ids_of_calls_that_it_takes(api, alice, at_vertex, upstream, model, has_id, is_stream):
    at_vertex("gemini", model)
    upstream.will(gemini.streamed(*gemini.HELLO) if is_stream else gemini.whole("Hello you"))
    assert ask(api, messages=CALLED, stream=is_stream).getvalue()
    [sent] = upstream.requests
    verb = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
    assert sent.path == f"/v1/projects/p/locations/global/publishers/google/models/{model}:{verb}"
    parts = [part for content in sent.body["contents"] for part in content["parts"]]
    called = [part.get("functionCall") or part.get("functionResponse") for part in parts if "text" not in part]
    assert ["id" in each for each in called] == [has_id, has_id]


@pytest.mark.parametrize("tier", ["flex", None])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("traffic", "nanos"), [("ON_DEMAND_FLEX", 28_500), ("ON_DEMAND", 57_000)])
def test_a_tier_is_asked_for_in_a_header_and_what_served_is_charged(
    api, alice, at_vertex, upstream, traffic, nanos, tier, is_stream
):
    at_vertex("gemini", "gemini-3.5-flash")
    usage = {**gemini.USAGE, "trafficType": traffic}
    last = gemini.text_response("Hello you", finish="STOP", usage=usage)
    upstream.will(gemini.streamed(last) if is_stream else gemini.whole("Hello you", usage=usage))
    answer = ask(api, stream=is_stream, **({"service_tier": tier} if tier else {}))
    assert answer.getvalue()
    assert "x-gateway-ignored-fields" not in answer
    assert upstream.requests[0].headers.get(TIER_HEADER) == tier
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=nanos)


def test_claude_there_and_gemini_elsewhere_are_asked_for_no_tier(api, alice, at_vertex, upstream):
    at_vertex("anthropic", "claude-haiku-4-5")
    assert_error(ask(api, service_tier="flex"), 400, "invalid_request_error", "service_tier")
    assert upstream.requests == []
