"""Reasoning goes on from turn to turn, in every language, with models that refuse what is not as they said it."""

import json
from typing import Any

import pytest
from cryptography.fernet import Fernet

from completions.models import Completion, Provider, Route
from tests import factories
from tests.completions.inbound import strict_models
from tests.completions.inbound.strict_models import Claude, Gemini, OpenAI
from tests.completions.inbound.tool_loops import LANGUAGES, Chat, Loop, Messages, Responses
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.providers.openai.responses import scripts as responses
from tests.conftest import client_for
from tests.upstream import DONE, KEY_ENV, chunk, usage, whole
from tests.upstream import stream as streamed_events

pytestmark = pytest.mark.usefixtures("models")

HAIKU, OPUS, FLASH, OPEN, GPT = "claude/haiku", "claude/opus", "google/flash", "open/model", "openai/gpt"
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
LANGUAGE = pytest.mark.parametrize("language", LANGUAGES, ids=lambda each: each.__name__)
# What names the reasoning that is left out, in each language.
LEFT_OUT = {
    Chat: "messages.reasoning, messages.reasoning_details",
    Messages: "messages.thinking, messages.redacted_thinking",
    Responses: "input.summary, input.encrypted_content",
}


@pytest.fixture
def models(upstream, db):
    """Models of all kinds of providers, which one scripted upstream plays."""
    claudes = {HAIKU: ("anthropic", "claude-haiku-4-5"), OPUS: ("anthropic", "claude-opus-4-8")}
    for model_id, (kind, name) in {**claudes, FLASH: ("gemini", "gemini-3.5-flash"), OPEN: ("openai", "m")}.items():
        base_url = upstream.url if kind == "openai" else upstream.url.removesuffix("/v1")
        provider = factories.make_provider(kind, kind=kind, base_url=base_url, api_key_env=KEY_ENV)
        factories.make_model(model_id, provider=provider, upstream_model=name, function_calling=True)
    gpt = factories.make_model(GPT, provider=provider, upstream_model="gpt-5.5", function_calling=True, reasoning=True)
    gpt.routes.update(api="responses")


def sent(upstream) -> str:
    """Return what the upstream was sent last, as text."""
    return json.dumps(upstream.requests[-1].body)


# --- Claude -----------------------------------------------------------------------------------------------------------


@STREAMS
@LANGUAGE
@pytest.mark.parametrize("model", [HAIKU, OPUS], ids=["budget", "adaptive"])
def test_claude_thinks_after_each_result_of_a_tool(api, upstream, model, language, stream):
    strict, loop = Claude(upstream), Loop(api, language, model, stream=stream)
    if language is Messages:
        api.credentials(**api._credentials, HTTP_ANTHROPIC_BETA="interleaved-thinking-2025-05-14")
    assert loop.run() == [""] * 11
    assert [len(strict.received), len(strict.said), Completion.objects.count()] == [11, 11, 11]
    for said, shown in zip(strict.said, loop.steps, strict=True):
        assert loop.language.reasoning(shown) == "".join(block.get("thinking", "") for block in said) != ""
    assert all("thinking" in received.body for received in strict.received)
    carried = [turn["content"] for turn in strict.received[-1].body["messages"] if turn["role"] == "assistant"]
    assert carried == strict.said[:10], "every block is where the model said it"


def test_anthropic_refuses_thinking_that_its_own_language_brings_back_altered(api, alice, upstream):
    strict, loop = Claude(upstream), Loop(api, Messages, OPUS)
    loop.step()
    loop.history[0]["content"][0]["thinking"] += "!"
    refused = loop.ask()
    assert refused.status_code == 400
    assert strict_models.ALTERED.format(place="1.content.0") in refused.json()["error"]["message"]
    assert [len(strict.received), len(strict.said)] == [2, 1]
    assert [hold.settled_nanos for hold in alice.holds.order_by("pk")][1:] == [None]


