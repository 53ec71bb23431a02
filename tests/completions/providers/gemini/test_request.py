"""The body of a generateContent request: what is sent, what is left out, and what is refused, by field."""

import pytest

from completions.providers.gemini import request as gemini_request
from completions.request.schema import REASONING_EFFORTS
from gateway_project.errors import InvalidRequest
from tests.completions.offers import make_call, make_offer
from tests.completions.providers.chat_requests import HELLO, make_request


def body(*messages, upstream_model="gemini-2.5-flash", **fields):
    offer = make_offer("gemini", upstream_model)
    asked = make_request(*messages, **fields)
    gemini_request.check(asked)
    return gemini_request.body(make_call(asked, offer, 50), stream=False)


def config(**fields):
    generation = body(**fields)["generationConfig"]
    assert generation.pop("maxOutputTokens") == 50
    return generation


def assert_refused(param, **fields):
    asked = make_request(**fields)
    with pytest.raises(InvalidRequest) as refusal:
        gemini_request.check(asked)
    assert refusal.value.param == param, refusal.value.message
    assert refusal.value.message.startswith(param)


def test_plain_request_is_its_contents_and_max_tokens():
    assert body() == {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"maxOutputTokens": 50},
    }


def test_instructions_are_a_field_of_their_own():
    made = body({"role": "system", "content": "Be brief."}, HELLO)
    assert made["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert made["contents"] == body()["contents"]


@pytest.mark.parametrize(
    ("model", "is_marked"),
    [("gemini-2.5-flash", False), ("gemini-3.5-flash", True), ("gemma-3-27b-it", False), ("gemini-flash-latest", True)],
)
def test_unsigned_calls_are_marked_since_gemini_3(model, is_marked):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = body(HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}, upstream_model=model)
    assert ("thoughtSignature" in made["contents"][1]["parts"][0]) == is_marked


# --- Tools -------------------------------------------------------------------------------------------------------


PARAMETERS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"q": {"type": "string", "minLength": 1, "default": "x"}, "strict": {"type": ["integer", "null"]}},
    "required": ["q", "unknown"],
    "additionalProperties": False,
}
FIND = {"type": "function", "function": {"name": "find", "description": "Finds.", "strict": True, "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def test_tools_become_declarations_without_unsupported_keywords():
    made = body(tools=[FIND, NOW], parallel_tool_calls=False)
    assert made["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "find",
                    "description": "Finds.",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {
                            "q": {"type": "STRING", "minLength": 1},
                            "strict": {"type": "INTEGER", "nullable": True},
                        },
                        "required": ["q"],
                    },
                },
                {"name": "now"},
            ]
        }
    ]
    assert "toolConfig" not in made


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "function": {"name": "find"}}, {"mode": "ANY", "allowedFunctionNames": ["find"]}),
    ],
    ids=["auto", "none", "required", "named"],
)
def test_tool_choice_becomes_a_mode(choice, expected):
    assert body(tools=[FIND], tool_choice=choice)["toolConfig"] == {"functionCallingConfig": expected}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "custom", "custom": {"name": "sql"}}]}, "tools[0].type"),
        ({"tools": [FIND], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
)
def test_tool_field_without_a_counterpart_is_refused_by_name(fields, param):
    assert_refused(param, **fields)


# --- Generation --------------------------------------------------------------------------------------------------


def test_sampling_fields_are_renamed():
    given = {"temperature": 0.5, "top_p": 1, "top_k": 40, "seed": -1, "frequency_penalty": 0.1, "presence_penalty": -0.1}
    assert config(upstream_model="gemini-2.0-flash", **given, stop="\n\n", logprobs=True, top_logprobs=3) == {
        "temperature": 0.5,
        "topP": 1,
        "topK": 40,
        "seed": 2**31 - 1,
        "frequencyPenalty": 0.1,
        "presencePenalty": -0.1,
        "stopSequences": ["\n\n"],
        "responseLogprobs": True,
        "logprobs": 3,
    }


def test_unknown_and_unpaid_fields_are_not_sent():
    everything = {
        "safety_settings": [],
        "cachedContent": "c",
        "cached_content": "c",
        "google_search": {},
        "user": "u",
        "metadata": {},
        "store": True,
        "service_tier": "priority",
        "n": 1,
        "generationConfig": {"candidateCount": 8},
        "max_tokens": 99,
        "extra_body": {"google": {"cached_content": "c"}},
        "web_search_options": {},
        "logit_bias": {},
        "stop": [],
        "tools": None,
        "seed": None,
        "response_format": None,
        "logprobs": False,
        "response_modalities": ["IMAGE"],
        "modalities": ["text"],
    }
    assert body(**everything) == body()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"stop": ["a", "b", "c", "d", "e", "f"]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema"),
    ],
)
def test_field_without_a_counterpart_is_refused_by_name(fields, param):
    assert_refused(param, **fields)


