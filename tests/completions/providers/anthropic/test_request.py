"""The body of a Messages API request: what is sent, what is left out, and what is refused, by field."""

import pytest

from completions.providers.anthropic import request as anthropic_request
from completions.request.schema import REASONING_EFFORTS
from gateway_project.errors import InvalidRequest
from tests.completions.offers import make_call, make_offer
from tests.completions.providers.chat_requests import HELLO, make_request

PNG = "data:image/png;base64,iVBORw0KGgo="
NEWEST, SAMPLING, BUDGET, OLD = "claude-opus-5-5", "claude-opus-4-6", "claude-haiku-4-5-20251001", "claude-3-5-sonnet-20241022"


def body(*messages, model=BUDGET, max_tokens=4_096, **fields):
    offer = make_offer("anthropic", model)
    asked = make_request(*messages, **fields)
    anthropic_request.check(asked)
    return anthropic_request.body(make_call(asked, offer, max_tokens), stream=False)


def text(value, **fields):
    return {"type": "text", "text": value, **fields}


def test_system_field_is_sent_only_with_instructions():
    assert body({"role": "system", "content": "Be brief."}, HELLO)["system"] == [text("Be brief.")]
    assert "system" not in body()


def test_cache_control_is_passed_on_for_five_minutes_or_an_hour():
    mark = {"cache_control": {"type": "ephemeral"}}
    longer = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tool = {"type": "function", "function": {"name": "f"}, **longer}
    image = {"type": "image_url", "image_url": {"url": PNG}, **mark}
    asked = body(
        {"role": "system", "content": [text("Be brief.", **longer)]},
        {"role": "user", "content": [image, text("a", cache_control={"type": "persistent"})]},
        tools=[tool],
        **longer,
    )
    assert asked["system"] == [text("Be brief.", **longer)]
    assert asked["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert asked["messages"][0]["content"][1] == text("a")
    assert asked["tools"][0]["cache_control"] == asked["cache_control"] == longer["cache_control"]
    assert body(cache_control={"type": "ephemeral", "ttl": "2h"})["cache_control"] == {"type": "ephemeral"}


# --- Tools -------------------------------------------------------------------------------------------------------


WEATHER = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": {"type": "object"}}}


def test_tools_are_sent_with_their_schema():
    bare = {"type": "function", "function": {"name": "time", "strict": True}}
    assert body(tools=[WEATHER, bare])["tools"] == [
        {"name": "weather", "description": "Of a city", "input_schema": {"type": "object"}},
        {"name": "time", "input_schema": {"type": "object", "properties": {}}, "strict": True},
    ]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "function", "function": {"name": "weather"}}, {"type": "tool", "name": "weather"}),
    ],
    ids=["absent", "auto", "required", "none", "named"],
)
def test_tool_choice_and_parallel_calls_become_one_object(choice, sent):
    assert body(tools=[WEATHER], tool_choice=choice).get("tool_choice") == sent
    alone = {} if choice == "none" else {"disable_parallel_tool_use": True}
    one_by_one = body(tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False)["tool_choice"]
    assert one_by_one == {**(sent or {"type": "auto"}), **alone}
    assert body(tools=[WEATHER], tool_choice=choice, parallel_tool_calls=True).get("tool_choice") == sent


@pytest.mark.parametrize("fields", [{"tools": None}, {"parallel_tool_calls": False}])
def test_no_tool_fields_without_tools(fields):
    assert not {"tools", "tool_choice"} & set(body(**fields))


# --- Other fields ------------------------------------------------------------------------------------------------


def test_unknown_and_unpaid_fields_are_not_sent():
    unsent = {
        **dict.fromkeys(["context_management", "strange", "system", "thinking", "output_config", "echo"], "x"),
        **dict.fromkeys(["container", "mcp_servers", "speed", "fallbacks", "inference_geo"], "x"),
        **{"service_tier": "scale", "prediction": {"type": "content", "content": "x"}, "web_search_options": {}},
        "frequency_penalty": 1,
        "logit_bias": {"7": 1},
        "max_completion_tokens": 9,
        "models": ["acme/small"],
        "presence_penalty": 1,
        "seed": 7,
        "store": True,
        "stream": True,
        "stream_options": {},
        "verbosity": "low",
    }
    assert body(**unsent, n=1, logprobs=False, modalities=["text"], response_format={"type": "text"}) == {
        "model": BUDGET,
        "max_tokens": 4_096,
        "stream": False,
        "messages": [{"role": "user", "content": [text("Hello")]}],
    }