def test_without_its_thinking_a_model_with_a_budget_does_not_think_until_the_turn_is_over(api, upstream):
    strict, loop = Claude(upstream), Loop(api, Chat, HAIKU)
    loop.step()
    del loop.history[0]["reasoning_details"]
    loop.step()
    assert "thinking" not in strict.received[1].body
    assert loop.headers["x-gateway-ignored-fields"] == "messages.reasoning, reasoning_effort"


def test_thinking_without_what_followed_it_is_left_out(api, upstream):
    """Anthropic refuses a turn that ends with thinking: it is what a reply has that was cut off too early."""
    strict, loop = Claude(upstream), Loop(api, Chat, OPUS)
    loop.step()
    loop.history = [{**loop.history[0], "tool_calls": None, "content": ""}, {"role": "user", "content": "Well?"}]
    assert loop.step()
    assert [turn["role"] for turn in strict.received[1].body["messages"]] == ["user"]


# --- Gemini -----------------------------------------------------------------------------------------------------------


@STREAMS
@LANGUAGE
def test_gemini_gets_its_signatures_back(api, upstream, language, stream):
    strict, loop = Gemini(upstream), Loop(api, language, FLASH, stream=stream)
    assert loop.run() == [""] * 11
    assert [len(strict.received), Completion.objects.count()] == [11, 11]
    assert all(loop.language.reasoning(said) == f"{strict_models.LONG}{step}" for step, said in enumerate(loop.steps))
    loop.history.append({"role": "user", "content": "And now?"})
    loop.step()
    model = [content["parts"] for content in strict.received[-1].body["contents"] if content["role"] == "model"]
    assert len(model) == 11
    assert model[-1] == [{"text": "Done."}, {"text": "", "thoughtSignature": strict_models.signature("gemini", "Done.")}]


def test_gemini_refuses_a_call_without_its_signature(api, upstream):
    """Its placeholder is for calls of other makers' models. This strict one takes none."""
    Gemini(upstream)
    loop = Loop(api, Responses, FLASH)
    loop.step()
    loop.history = [item for item in loop.history if item["type"] != "reasoning"]
    refused = loop.ask()
    assert refused.status_code == 400
    assert "Function call is missing a thought_signature in functionCall parts." in refused.json()["error"]["message"]


# --- OpenAI's Responses -----------------------------------------------------------------------------------------------


@STREAMS
@LANGUAGE
def test_gpt_goes_on_reasoning_after_each_result_of_a_tool(api, upstream, language, stream):
    strict, loop = OpenAI(upstream), Loop(api, language, GPT, stream=stream)
    assert loop.run() == [""] * 11
    assert [len(strict.received), len(strict.said), Completion.objects.count()] == [11, 11, 11]
    loop.history.append({"role": "user", "content": "And now?"})
    loop.step()
    carried = [item for item in strict.received[-1].body["input"] if item.get("role") != "user" and "output" not in item]
    assert carried == [sent_back(item) for said in strict.said[:11] for item in said], "every item is where the model said it"
    shown = "".join(part["text"] for item in strict.said[0] for part in item.get("summary", []))
    assert loop.language.reasoning(loop.steps[0]) == shown != ""
    assert [strict.received[-1].body[name] for name in ("store", "include")] == [False, ["reasoning.encrypted_content"]]