def test_five_stop_sequences_are_accepted():
    assert config(stop=list("abcde")) == {"stopSequences": list("abcde")}


def test_json_is_requested_with_and_without_a_schema():
    assert config(response_format={"type": "text"}) == {}
    assert config(response_format={"type": "json_object"}) == {"responseMimeType": "application/json"}
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}, "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
    assert config(response_format=wanted) == {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
    }


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0, "includeThoughts": False}),
        ("gemini-2.5-flash", "low", {"thinkingBudget": 1024, "includeThoughts": True}),
        ("gemini-2.5-pro", "medium", {"thinkingBudget": 8192, "includeThoughts": True}),
        ("gemini-2.5-pro", "xhigh", {"thinkingBudget": 24576, "includeThoughts": True}),
        ("gemini-3.5-flash", "none", {"thinkingLevel": "minimal", "includeThoughts": False}),
        ("gemini-3.5-flash", "minimal", {"thinkingLevel": "minimal", "includeThoughts": True}),
        ("gemini-3.1-pro-preview", "minimal", {"thinkingLevel": "low", "includeThoughts": True}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-pro-latest", "xhigh", {"thinkingLevel": "high", "includeThoughts": True}),
    ],
)
def test_effort_becomes_a_budget_or_a_level(model, effort, expected):
    assert body(upstream_model=model, reasoning_effort=effort)["generationConfig"]["thinkingConfig"] == expected


@pytest.mark.parametrize(
    ("model", "reasoning", "expected"),
    [
        ("gemini-2.5-flash", {"max_tokens": 2_000}, {"thinkingBudget": 2_000, "includeThoughts": True}),
        ("gemini-2.5-flash", {"max_tokens": 99_000}, {"thinkingBudget": 24_576, "includeThoughts": True}),
        ("gemini-2.5-flash", {"enabled": False}, {"thinkingBudget": 0, "includeThoughts": False}),
        ("gemini-3.5-flash", {"max_tokens": 2_000}, {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-3.5-flash", {"exclude": True}, None),
    ],
)
def test_openrouters_reasoning_is_a_budget_or_a_level(model, reasoning, expected):
    assert body(upstream_model=model, reasoning=reasoning)["generationConfig"].get("thinkingConfig") == expected


@pytest.mark.parametrize("effort", REASONING_EFFORTS)
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.5-flash", "gemini-3.1-pro-preview"])
def test_every_effort_that_the_schema_accepts_has_a_translation(model, effort):
    assert "thinkingConfig" in config(upstream_model=model, reasoning_effort=effort)


def test_expanded_definitions_are_limited_by_the_size_of_the_request():
    large = {"$defs": {"A": {"type": "string", "description": "x" * 500}}, "type": "object"}
    large["properties"] = {name: {"$ref": "#/$defs/A"} for name in "abcdefgh"}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": large}}
    assert_refused("response_format.json_schema.schema", response_format=wanted)


# --- Whether it thinks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "effort", "is_off"),
    [
        ("gemini-2.5-flash", "none", True),
        ("gemini-2.5-flash", "low", False),
        ("gemini-2.5-flash", None, False),
        ("gemini-2.5-pro", "none", False),  # it takes no budget of 0
        ("gemini-3.5-flash", "none", False),  # becomes its lowest level
        ("gemini-flash-latest", "none", False),
    ],
)
def test_reasoning_is_switched_off_only_where_a_budget_of_0_is_sent_and_taken(model, effort, is_off):
    call = make_call(make_request(reasoning_effort=effort), make_offer("gemini", model), 50)
    assert gemini_request.switches_reasoning_off(call) == is_off