@pytest.mark.parametrize(("stop", "sent"), [("END", ["END"]), (["a", "b "], ["a", "b "]), ([], None), (None, None)])
def test_stop_becomes_an_array(stop, sent):
    assert body(stop=stop).get("stop_sequences") == sent


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"temperature": 1.7}, {"temperature": 1}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"top_p": 0.3}, {"top_p": 0.3}),
        ({"temperature": 0.5, "top_p": 0.3}, {"temperature": 0.5}),
        ({"temperature": None, "top_p": 0.3}, {"top_p": 0.3}),
    ],
)
def test_one_sampling_field_is_sent_to_models_that_accept_it(fields, sent):
    def sampling(model, **more):
        asked = body(model=model, **fields, **more)
        return {name: asked[name] for name in ("temperature", "top_p") if name in asked}

    assert sampling(SAMPLING) == sampling(BUDGET) == sampling(OLD) == sent
    assert sampling("claude-opus-4-7") == sampling(NEWEST) == sampling("our-claude") == {}
    assert sampling(BUDGET, reasoning_effort="low") == {}


def test_json_schema_becomes_the_output_format():
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "object"}}}
    sent = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    assert body(response_format=wanted)["output_config"] == sent
    assert body(model=NEWEST, response_format=wanted, reasoning_effort="low")["output_config"] == {"effort": "low", **sent}


@pytest.mark.parametrize(
    ("fields", "user_id"),
    [
        ({"user": "u"}, "u"),
        ({"safety_identifier": "s", "user": "u"}, "s"),
        ({"metadata": {"user_id": "m", "more": "x"}, "user": "u"}, "m"),
        ({"metadata": {"more": "x"}}, None),
        ({"metadata": None, "user": ""}, None),
    ],
)
def test_user_id_is_the_first_of_three_fields(fields, user_id):
    assert body(**fields).get("metadata") == (None if user_id is None else {"user_id": user_id})


# --- Thinking ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effort", "max_tokens", "budget"),
    [
        ("minimal", 4_096, 1_024),
        ("low", 20_000, 4_000),
        ("medium", 20_000, 10_000),
        ("high", 20_000, 16_000),
        ("xhigh", 20_000, 19_000),
        ("high", 64_000, 32_000),
        ("high", 1_025, 1_024),
        ("low", 1_024, None),
        ("xhigh", 500, None),
    ],
)
def test_effort_becomes_a_budget_below_max_tokens_or_nothing(effort, max_tokens, budget):
    asked = body(model=BUDGET, max_tokens=max_tokens, reasoning_effort=effort)
    assert asked.get("thinking") == (None if budget is None else {"type": "enabled", "budget_tokens": budget})
    assert asked["max_tokens"] == max_tokens
    assert "output_config" not in asked


ADAPTIVE = {"type": "adaptive", "display": "summarized"}
EFFORTS = [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "xhigh")]


@pytest.mark.parametrize(("effort", "sent"), EFFORTS)
@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-5", NEWEST, "claude-fable-5", "anthropic/claude-opus-4.8"])
def test_newer_models_receive_the_effort(model, effort, sent):
    asked = body(model=model, max_tokens=100, reasoning_effort=effort)
    assert (asked["thinking"], asked["output_config"]) == (ADAPTIVE, {"effort": sent})


def test_opus_4_6_receives_high_for_xhigh():
    assert body(model=SAMPLING, reasoning_effort="xhigh")["output_config"] == {"effort": "high"}


@pytest.mark.parametrize("model", ["claude-3-haiku-20240307", OLD, "claude-2.1"])
def test_models_without_thinking_receive_no_thinking_field(model):
    assert "thinking" not in body(model=model, reasoning_effort="high")


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (NEWEST, {"output_config": {"effort": "low"}}),
        ("claude-sonnet-5-5", {"thinking": {"type": "between_tools"}}),
        ("claude-haiku-5-5", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5", {"thinking": {"type": "disabled"}}),
        ("claude-opus-4-8", {}),
        (BUDGET, {}),
        ("claude-fable-5", {"output_config": {"effort": "low"}}),
        ("claude-mythos-5", {"output_config": {"effort": "low"}}),
        ("our-claude", {"output_config": {"effort": "low"}}),
    ],
)
def test_effort_none_disables_thinking_or_lowers_the_effort_of_a_model_that_thinks_by_itself(model, sent):
    asked = body(model=model, reasoning_effort="none")
    assert {name: value for name, value in asked.items() if name in ("thinking", "output_config")} == sent
    assert "thinking" not in body(model=model)


