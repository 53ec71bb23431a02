"""A body is released while its request waits for a provider. Nothing that is said of the reply then needs the body.

Small bodies are not released, larger ones are, and the largest are read in turns: each size gets the same reply.
"""

import json
import re
from typing import Any

import pytest

from billing.models import LedgerEntry
from completions.models import Completion
from gateway_project import large_work
from gateway_project.web.openapi import specification
from tests import factories
from tests.completions.providers.openai.responses import scripts as responses
from tests.live.provider_kinds import KINDS
from tests.upstream import KEY_ENV

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"name": "add", "description": "Adds.", "parameters": SCHEMA}
SMALL, RELEASED, LARGE = 100, 9_000, large_work.LARGE_BYTES + 1_000
MARK = {"cache_control": {"type": "ephemeral"}}
COMMON: dict[str, Any] = {
    "model": "acme/m",
    "models": ["acme/m"],
    "provider": {"order": ["scripted"]},
    "temperature": 0.5,
    "top_p": 0.5,
}
# Fields that go with none of the others, or that need more than a body: they have tests of their own.
APART = {"background", "max_completion_tokens", "max_tool_calls", "previous_response_id"}
LANGUAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "max_tokens": 4_000,
            "reasoning_effort": "medium",
            "verbosity": "low",
            "seed": 1,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.1,
            "stop": ["###"],
            "top_k": 5,
            "user": "u",
            "safety_identifier": "s",
            "prompt_cache_key": "k",
            "metadata": {"team": "a"},
            "n": 1,
            "logit_bias": {"50256": -100},
            "logprobs": True,
            "top_logprobs": 2,
            "reasoning": {"effort": "medium", "exclude": False},
            "store": True,
            "stream_options": {"include_usage": True},
            "usage": {"include": True},
            "service_tier": "auto",
            "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
            "moderation": {"model": "omni-moderation-latest"},
            "prediction": {"type": "content", "content": "Hello"},
            "web_search_options": {"search_context_size": "low", "user_location": {"type": "approximate"}},
            "parallel_tool_calls": False,
            "modalities": ["text"],
            "functions": [FUNCTION],
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": "auto",
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
            "unknown": {"a": 1},
            **MARK,
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 9_000,  # more than the model generates
            "thinking": {"type": "enabled", "budget_tokens": 2_000},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
            "stop_sequences": ["###"],
            "top_k": 5,
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "metadata": {"user_id": "u"},
            "system": [{"type": "text", "text": "Be brief.", **MARK}],
            "tools": [{"name": "add", "input_schema": SCHEMA, **MARK}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "service_tier": "auto",
            **MARK,
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "max_output_tokens": 4_000,
            "reasoning": {"effort": "medium", "summary": "detailed"},
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "a", "schema": SCHEMA}},
            "instructions": "Be brief.",
            "metadata": {"team": "a"},
            "client_metadata": {"a": "b"},
            "context_management": [{"type": "compaction", "compact_threshold": 5}],
            "user": "u",
            "prompt_cache_key": "k",
            "safety_identifier": "s",
            "prompt_cache_retention": "24h",
            "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
            "moderation": {"model": "omni-moderation-latest"},
            "service_tier": "auto",
            "store": True,
            "stream_options": {"include_obfuscation": False},
            "top_logprobs": 2,
            "truncation": "disabled",
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", **FUNCTION}]}],
            "tool_choice": "auto",
            "parallel_tool_calls": False,
            **MARK,
        },
    ),
}


MODELS = {
    "openai": "m",
    "openai-responses": "gpt-5.5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3.5-flash",
    "echo": "echo",
}


def conversation(language: str, size_bytes: int) -> dict[str, Any]:
    """Return the field of a conversation of so many bytes, with what not every provider takes."""
    text = "word " * (size_bytes // 5)
    if language == "responses":
        reasoning = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
        said = {"role": "assistant", "content": "Well.", "phase": "commentary"}
        return {"input": [{"role": "user", "content": text}, reasoning, said, {"role": "user", "content": "Go on."}]}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    unsigned = {"role": "assistant", "content": [thought, {"type": "text", "text": "Well."}]}
    plain = {"role": "assistant", "content": "Well.", "reasoning_content": "Hm."}
    turn = unsigned if language == "messages" else plain
    return {"messages": [{"role": "user", "content": text}, turn, {"role": "user", "content": "Go on."}]}


@pytest.fixture(params=[*MODELS])
def kind(request, upstream, db):
    kind, _, api = request.param.partition("-")
    address = {} if kind == "echo" else {"base_url": upstream.url.removesuffix(KINDS[kind].suffix), "api_key_env": KEY_ENV}
    provider = factories.make_provider("scripted", kind=kind, **address)
    model = factories.make_model("acme/m", provider=provider, upstream_model=MODELS[request.param], function_calling=True)
    model.routes.update(api=api or "chat")
    return request.param


def script(kind, is_streamed):
    """Return what an upstream of the kind replies."""
    if kind == "openai-responses":
        return (responses.streamed if is_streamed else responses.whole)(responses.message("Hello ", "you"))
    return KINDS[kind].streamed_text if is_streamed else KINDS[kind].text


def accepted(api, path, body):
    """Return the body without the optional fields that the provider refuses, each by its name and before anything is held."""
    while (reply := api.generic("POST", path, json.dumps(body), content_type="application/json")).status_code == 400:
        error = json.loads(reply.content)["error"]
        name = re.split(r"[.\[ ]", error.get("param") or error["message"])[0]
        assert name in body, error
        body = {field: value for field, value in body.items() if field != name}
        assert not Completion.objects.exists(), error
    assert reply.status_code == 200, reply.content
    assert reply.getvalue()
    return body


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_bodies_have_every_optional_field(language):
    path, fields = LANGUAGES[language]
    described = specification.read_document()
    reference = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    names = {*described["components"]["schemas"][reference.rpartition("/")[2]]["properties"]}
    assert names - APART <= {*COMMON, *fields, *conversation(language, SMALL), "stream"}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_every_optional_field_in_a_body_of_every_size(api, upstream, kind, language, is_streamed):
    path, fields = LANGUAGES[language]
    if kind != "echo":
        upstream.will(script(kind, is_streamed))
    body = {**COMMON, **fields, "stream": is_streamed}
    kept = accepted(api, path, {**body, **conversation(language, SMALL)})
    told = []
    for size_bytes in (SMALL, RELEASED, LARGE):
        sent = {**kept, **conversation(language, size_bytes)}
        reply = api.generic("POST", path, json.dumps(sent), content_type="application/json")
        assert reply.status_code == 200, reply.content
        assert reply.getvalue()
        told.append((reply.get("x-gateway-ignored-fields"), reply.get("x-gateway-max-tokens")))
    assert len(set(told)) == 1, "the same for every size"
    ignored, max_tokens = told[0]
    assert ignored is not None
    assert (max_tokens == "4096") == (language == "messages")
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 4
