"""What each generation of models is sent of a demand, over HTTP and in both languages, and what the header then names."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completions.chat import NO_RULES
from completions.inbound.messages import request as messages
from completions.providers import ADAPTERS, model_rules
from completions.providers.adapters import AnthropicAdapter
from completions.providers.openai import request as openai_request
from completions.providers.openai.responses import request as responses_request
from completions.request import schema
from completions.request.schema import REASONING_EFFORTS
from tests import factories
from tests.cases import undone
from tests.completions.offers import make_call, make_offer
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.rows import assert_charged
from tests.upstream import KEY_ENV

Fields = dict[str, Any]
OPUS, SONNET, HAIKU, UNKNOWN = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-9"
HELLO = {"role": "user", "content": "Hello"}
BEGUN = [HELLO, {"role": "assistant", "content": "{"}]


def turn(role: str, text: str) -> Fields:
    return {"role": role, "content": [{"type": "text", "text": text}]}


CONTINUE = turn("user", model_rules.CONTINUE)

FUNCTION = {"tools": [{"type": "function", "function": {"name": "add"}}]}
NAMED = {**FUNCTION, "tool_choice": {"type": "function", "function": {"name": "add"}}}
REQUIRED = {**FUNCTION, "tool_choice": "required", "parallel_tool_calls": False}
TOOL = {"tools": [{"name": "add", "input_schema": {"type": "object"}}]}
ANY, ONE = {**TOOL, "tool_choice": {"type": "any"}}, {**TOOL, "tool_choice": {"type": "tool", "name": "add"}}
AUTO = {"type": "auto"}
NOTE = "Reply to this request with a call of at least one of the tools, and not in words alone."
NOTE_ONE = "Reply to this request with a call of the tool add, and not in words alone."
SAMPLED = {"temperature": 0.2, "top_p": 0.9}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
OFF, BETWEEN = {"thinking": {"type": "disabled"}}, {"thinking": {"type": "between_tools"}}
ADAPTIVE = {"type": "adaptive"}
SHOWN = {"type": "adaptive", "display": "summarized"}


def effort(level: str, **others: Any) -> Fields:
    return {"output_config": {"effort": level}, **others}


def told(note: str) -> Fields:
    return {"tool_choice": AUTO, "system": [{"type": "text", "text": note}]}


def thinking(kind: str | None, **others: Any) -> Fields:
    return {"thinking": kind and {"type": kind}, **others}


# language, model, what is demanded, what the provider is sent of it (None: nothing), what the header names.
CLAUDE: dict[str, tuple[str, str, Fields, Fields, str]] = {
    "a named tool": ("chat", OPUS, NAMED, told(NOTE_ONE), "tool_choice"),
    "any tool": (
        "chat",
        SONNET,
        REQUIRED,
        {**told(NOTE), "tool_choice": {**AUTO, "disable_parallel_tool_use": True}},
        "tool_choice",
    ),
    "any tool of Haiku": ("chat", HAIKU, NAMED, {"tool_choice": {"type": "tool", "name": "add"}}, ""),
    "any tool of Opus 5": ("chat", "claude-opus-5", NAMED, {"tool_choice": {"type": "tool", "name": "add"}}, ""),
    "any tool of Fable": ("chat", "claude-fable-5-1", NAMED, told(NOTE_ONE), "tool_choice"),
    "any tool of a name to come": ("chat", UNKNOWN, NAMED, told(NOTE_ONE), "tool_choice"),
    "any tool of another spelling": ("chat", "anthropic/claude-opus-5.5", NAMED, told(NOTE_ONE), "tool_choice"),
    "off, which it has not": ("chat", OPUS, {"reasoning_effort": "none"}, effort("low", thinking=None), "reasoning_effort"),
    "off between tools": ("chat", SONNET, {"reasoning_effort": "none"}, thinking("between_tools"), "reasoning_effort"),
    "off": ("chat", HAIKU, {"reasoning_effort": "none"}, thinking("disabled"), ""),
    "off, as OpenRouter says it": ("chat", OPUS, {"reasoning": {"enabled": False}}, effort("low", thinking=None), "reasoning"),
    "off of Opus 4.8": ("chat", "claude-opus-4-8", {"reasoning_effort": "none"}, thinking(None, output_config=None), ""),
    "an effort": ("chat", OPUS, {"reasoning_effort": "xhigh"}, effort("xhigh", thinking=SHOWN), ""),
    "an effort that it has not": (
        "chat",
        "claude-opus-4-6",
        {"reasoning_effort": "xhigh"},
        effort("high", thinking=SHOWN),
        "",
    ),
    "sampling": ("chat", SONNET, SAMPLED, dict.fromkeys(SAMPLED), "temperature, top_p"),
    "the only temperature": ("chat", SONNET, {"temperature": 1, "top_p": 1}, {"temperature": None, "top_p": None}, ""),
    "sampling of Haiku 4.5": (
        "chat",
        "claude-haiku-4-5",
        SAMPLED,
        {"temperature": 0.2, "top_p": None},
        "top_p",
    ),
    "a reply that is begun": (
        "chat",
        OPUS,
        {"messages": BEGUN},
        {"messages": [turn("user", "Hello"), turn("assistant", "{"), CONTINUE]},
        "messages.prefill",
    ),
    "responses: any tool": (
        "responses",
        OPUS,
        {"tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}}], "tool_choice": "required"},
        told(NOTE),
        "tool_choice",
    ),
    "responses: off": ("responses", OPUS, {"reasoning": {"effort": "none"}}, effort("low", thinking=None), "reasoning.effort"),
    "responses: sampling": ("responses", SONNET, SAMPLED, dict.fromkeys(SAMPLED), "temperature, top_p"),
    "responses: a reply that is begun": (
        "responses",
        OPUS,
        {"input": BEGUN},
        {"messages": [turn("user", "Hello"), turn("assistant", "{"), CONTINUE]},
        "input.prefill",
    ),
    "messages: a named tool": ("messages", OPUS, ONE, told(NOTE_ONE), "tool_choice"),
    "messages: any tool": (
        "messages",
        SONNET,
        {**ANY, "system": "Be brief."},
        {"tool_choice": AUTO, "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": NOTE}]},
        "tool_choice",
    ),
    "messages: any tool of Haiku": ("messages", HAIKU, ANY, {"tool_choice": {"type": "any"}}, ""),
    "messages: a choice that is free": ("messages", OPUS, {**TOOL, "tool_choice": AUTO}, {"tool_choice": AUTO}, ""),
    "messages: off, which it has not": ("messages", OPUS, OFF, effort("low", thinking=None), "thinking"),
    "messages: off beside an effort": ("messages", OPUS, effort("high", **OFF), effort("high", thinking=None), "thinking"),
    "messages: off between tools": ("messages", SONNET, OFF, thinking("between_tools", output_config=None), "thinking"),
    "messages: between tools": ("messages", SONNET, BETWEEN, BETWEEN, ""),
    "messages: between tools, and too high": (
        "messages",
        SONNET,
        effort("max", **BETWEEN),
        effort("high", **BETWEEN),
        "output_config.effort",
    ),
    "messages: between tools of Opus": ("messages", OPUS, BETWEEN, effort("low", thinking=None), "thinking"),
    "messages: between tools of Haiku": ("messages", HAIKU, BETWEEN, thinking("disabled"), "thinking"),
    "messages: off": ("messages", HAIKU, OFF, OFF, ""),
    "messages: off of Haiku 4.5": ("messages", "claude-haiku-4-5", OFF, OFF, ""),
    "messages: off of Opus 5, too high": (
        "messages",
        "claude-opus-5",
        effort("xhigh", **OFF),
        effort("high", **OFF),
        "output_config.effort",
    ),
    "messages: a budget": ("messages", OPUS, BUDGET, {"thinking": ADAPTIVE}, "thinking.budget_tokens"),
    "messages: a budget of Opus 4.6": ("messages", "claude-opus-4-6", BUDGET, BUDGET, ""),
    "messages: a budget of Haiku 3": ("messages", "claude-3-haiku-20240307", BUDGET, thinking(None), "thinking"),
    "messages: an effort that it has not": (
        "messages",
        "claude-sonnet-4-6",
        effort("xhigh"),
        effort("high"),
        "output_config.effort",
    ),
    "messages: an effort of Opus 4.5": ("messages", "claude-opus-4-5", effort("max"), effort("high"), "output_config.effort"),
    "messages: an effort of Haiku 4.5": (
        "messages",
        "claude-haiku-4-5",
        effort("low"),
        {"output_config": None},
        "output_config.effort",
    ),
    "messages: sampling": (
        "messages",
        SONNET,
        {**SAMPLED, "top_k": 1},
        dict.fromkeys((*SAMPLED, "top_k")),
        "temperature, top_p, top_k",
    ),
    "messages: the only temperature": ("messages", HAIKU, {"temperature": 1}, {"temperature": None}, ""),
    "messages: sampling of Haiku 4.5": (
        "messages",
        "claude-haiku-4-5",
        {**SAMPLED, "top_k": 3},
        {"temperature": 0.2, "top_p": None, "top_k": 3},
        "top_p",
    ),
    "messages: sampling of Haiku 3": ("messages", "claude-3-haiku-20240307", SAMPLED, SAMPLED, ""),
    "messages: sampling of one that thinks": (
        "messages",
        "claude-haiku-4-5",
        {**BUDGET, "temperature": 1, "top_k": 3},
        {**BUDGET, "temperature": 1, "top_k": None},
        "top_k",
    ),
    "messages: a forced tool of one that thinks": (
        "messages",
        "claude-haiku-4-5",
        {**BUDGET, **ANY},
        thinking(None, tool_choice={"type": "any"}),
        "thinking",
    ),
    "messages: a reply that is begun": (
        "messages",
        OPUS,
        {"messages": BEGUN},
        {"messages": [*BEGUN, CONTINUE]},
        "messages.prefill",
    ),
    "messages: a reply begun of Opus 4.6": (
        "messages",
        "claude-opus-4-6",
        {"messages": BEGUN},
        {"messages": [*BEGUN, CONTINUE]},
        "messages.prefill",
    ),
    "messages: a reply begun of Opus 4.5": ("messages", "claude-opus-4-5", {"messages": BEGUN}, {"messages": BEGUN}, ""),
}

GEMINI: dict[str, tuple[str, Fields, Fields, str]] = {
    "off of 2.5 Flash": ("gemini-2.5-flash", {"reasoning_effort": "none"}, {"thinkingBudget": 0}, ""),
    "off of 2.5 Pro": ("gemini-2.5-pro", {"reasoning_effort": "none"}, {"thinkingBudget": 128}, "reasoning_effort"),
    "a small budget of 2.5 Flash-Lite": (
        "gemini-2.5-flash-lite",
        {"reasoning": {"max_tokens": 9}},
        {"thinkingBudget": 512},
        "",
    ),
    "off of 3.5 Flash": ("gemini-3.5-flash", {"reasoning_effort": "none"}, {"thinkingLevel": "minimal"}, "reasoning_effort"),
    "off of 3.8 Flash": ("gemini-3.8-flash", {"reasoning_effort": "none"}, {"thinkingLevel": "low"}, "reasoning_effort"),
    "minimal of 3.7 Flash": ("gemini-3.7-flash", {"reasoning_effort": "minimal"}, {"thinkingLevel": "low"}, ""),
    "medium of 3 Pro": ("gemini-3-pro-preview", {"reasoning_effort": "medium"}, {"thinkingLevel": "low"}, ""),
    "an effort of 2.0": ("gemini-2.0-flash", {"reasoning_effort": "high"}, {}, "reasoning_effort"),
    "penalties of 2.5": ("gemini-2.5-flash", {"frequency_penalty": 0.5, "presence_penalty": 0}, {}, "frequency_penalty"),
    "penalties of 2.0": ("gemini-2.0-flash", {"frequency_penalty": 0.5}, {"frequencyPenalty": 0.5}, ""),
    "sampling of 3.5 Flash-Lite": ("gemini-3.5-flash-lite", SAMPLED, {}, "temperature, top_p"),
    "sampling": ("gemini-3.5-flash", SAMPLED, {"temperature": 0.2, "topP": 0.9}, ""),
    "a reply that is begun": ("gemini-3.8-flash", {"messages": BEGUN}, {"contents": 3}, "messages.prefill"),
    "a reply begun of 2.5": ("gemini-2.5-flash", {"messages": BEGUN}, {"contents": 2}, ""),
}


def serve(upstream, kind: str, model: str, model_id: str) -> None:
    base_url = upstream.url.removesuffix("/v1")
    provider = factories.make_provider(kind, kind=kind, base_url=base_url, api_key_env=KEY_ENV)
    prices = {"input": "3.00", "output": "15.00", "cached_input": "0.30"}
    factories.make_model(model_id, provider=provider, upstream_model=model, function_calling=True, **prices)


def asked(api, language: str, model_id: str, demand: Fields) -> Any:
    if language == "responses":
        return api.post("/v1/responses", {"model": model_id, "max_output_tokens": 4_000, "input": [HELLO], **demand})
    path = "/v1/messages" if language == "messages" else "/v1/chat/completions"
    return api.post(path, {"model": model_id, "max_tokens": 4_000, "messages": [HELLO], **demand})


def test_claude_is_sent_the_nearest_that_it_takes_and_the_header_names_the_rest(api, alice, upstream, subtests):
    for index, (case, (language, model, demand, expected, named)) in enumerate(CLAUDE.items()):
        model_id = f"acme/{index}"  # offers are cached
        with subtests.test(case), undone():
            upstream.requests.clear()
            alice.refresh_from_db()
            serve(upstream, "anthropic", model, model_id)
            upstream.will(claude.whole())
            reply = asked(api, language, model_id, demand)
            assert reply.status_code == 200, reply.content
            [sent] = upstream.requests
            assert {name: sent.body.get(name) or None for name in expected} == expected
            assert reply.headers.get("x-gateway-ignored-fields", "") == named
            nanos = 4 * 3_000 + 100 * 300 + 20 * 3_000 + 7 * 15_000
            assert_charged(alice, "reported", prompt=124, cached=100, completion=7, nanos=nanos, model=model_id)


def test_gemini_is_sent_the_nearest_that_it_takes_and_the_header_names_the_rest(api, alice, upstream, subtests):
    for index, (case, (model, demand, expected, named)) in enumerate(GEMINI.items()):
        model_id = f"acme/{index}"  # offers are cached
        with subtests.test(case), undone():
            upstream.requests.clear()
            alice.refresh_from_db()
            serve(upstream, "gemini", model, model_id)
            upstream.will(gemini.whole("Hi"))
            reply = asked(api, "chat", model_id, demand)
            assert reply.status_code == 200, reply.content
            [sent] = upstream.requests
            config = sent.body["generationConfig"]
            found = {**config, **config.get("thinkingConfig", {}), "contents": len(sent.body["contents"])}
            ours = {"maxOutputTokens", "thinkingConfig", "includeThoughts", *({"contents"} - expected.keys())}
            assert {name: value for name, value in found.items() if name not in ours} == expected
            assert reply.headers.get("x-gateway-ignored-fields", "") == named
            assert_charged(alice, "reported", prompt=9, cached=0, completion=2, nanos=9 * 3_000 + 2 * 15_000, model=model_id)


OPENAI, MOONSHOT, GROQ = (f"https://{host}/v1" for host in ("api.openai.com", "api.moonshot.ai", "api.groq.com"))
# host, model, what is demanded, what the provider is sent, what the header names.
OTHERS: dict[str, tuple[str, str, Fields, Fields, list[str]]] = {
    "off of GPT-5": (OPENAI, "gpt-5-mini", {"reasoning_effort": "none"}, {"reasoning_effort": "minimal"}, ["reasoning_effort"]),
    "minimal of GPT-5.2": (
        OPENAI,
        "gpt-5.2-2025-12-11",
        {"reasoning_effort": "minimal"},
        {"reasoning_effort": "low"},
        ["reasoning_effort"],
    ),
    "xhigh of o3": (OPENAI, "o3", {"reasoning": {"effort": "xhigh"}}, {"reasoning_effort": "high"}, ["reasoning"]),
    "an effort of GPT-4.1": (OPENAI, "gpt-4.1-mini", {"reasoning_effort": "low"}, {}, ["reasoning_effort"]),
    "off of GPT-4.1": (OPENAI, "gpt-4.1", {"reasoning_effort": "none"}, {}, []),
    "sampling of GPT-4.1": (OPENAI, "gpt-4.1", SAMPLED, SAMPLED, []),
    "sampling of GPT-5": (OPENAI, "gpt-5", SAMPLED, {}, ["temperature", "top_p"]),
    "the only sampling": (OPENAI, "gpt-5", {"temperature": 1, "top_p": 1, "presence_penalty": 0}, {}, []),
    "sampling of GPT-5.2": (OPENAI, "gpt-5.2", SAMPLED, SAMPLED, []),
    "sampling of GPT-5.2 that reasons": (
        OPENAI,
        "gpt-5.2",
        {**SAMPLED, "reasoning_effort": "low"},
        {"reasoning_effort": "low"},
        ["temperature", "top_p"],
    ),
    "penalties of o4-mini": (OPENAI, "o4-mini", {"presence_penalty": 0.5}, {}, ["presence_penalty"]),
    "sampling of Kimi": (MOONSHOT, "kimi-k2.7-code", SAMPLED, {}, ["temperature", "top_p"]),
    "off of gpt-oss": (
        GROQ,
        "openai/gpt-oss-20b",
        {"reasoning_effort": "none"},
        {"reasoning_effort": "low"},
        ["reasoning_effort"],
    ),
    "a server of one's own": ("http://127.0.0.1:9/v1", "gpt-5", SAMPLED, SAMPLED, []),
    "a name of nobody": (OPENAI, "our-model", SAMPLED, SAMPLED, []),
}
DEMANDED = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "reasoning_effort")


@pytest.mark.parametrize(("host", "model", "demand", "expected", "named"), OTHERS.values(), ids=OTHERS)
def test_hosts_of_openais_kind_are_sent_what_their_models_take(host, model, demand, expected, named):
    chat = schema.parse({"model": "acme/m", "messages": [HELLO], **demand})
    call = make_call(chat, make_offer("openai", model, base_url=host), 100)
    sent = openai_request.body(call, stream=False)
    assert {name: sent[name] for name in DEMANDED if name in sent} == expected
    assert ADAPTERS["openai"].ignored_fields(call) == named


def test_responses_are_asked_for_the_nearest_effort():
    chat = schema.parse({"model": "acme/m", "messages": [HELLO], "reasoning_effort": "max", **SAMPLED})
    call = make_call(chat, make_offer("openai-responses", "gpt-5.2", base_url=OPENAI), 100)
    sent = responses_request.body(call, stream=False)
    assert sent["reasoning"]["effort"] == "xhigh"
    assert not sent.keys() & SAMPLED.keys()
    assert ADAPTERS["openai-responses"].ignored_fields(call) == ["temperature", "top_p", "reasoning_effort"]


# --- Whatever is demanded ---------------------------------------------------------------------------------------------

LEVELS = st.sampled_from(messages.EFFORTS)
CHAT_DEMANDS = st.fixed_dictionaries(
    {"messages": st.sampled_from([[HELLO], BEGUN, [*BEGUN, {"role": "system", "content": "x"}]])},
    optional={
        "reasoning_effort": st.sampled_from(REASONING_EFFORTS),
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "tools": st.just(FUNCTION["tools"]),
        "tool_choice": st.sampled_from(["auto", "none", "required", NAMED["tool_choice"]]),
    },
)
KINDS = st.sampled_from([OFF, BETWEEN, BUDGET, {"thinking": ADAPTIVE}, {}])
MESSAGES_DEMANDS = st.builds(
    lambda fields, kind: {**fields, **kind},
    st.fixed_dictionaries(
        {"messages": st.sampled_from([[HELLO], BEGUN])},
        optional={
            "temperature": st.floats(0, 1),
            "top_p": st.floats(0, 1),
            "top_k": st.integers(1, 9),
            "tools": st.just(TOOL["tools"]),
            "tool_choice": st.sampled_from([AUTO, {"type": "none"}, ANY["tool_choice"], ONE["tool_choice"]]),
            "output_config": LEVELS.map(lambda level: {"effort": level}),
        },
    ),
    KINDS,
)


@settings(max_examples=300)
@given(model=st.sampled_from([OPUS, SONNET, HAIKU, "claude-fable-5-1", UNKNOWN]), chat=CHAT_DEMANDS, asked=MESSAGES_DEMANDS)
def test_no_request_for_a_model_of_5_5_has_what_it_refuses(model, chat, asked):
    asked = {name: value for name, value in asked.items() if name != "tool_choice" or "tools" in asked}
    chat = {name: value for name, value in chat.items() if name != "tool_choice" or "tools" in chat}
    offer = make_offer("anthropic", model)
    for request in (
        schema.parse({"model": "acme/m", **chat}),
        messages.parse({"model": "acme/m", "max_tokens": 4_000, **asked})[0],
    ):
        sent = AnthropicAdapter().body(make_call(request, offer, 4_000), stream=False)
        assert not sent.keys() & {"temperature", "top_p", "top_k"}
        assert sent["messages"][-1]["role"] == "user"
        kind, level = sent.get("thinking", {}).get("type"), sent.get("output_config", {}).get("effort")
        assert "budget_tokens" not in sent.get("thinking", {})
        assert kind in {None, "adaptive", {SONNET: "between_tools", HAIKU: "disabled"}.get(model)}
        assert kind in (None, "adaptive") or level not in ("xhigh", "max")
        if model != HAIKU:
            assert sent.get("tool_choice", AUTO)["type"] in ("auto", "none")


# --- The table --------------------------------------------------------------------------------------------------------


def test_each_row_has_a_source_and_matches_its_own_names():
    for generation in model_rules.GENERATIONS:
        assert generation.source.startswith("https://")
        host = f"https://{generation.hosts[0]}" if generation.hosts else ""
        for name in generation.names:
            assert model_rules.of_route(generation.kind, host, name) is generation.rules, name


SPELLINGS = {
    "anthropic/claude-sonnet-5.5": "claude-sonnet-5-5",
    "anthropic.claude-opus-5-5-v1:0": OPUS,
    "claude-opus-5-20260701": "claude-opus-5",
    "claude-sonnet-4@20250514": "claude-sonnet-4",
    "claude-opus-4-8[1m]": "claude-opus-4-8",
    "Claude-3-Opus-20240229": "claude-3",
    "claude-3-7-sonnet-latest": "claude-3-7",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "claude-sonnet-4-5",
    "eu.anthropic.claude-3-5-sonnet-20240620-v1:0": "claude-3-5",
    "global.anthropic.claude-opus-4-6-v1": "claude-opus-4-6",
    "anthropic.claude-haiku-5-5": HAIKU,
    "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5": "claude-opus-5",
}


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS.items())
def test_a_model_is_known_in_every_spelling(spelling, name):
    assert model_rules.of_route("anthropic", "", spelling) is model_rules.of_route("anthropic", "", name)


@pytest.mark.parametrize("name", ["claude-opus-5-6", "claude-opus-10", "claude-haiku-6", "claude-opus-4-10", "our-claude", ""])
def test_a_name_that_is_not_known_has_the_rules_of_the_newest(name):
    assert model_rules.of_route("anthropic", "", name) is model_rules.NEWEST["anthropic"]


def test_other_kinds_and_hosts_have_no_rules():
    for kind, host in (
        ("echo", ""),
        ("openai", "https://llm.example"),
        ("anthropic-embeddings", ""),
        ("openai-embeddings", OPENAI),
    ):
        assert model_rules.of_route(kind, host, "gpt-5") is NO_RULES
