"""A conversation in Anthropic's Messages goes on with any model: what it would refuse is translated, or left out and named."""

from typing import Any

import pytest

from completions.inbound.messages import request
from completions.providers import ADAPTERS
from completions.providers.http_adapter import HttpAdapter
from completions.request.messages import as_reminder
from gateway_project.errors import InvalidRequest
from tests.completions.offers import make_call, make_offer

HELLO = {"role": "user", "content": "Hello"}
SYSTEM = {"role": "system", "content": "Be brief."}
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
UNSIGNED = {"type": "thinking", "thinking": "Hm.", "signature": ""}
TEXT = {"type": "text", "text": "Well."}
MARK = {"cache_control": {"type": "ephemeral"}}
BUDGET = {"type": "enabled", "budget_tokens": 2_000}


def call(tool_id: str = "call_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": "add", "input": {}}


def result(tool_id: str = "call_1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": "3"}


def turn(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def sent(
    *messages: Any, kind: str = "anthropic", model: str = "claude-sonnet-4-5", max_tokens: int = 4_000, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return what the provider is sent, and the fields that it is not sent."""
    chat, _ = request.parse({"model": "acme/m", "max_tokens": 4_000, "messages": list(messages), **fields})
    adapter, asked = ADAPTERS[kind], make_call(chat, make_offer(kind, model), max_tokens)
    assert isinstance(adapter, HttpAdapter)
    ignored = adapter.ignored_fields(asked)
    return adapter.body(asked, stream=False), ignored


# --- Instructions in the middle of a conversation -------------------------------------------------------------------


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5"])
def test_models_that_take_them_get_them_as_they_came(model):
    body, ignored = sent(HELLO, SYSTEM, model=model)
    assert body["messages"] == [HELLO, SYSTEM]
    assert ignored == []


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-4-7", "claude-sonnet-5", "some-model"])
@pytest.mark.parametrize("content", ["Be brief.", [{"type": "text", "text": "Be brief.", **MARK}]], ids=["text", "blocks"])
def test_others_of_anthropic_get_them_from_the_user(model, content):
    body, ignored = sent(HELLO, {"role": "system", "content": content}, model=model)
    mark = {} if content == "Be brief." else MARK
    assert body["messages"] == [HELLO, turn("user", {"type": "text", "text": as_reminder("Be brief."), **mark})]
    assert ignored == []


def test_other_providers_get_them_in_the_turn_that_they_follow():
    reminder = as_reminder("Be brief.")
    body, ignored = sent(HELLO, SYSTEM, turn("assistant", TEXT), HELLO, kind="openai", model="m")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Hello"}, {"type": "text", "text": reminder}]
    body, _ = sent(HELLO, SYSTEM, kind="gemini", model="gemini-3.5-flash")
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hello"}, {"text": reminder}]}]
    assert ignored == []


def test_after_the_result_of_a_tool_they_are_a_message_of_the_user():
    body, _ = sent(HELLO, turn("assistant", call()), turn("user", result()), SYSTEM, kind="openai", model="m")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("content", [[{"type": "image", "source": {}}], 1, None])
def test_they_are_text(content):
    with pytest.raises(InvalidRequest) as refused:
        sent(HELLO, {"role": "system", "content": content})
    assert refused.value.param.startswith("messages[1].content")


# --- Thinking -------------------------------------------------------------------------------------------------------


def test_unsigned_thinking_never_goes_to_anthropic():
    body, ignored = sent(HELLO, turn("assistant", UNSIGNED, TEXT), HELLO, turn("assistant", UNSIGNED), HELLO)
    assert body["messages"] == [HELLO, turn("assistant", TEXT), HELLO, HELLO]
    assert ignored == ["messages.thinking"]
    body, ignored = sent(HELLO, turn("assistant", SIGNED, TEXT), HELLO)
    assert body["messages"][1] == turn("assistant", SIGNED, TEXT)
    assert ignored == []


def test_unsigned_thinking_reaches_the_models_that_want_it():
    body, ignored = sent(HELLO, turn("assistant", UNSIGNED, TEXT), HELLO, kind="openai", model="m")
    assert body["messages"][1]["reasoning_content"] == "Hm."
    assert ignored == []


def test_a_model_with_a_budget_does_not_go_on_thinking_in_the_turn_of_another():
    loop = [HELLO, turn("assistant", UNSIGNED, call()), turn("user", result())]
    body, ignored = sent(*loop, thinking=BUDGET)
    assert "thinking" not in body
    assert ignored == ["thinking", "messages.thinking"]
    assert sent(*loop, turn("assistant", TEXT), HELLO, thinking=BUDGET)[0]["thinking"] == BUDGET, "in the next turn it does"
    signed = [HELLO, turn("assistant", SIGNED, call()), turn("user", result())]
    assert sent(*signed, thinking=BUDGET)[0]["thinking"] == BUDGET
    more = [turn("assistant", call("call_2")), turn("user", result("call_2"))]
    assert sent(*signed, *more, thinking=BUDGET)[0]["thinking"] == BUDGET


def test_a_budget_fits_into_the_tokens_of_the_model():
    body, ignored = sent(HELLO, thinking=BUDGET, max_tokens=1_500)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 1_499}
    assert ignored == []
    body, ignored = sent(HELLO, thinking=BUDGET, max_tokens=1_024)
    assert "thinking" not in body
    assert ignored == ["thinking"]


def test_thinking_is_asked_for_as_the_model_takes_it():
    adaptive: Any = {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "medium"}}
    body, ignored = sent(HELLO, **adaptive)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2_000, "display": "summarized"}
    assert "output_config" not in body
    assert ignored == []
    assert sent(HELLO, model="claude-opus-4-8", **adaptive)[0].items() >= adaptive.items()
    assert sent(HELLO, model="claude-opus-4-8", thinking=BUDGET)[0]["thinking"] == {"type": "adaptive"}
    body, ignored = sent(HELLO, model="claude-3-5-haiku", **adaptive)
    assert "thinking" not in body
    assert ignored == ["thinking", "output_config.effort"]
    body, ignored = sent(HELLO, model="claude-fable-5", thinking={"type": "disabled"})
    assert "thinking" not in body
    assert ignored == ["thinking"]


# --- Ids, and what is inside of blocks ------------------------------------------------------------------------------


def test_ids_of_other_makers_are_made_acceptable_to_anthropic():
    tool_id = "functions.add:0|fc_1"
    body, ignored = sent(HELLO, turn("assistant", call(tool_id)), turn("user", result(tool_id)))
    assert body["messages"][1]["content"][0]["id"] == "functions_add_0_fc_1"
    assert body["messages"][2]["content"][0]["tool_use_id"] == "functions_add_0_fc_1"
    assert ignored == []


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
DOCUMENT = {"type": "document", "title": "a.pdf", "source": PDF}
REDACTED = {"type": "redacted_thinking", "data": "x"}
TOOL = {"name": "add", "input_schema": {"type": "object"}, **MARK}
EVERYTHING = ["messages.cache_control", "messages.redacted_thinking", "messages.title", "system.cache_control"]


@pytest.mark.parametrize(
    ("kind", "base_url", "named"),
    [
        ("anthropic", "", []),
        ("gemini", "", [*EVERYTHING, "tools.cache_control"]),
        ("openai", "http://127.0.0.1:9", ["messages.redacted_thinking"]),
        ("openai", "https://api.openai.com/v1", [*EVERYTHING[:2], "system.cache_control", "tools.cache_control"]),
    ],
)
def test_what_a_provider_cannot_take_of_a_block_is_named(kind, base_url, named):
    messages = [turn("user", DOCUMENT, {**TEXT, **MARK}), turn("assistant", REDACTED, TEXT), HELLO]
    given = {"model": "acme/m", "max_tokens": 9, "messages": messages, "system": [{**TEXT, **MARK}], "tools": [TOOL]}
    chat, _ = request.parse(given)
    offer = make_offer(kind, "m", base_url=base_url)
    assert ADAPTERS[kind].ignored_fields(make_call(chat, offer, 9)) == named
