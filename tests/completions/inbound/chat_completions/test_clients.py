"""Replies have what the clients of OpenRouter need: the provider's name, and at a stream's end its usage, unasked."""

from typing import Any

import pytest

from tests.completions.rows import MESSAGES, assert_charged, events
from tests.upstream import streamed, whole

# How a client shows that it speaks OpenRouter's words -> its headers, and fields of its body.
SPEAKING: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "openrouter of PyPI": ({"User-Agent": "speakeasy-sdk/python 1.3.84 2.914.0 1.0.0 openrouter"}, {}),
    "@openrouter/sdk of npm": ({"User-Agent": "speakeasy-sdk/typescript 1.3.19 2.914.0 1.0.0 @openrouter/sdk"}, {}),
    "AI SDK provider": ({"User-Agent": "ai/7.0.1 ai-sdk/provider-utils/5.0.0 ai-sdk/openrouter/3.1.0"}, {}),
    "the address of an app": ({"HTTP-Referer": "https://app.example.org"}, {}),
    "the title of an app": ({"X-OpenRouter-Title": "App"}, {}),
    "the older title": ({"X-Title": "App"}, {}),
    "reasoning as an object": ({}, {"reasoning": {"effort": "low"}}),
    "plugins": ({}, {"plugins": [{"id": "web"}]}),
    "usage": ({}, {"usage": {"include": True}}),
    "null usage refused": ({"User-Agent": "... openrouter"}, {"stream_options": {"include_usage": True}}),
}
# ... and that it does not, or wants no usage.
OTHERS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "OpenAI's SDK": ({"User-Agent": "OpenAI/Python 3.57.0"}, {}),
    "a browser": ({"Referer": "https://openrouter.ai/"}, {}),
    "fields that are the gateway's, too": ({}, {"provider": {"only": ["scripted"]}, "models": ["acme/large"]}),
    "usage declined": ({"X-Title": "App"}, {"stream_options": {"include_usage": False}}),
    "usage declined in OpenRouter's words": ({"X-Title": "App"}, {"usage": {"include": False}}),
}


def ask(api: Any, headers: dict[str, str], fields: dict[str, Any]) -> Any:
    return api.post("/v1/chat/completions", {"model": "acme/large", "messages": MESSAGES, **fields}, headers=headers)


@pytest.mark.parametrize("client", SPEAKING)
def test_a_stream_for_a_client_of_openrouter_ends_with_its_usage(api, alice, large, upstream, client):
    headers, fields = SPEAKING[client]
    upstream.will(streamed())
    *chunks, last, done = events(ask(api, headers, {**fields, "stream": True}))
    assert (last["choices"], last["usage"]["total_tokens"], last["usage"]["cost"], done) == ([], 11, 0.000057, "[DONE]")
    assert not any("usage" in chunk for chunk in chunks)
    assert {chunk["provider"] for chunk in [*chunks, last]} == {"scripted"}
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize("client", OTHERS)
def test_another_stream_has_no_usage_unasked(api, alice, large, upstream, client):
    headers, fields = OTHERS[client]
    upstream.will(streamed())
    *chunks, done = events(ask(api, headers, {**fields, "stream": True}))
    assert (done, [chunk for chunk in chunks if "usage" in chunk]) == ("[DONE]", [])
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_whole_reply_names_the_provider_that_answered(api, large, upstream):
    upstream.will(whole())
    reply = ask(api, {}, {})
    assert reply.json()["provider"] == reply["x-gateway-provider"] == "scripted"