def sent_back(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it is sent back: what is stored nowhere needs no id, except that the id of reasoning is checked."""
    if item["type"] == "reasoning":
        return item
    kept = {name: value for name, value in item.items() if name not in ("id", "status")}
    texts = [{"type": "output_text", "text": part["text"]} for part in item.get("content", [])]
    return {**kept, "content": texts} if texts else kept


def test_openai_refuses_a_call_without_the_reasoning_before_it(api, upstream):
    OpenAI(upstream)
    loop = Loop(api, Responses, GPT)
    loop.step()
    loop.history = [item for item in loop.history if item["type"] != "reasoning"]
    refused = loop.ask()
    assert refused.status_code == 400
    expected = strict_models.WITHOUT_REASONING.format(item="call_0_1", reasoning="rs_0.0")
    assert expected in refused.json()["error"]["message"]


def test_reasoning_that_nothing_follows_is_left_out(api, upstream):
    """It is what a reply has that was cut off too early."""
    strict, loop = OpenAI(upstream), Loop(api, Chat, GPT)
    loop.step()
    loop.history = [{**loop.history[0], "tool_calls": None, "content": ""}, {"role": "user", "content": "Well?"}]
    assert loop.step()
    assert {item["type"] for item in strict.received[1].body["input"]} == {"message"}


def test_another_provider_of_the_model_does_not_get_what_it_cannot_read(api, upstream):
    """Each organization at OpenAI, and each host of its models, encrypts for itself."""
    strict, loop = OpenAI(upstream), Loop(api, Responses, GPT)
    loop.step()
    other = factories.make_provider("other", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    Route.objects.filter(model=GPT).update(provider=other)
    loop.history = [item for item in loop.history if item["type"] == "reasoning"]
    loop.step()
    assert loop.headers["x-gateway-ignored-fields"] == LEFT_OUT[Responses]
    assert not any(item["type"] == "reasoning" for item in strict.received[1].body["input"])


# --- OpenAI's format --------------------------------------------------------------------------------------------------

THOUGHT = {"role": "assistant", "content": None, "reasoning_content": "Let me look."}
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
HIDDEN: dict[str, Any] = {
    "type": "reasoning.encrypted",
    "data": "gAAAAABo",
    "id": "rs_1",
    "format": "openai-responses-v1",
    "index": 0,
}


@STREAMS
@LANGUAGE
def test_text_comes_back_to_models_that_want_it(api, upstream, language, stream):
    message = {**THOUGHT, "tool_calls": [{**CALL, "index": 0} if stream else CALL]}
    events = (
        chunk(THOUGHT),
        chunk({"tool_calls": message["tool_calls"]}),
        chunk(finish_reason="tool_calls"),
    )
    upstream.will(streamed_events(*events, usage(), DONE) if stream else whole(message=message))
    loop = Loop(api, language, OPEN, stream=stream)
    loop.step()
    assert loop.language.reasoning(loop.steps[0]) == "Let me look."
    for item in loop.history:
        item.pop("summary", None)
    loop.step()
    [_, asked, result] = upstream.requests[1].body["messages"]
    assert [asked["reasoning_content"], asked["tool_calls"], result["role"]] == ["Let me look.", [CALL], "tool"]
    assert "reasoning_details" not in asked
    assert "x-gateway-ignored-fields" not in loop.headers


@pytest.mark.parametrize("is_own", [True, False], ids=["operator's own", "another's"])
@pytest.mark.parametrize("language", [Chat, Responses])
def test_encrypted_items_come_back_to_a_gateway_that_sent_them(api, upstream, language, is_own):
    """OpenRouter sends OpenAI's encrypted items so, and so does every gateway that speaks its dialect."""
    Provider.objects.filter(pk="openai").update(passes_unknown_fields=is_own)
    upstream.will(whole(message={"role": "assistant", "content": None, "reasoning_details": [HIDDEN], "tool_calls": [CALL]}))
    loop = Loop(api, language, OPEN)
    loop.step()
    assert HIDDEN["data"] not in json.dumps(loop.history)
    loop.step()
    assert upstream.requests[1].body["messages"][1]["reasoning_details"] == [HIDDEN]
    assert not {"messages.reasoning_details", "input.encrypted_content"} & set(named(loop.headers))


def test_secrets_from_elsewhere_are_left_out_and_named(api, upstream):
    loop = Loop(api, Chat, OPEN)
    loop.history = [{"role": "assistant", "content": "Hi", "reasoning_details": [HIDDEN]}, {"role": "user", "content": "And?"}]
    loop.step()
    assert "reasoning_details" not in upstream.requests[0].body["messages"][1]
    assert named(loop.headers) == ["messages.reasoning_details"]


# --- Histories that move ----------------------------------------------------------------------------------------------


@LANGUAGE
@pytest.mark.parametrize("model", [OPUS, OPEN, GPT])
def test_reasoning_of_another_model_is_left_out_and_named(api, upstream, language, model):
    Gemini(upstream)
    loop = Loop(api, language, FLASH)
    loop.step()
    assert sealed(loop.history)
    assert_moved(loop, upstream, model)


@pytest.mark.parametrize("language", [Chat, Responses])
@pytest.mark.parametrize("model", [HAIKU, FLASH, OPEN, GPT])
def test_reasoning_of_claude_is_left_out_by_other_models(api, upstream, language, model):
    Claude(upstream)
    loop = Loop(api, language, OPUS)
    loop.step()
    assert sealed(loop.history)
    assert_moved(loop, upstream, model)


@pytest.mark.parametrize("language", [Chat, Responses])
def test_reasoning_of_another_account_is_left_out_and_named(api, bob, upstream, language):
    strict, loop = Claude(upstream), Loop(api, language, OPUS)
    loop.step()
    factories.credit(bob, 1000)
    loop.api = client_for(factories.make_key(bob)[1])
    assert loop.step()
    assert loop.headers["x-gateway-ignored-fields"] == LEFT_OUT[language]
    assert not any(block["type"] == "thinking" for block in strict.received[1].body["messages"][1]["content"])


def test_an_altered_seal_is_left_out_and_named(api, upstream):
    strict, loop = Claude(upstream), Loop(api, Chat, OPUS)
    loop.step()
    [detail] = loop.history[0]["reasoning_details"]
    detail["signature"] = detail["signature"][:-9] + "AAAA" + detail["signature"][-5:]
    assert loop.step()
    assert loop.headers["x-gateway-ignored-fields"] == LEFT_OUT[Chat]
    assert strict.received[1].body["messages"][1]["content"] == strict.said[0][1:]


def test_an_altered_text_changes_nothing(api, upstream):
    """The seal has what the provider gets."""
    strict, loop = Claude(upstream), Loop(api, Chat, OPUS)
    loop.step()
    loop.history[0]["reasoning_details"][0]["text"] = loop.history[0]["reasoning"] = "Something else."
    assert loop.step()
    assert strict.received[1].body["messages"][1]["content"] == strict.said[0]
    assert "x-gateway-ignored-fields" not in loop.headers


def test_an_operator_changes_the_key_of_seals(api, upstream, settings):
    strict, loop = Claude(upstream, calls=3), Loop(api, Responses, OPUS)
    loop.step()
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]
    assert loop.step()
    assert "x-gateway-ignored-fields" not in loop.headers
    settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]
    assert loop.step()
    assert loop.headers["x-gateway-ignored-fields"] == LEFT_OUT[Responses], "the first seal is lost"
    turns = [turn["content"] for turn in strict.received[-1].body["messages"] if turn["role"] == "assistant"]
    assert turns == [strict.said[0][1:], strict.said[1]]


