"""A body is released while its request waits for a provider. Nothing that is said of the reply then needs the body.

Small bodies are not released, larger ones are, and the largest are read in turns: each size gets the same reply.
"""

import json
from typing import Any

import pytest

from billing.models import LedgerEntry
from gateway_project import large_work
from tests import factories
from tests.live.provider_kinds import KINDS
from tests.upstream import KEY_ENV

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"name": "add", "description": "Adds.", "parameters": SCHEMA}
SMALL, RELEASED, LARGE = 100, 9_000, large_work.LARGE_BYTES + 1_000
MARK = {"cache_control": {"type": "ephemeral"}}
COMMON: dict[str, Any] = {"model": "acme/m", "temperature": 0.5, "top_p": 0.5, "stream": False}
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
            "parallel_tool_calls": False,
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
            "user": "u",
            "prompt_cache_key": "k",
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", **FUNCTION}]}],
            "tool_choice": "auto",
            "parallel_tool_calls": False,
            **MARK,
        },
    ),
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


@pytest.fixture(params=[*KINDS, "echo"])
def kind(request, upstream, db):
    name = request.param
    models = {"openai": "m", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-3.5-flash", "echo": "echo"}
    address = {} if name == "echo" else {"base_url": upstream.url.removesuffix(KINDS[name].suffix), "api_key_env": KEY_ENV}
    provider = factories.make_provider("scripted", kind=name, **address)
    factories.make_model("acme/m", provider=provider, upstream_model=models[name], function_calling=True)
    return name


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_every_optional_field_in_a_body_of_every_size(api, upstream, kind, language, is_streamed):
    path, fields = LANGUAGES[language]
    if kind != "echo":
        upstream.will(KINDS[kind].streamed_text if is_streamed else KINDS[kind].text)
    told = []
    for size_bytes in (SMALL, RELEASED, LARGE):
        body = {**COMMON, **fields, **conversation(language, size_bytes), "stream": is_streamed}
        reply = api.generic("POST", path, json.dumps(body), content_type="application/json")
        assert reply.status_code == 200, reply.content
        assert reply.getvalue()
        told.append((reply.get("x-gateway-ignored-fields"), reply.get("x-gateway-max-tokens")))
    assert len(set(told)) == 1, "the same for every size"
    ignored, max_tokens = told[0]
    assert ignored is not None
    assert (max_tokens == "4096") == (language == "messages")
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 3