@pytest.mark.parametrize(("model", "thinks"), [(BUDGET, False), (SAMPLING, False), ("claude-opus-4-7", False), (NEWEST, True)])
def test_thinking_is_omitted_when_a_tool_is_forced_on_a_model_that_refuses_both(model, thinks):
    asked = body(model=model, tools=[WEATHER], tool_choice="required", reasoning_effort="high")
    assert ("thinking" in asked) == thinks
    assert "thinking" in body(model=model, tools=[WEATHER], tool_choice="auto", reasoning_effort="high")


@pytest.mark.parametrize(("model", "thinks"), [(BUDGET, False), (NEWEST, True)])
def test_thinking_is_omitted_after_a_tool_result_on_models_that_want_signed_thinking_back(model, thinks):
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    asked = [
        HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "12 °C"},
    ]
    assert ("thinking" in body(*asked, model=model, reasoning_effort="high")) == thinks
    done = [*asked, {"role": "assistant", "content": "12 °C"}, HELLO]
    assert "thinking" in body(*done, model=model, reasoning_effort="high")


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking"),
    [
        (BUDGET, {"max_tokens": 2_000}, {"type": "enabled", "budget_tokens": 2_000}),
        (BUDGET, {"max_tokens": 100}, {"type": "enabled", "budget_tokens": 1_024}),  # the least that it takes
        (BUDGET, {"max_tokens": 9_000}, None),  # more than it may generate
        (BUDGET, {"effort": "medium"}, {"type": "enabled", "budget_tokens": 2_048}),
        (BUDGET, {"enabled": False}, None),
        (BUDGET, {"exclude": True}, None),
        (NEWEST, {"max_tokens": 2_000}, {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-5", {"enabled": False}, {"type": "disabled"}),
    ],
)
def test_openrouters_reasoning_is_thinking(model, reasoning, thinking):
    assert body(model=model, reasoning=reasoning).get("thinking") == thinking


def test_reasoning_that_a_model_cannot_heed_is_named_as_the_caller_does():
    for fields in ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}):
        call = make_call(make_request(**fields), make_offer("anthropic", OLD), 4_096)
        assert anthropic_request.ignored_fields(call) == list(fields)


@pytest.mark.parametrize("effort", REASONING_EFFORTS)
@pytest.mark.parametrize("model", [NEWEST, SAMPLING, BUDGET, OLD])
def test_every_effort_that_the_schema_accepts_has_a_translation(model, effort):
    assert body(model=model, reasoning_effort=effort)["max_tokens"] == 4_096


# --- Refusals ----------------------------------------------------------------------------------------------------


REFUSED = {
    "n": ({"n": 2}, "n"),
    "logprobs": ({"logprobs": True, "top_logprobs": 3}, "logprobs"),
    "functions": ({"functions": [{"name": "f"}]}, "functions"),
    "JSON without schema": ({"response_format": {"type": "json_object"}}, "response_format.type"),
    "absent schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        "response_format.json_schema.schema",
    ),
    "white space alone": ({"stop": ["", "\n\n"]}, "stop"),
    "empty stop": ({"stop": ""}, "stop"),
    "custom tool": ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
    "choice among tools": ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
}


@pytest.mark.parametrize(("fields", "param"), REFUSED.values(), ids=REFUSED)
def test_field_without_a_counterpart_is_refused_by_name(fields, param):
    asked = make_request(**fields)
    with pytest.raises(InvalidRequest) as refusal:
        anthropic_request.check(asked)
    assert refusal.value.param == param
    assert refusal.value.message.startswith(param)


# --- Whether it thinks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "effort", "is_off"),
    [
        ("claude-opus-5", "none", True),
        ("claude-sonnet-5-5", "none", True),
        (NEWEST, "none", False),  # it cannot be told not to
        (NEWEST, "low", False),
        (NEWEST, None, False),
        (BUDGET, "none", True),  # it thinks only when it is asked to
        ("claude-fable-5", "none", False),  # it cannot be told not to
        ("a-model-of-another-name", "none", False),
    ],
)
def test_reasoning_is_switched_off_where_the_model_is_told_not_to_think_or_does_not_by_itself(model, effort, is_off):
    call = make_call(make_request(reasoning_effort=effort), make_offer("anthropic", model), 50)
    assert anthropic_request.switches_reasoning_off(call) == is_off