TEXT_IS_SENT = {OPEN: {"messages.reasoning", "messages.thinking", "input.summary"}}  # an open model takes it


def named(headers: Any) -> list[str]:
    return headers.get("x-gateway-ignored-fields", "").split(", ")


def sealed(history: list[dict[str, Any]]) -> bool:
    return "sealed." in json.dumps(history)


def assert_moved(loop: Loop, upstream: Any, model: str) -> None:
    """Assert that another model goes on with a conversation, and that the reply says what it does not know of it."""
    replies = {FLASH: gemini.whole("Well."), OPEN: whole("Well."), GPT: responses.whole(responses.message("Well."))}
    if model in replies:
        upstream.will_answer(lambda received: replies[model])
    else:
        Claude(upstream)
    loop.model = model
    reply = loop.ask()
    assert reply.status_code == 200, reply.content
    left_out = set(LEFT_OUT[type(loop.language)].split(", "))
    assert left_out - TEXT_IS_SENT.get(model, set()) <= set(named(reply.headers))
    assert "sealed." not in sent(upstream)


# --- What callers see -------------------------------------------------------------------------------------------------


def test_chat_has_the_members_of_openrouter(api, upstream):
    strict, loop = Claude(upstream, calls=3), Loop(api, Chat, OPUS)
    while loop.step():
        pass
    first, second, third, _ = loop.steps
    [detail] = first[0]["reasoning_details"]
    thought = strict.said[0][0]["thinking"]
    assert first[0]["reasoning"] == thought
    assert detail | {"signature": ""} == {
        "type": "reasoning.text",
        "text": thought,
        "signature": "",
        "format": "anthropic-claude-v1",
        "index": 0,
    }
    assert shapes(second) == [("text", 0, "signature"), ("text", 1), ("encrypted", 1, "data")]
    assert shapes(third) == [("encrypted", 0, "data"), ("text", 1), ("encrypted", 1, "data")]
    assert strict.said[2][0]["data"] not in json.dumps(loop.steps), "what the provider hides stays sealed"


def shapes(said: list[dict[str, Any]]) -> list[Any]:
    """Return the type and the index of each detail, and the name of its secret."""
    details = said[0]["reasoning_details"]
    names = [[name for name in ("signature", "data") if name in detail] for detail in details]
    return [
        (detail["type"].removeprefix("reasoning."), detail["index"], *secret)
        for detail, secret in zip(details, names, strict=True)
    ]


def test_clients_may_join_and_repeat_details(api, upstream):
    """Vercel's provider for OpenRouter makes one text of those that follow one another, and tells it with each call."""
    strict, loop = Claude(upstream), Loop(api, Chat, OPUS)
    loop.step()
    loop.step()
    message = loop.history[2]
    first, second, hidden = message["reasoning_details"]
    joined = {**first, "text": first["text"] + second["text"]}
    message["reasoning_details"] = [joined, hidden, joined, hidden]
    loop.step()
    assert strict.received[2].body["messages"][3]["content"] == strict.said[1]
    assert "x-gateway-ignored-fields" not in loop.headers


def test_a_seal_of_gemini_names_its_call(api, upstream):
    Gemini(upstream)
    loop = Loop(api, Chat, FLASH, stream=True)
    loop.step()
    text, signed = loop.history[0]["reasoning_details"]
    assert [text["type"], text["format"]] == ["reasoning.text", "google-gemini-v1"]
    assert [signed["type"], signed["id"]] == ["reasoning.encrypted", loop.history[0]["tool_calls"][0]["id"]]


@STREAMS
def test_responses_have_encrypted_content_only_where_it_is_included(api, upstream, stream):
    Claude(upstream)
    loop = Loop(api, Responses, OPUS, stream=stream)
    loop.step()
    [reasoning, call] = loop.steps[0]
    assert [reasoning["type"], call["type"]] == ["reasoning", "function_call"]
    assert reasoning["encrypted_content"].startswith("sealed.")
    loop.step(include=[])
    assert {"id", "type", "summary"} == set(loop.steps[1][0])


def test_details_must_be_objects(api, upstream):
    for role, details, param in (("assistant", "no", ""), ("assistant", [1], "[0]"), ("user", 5, ""), ("tool", [None], "[0]")):
        loop = Loop(api, Chat, OPUS)
        loop.history = [{"role": role, "content": "Hi", "tool_call_id": "c", "reasoning_details": details}]
        assert loop.ask().json()["error"]["param"] == f"messages[1].reasoning_details{param}"
    assert upstream.requests == []
