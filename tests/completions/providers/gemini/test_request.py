"""OpenAI's request in Gemini's words, and what is refused because Gemini has no word for it."""

import json

import pytest

from completions.chat import ChatRequest
from completions.providers.gemini import request as gemini_request
from completions.providers.gemini.schema import ExpansionBudget, translate
from gateway_project import errors
from tests.completions.offers import make_call, make_offer
from tests.completions.providers.gemini.scripts import SIGNATURE

HELLO = {"role": "user", "content": "Hello"}


def request(*messages, **fields):
    messages = list(messages or [HELLO])
    body = {"model": "google/m", "messages": messages, **fields}
    return ChatRequest("google/m", messages, None, False, False, body, len(json.dumps(body)))


def sent(*messages, upstream_model="gemini-2.5-flash", **fields):
    offer = make_offer("gemini", upstream_model)
    asked = request(*messages, **fields)
    gemini_request.check(asked)
    return gemini_request.body(make_call(asked, offer, 50))


def config(**fields):
    generation = sent(**fields)["generationConfig"]
    assert generation.pop("maxOutputTokens") == 50
    return generation


def contents(*messages, **fields):
    return sent(*messages, **fields)["contents"]


def assert_refused(param, *messages, **fields):
    with pytest.raises(errors.InvalidRequest) as caught:
        gemini_request.check(request(*messages, **fields))
    assert caught.value.param == param, caught.value.message
    assert caught.value.message.startswith(param)


# --- Messages ----------------------------------------------------------------------------------------------------


def test_a_plain_request_is_its_contents_and_the_cap():
    assert sent() == {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"maxOutputTokens": 50},
    }


def test_instructions_are_collected_wherever_they_stand():
    made = sent(
        {"role": "system", "content": "Be brief."},
        HELLO,
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": ""}]},
    )
    assert made["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    assert made["contents"] == [{"role": "user", "parts": [{"text": "Hello"}]}]


def test_messages_of_one_speaker_in_a_row_are_one_content():
    made = contents(
        HELLO,
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "you"},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes?"}, {"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "Go on"},
    )
    assert [(content["role"], [part["text"] for part in content["parts"]]) for content in made] == [
        ("user", ["Hello", "you"]),
        ("model", ["Yes?", "No.", "Hm."]),
        ("user", ["Go on"]),
    ]


def test_without_anything_but_instructions_there_is_nothing_to_answer():
    assert_refused("messages", {"role": "system", "content": "Be brief."})
    assert_refused("messages", {"role": "user", "content": ""})


def test_images_sounds_and_files_are_data_in_place():
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1n", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;name=a.pdf;base64,cGRm"}},
    ]
    [content] = contents({"role": "user", "content": parts})
    assert [part["inlineData"] for part in content["parts"]] == [
        {"mimeType": "image/png", "data": "aW1n"},
        {"mimeType": "audio/wav", "data": "d2F2"},
        {"mimeType": "application/pdf", "data": "cGRm"},
    ]


@pytest.mark.parametrize(
    "url", ["https://example.org/a.png", "file:///etc/passwd", "data:image/png,raw", "data:;base64,aa", ""]
)
def test_what_would_have_to_be_fetched_is_refused_by_its_name(url):
    image = {"type": "image_url", "image_url": {"url": url}}
    assert_refused(
        "messages[1].content[1].image_url.url", HELLO, {"role": "user", "content": [{"type": "text", "text": "a"}, image]}
    )


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "file", "file": {"file_id": "file-1"}}, "messages[0].content[0].file.file_data"),
        ({"type": "input_audio", "input_audio": {"data": "x", "format": "midi"}}, "messages[0].content[0].input_audio.format"),
        ({"type": "input_audio", "input_audio": {"format": "wav"}}, "messages[0].content[0].input_audio.data"),
        ({"type": "image_url", "image_url": "data:image/png;base64,aa"}, "messages[0].content[0].image_url"),
        ({"type": "refusal", "refusal": "no"}, "messages[0].content[0].type"),
        ({"type": ["text"]}, "messages[0].content[0].type"),
        ({"type": "text", "text": None}, "messages[0].content[0].text"),
        ("text", "messages[0].content[0]"),
    ],
)
def test_a_part_that_gemini_has_none_for_is_named(part, param):
    assert_refused(param, {"role": "user", "content": [part]})


# --- Tools -------------------------------------------------------------------------------------------------------


def called(*calls, **fields):
    tool_calls = [
        {"id": made_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for made_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls, **fields}


def result(call_id, content):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_calls_and_their_results_are_parts_by_the_functions_name():
    made = contents(
        HELLO,
        called(("call_1", "find", '{"q": 1}'), ("call_2", "now", "")),
        result("call_2", '{"time": "noon"}'),
        result("call_1", "nothing found"),
        {"role": "user", "content": "Well?"},
    )
    assert made[1:] == [
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "find", "args": {"q": 1}}}, {"functionCall": {"name": "now", "args": {}}}],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "now", "response": {"time": "noon"}}},
                {"functionResponse": {"name": "find", "response": {"output": "nothing found"}}},
                {"text": "Well?"},
            ],
        },
    ]


@pytest.mark.parametrize("content", ["[1]", "7", '"a"', "", "NaN", '{"a": NaN}', '{"a": "\\ud83d"}', "[" * 100_000])
def test_a_result_that_is_no_object_is_put_into_one_as_it_is(content):
    made = contents(HELLO, called(("c", "f", "{}")), result("c", content))
    assert made[-1]["parts"] == [{"functionResponse": {"name": "f", "response": {"output": content}}}]


@pytest.mark.parametrize("arguments", ["[]", "7", "{", '{"a": NaN}', '{"a": "\\ud83d"}', '{"a":' * 100_000])
def test_arguments_that_are_no_object_are_refused(arguments):
    assert_refused("messages[1].tool_calls[0].function.arguments", HELLO, called(("c", "f", arguments)))


def test_a_result_of_a_call_that_nobody_made_is_refused():
    assert_refused("messages[2].tool_call_id", HELLO, called(("c", "f", "{}")), result("d", "x"))
    assert_refused("messages[1].tool_call_id", HELLO, result("c", "x"), called(("c", "f", "{}")))


def test_calls_as_they_were_before_there_were_several_are_understood():
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    made = contents(HELLO, old, {"role": "function", "name": "f", "content": "ok"})
    assert made[1]["parts"] == [{"functionCall": {"name": "f", "args": {}}}]
    assert made[2]["parts"] == [{"functionResponse": {"name": "f", "response": {"output": "ok"}}}]


def signed(message, signature):
    message["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": signature}}
    return message


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.5-flash"])
def test_a_signature_goes_back_with_its_call(model):
    made = contents(HELLO, signed(called(("a", "f", "{}"), ("b", "g", "{}")), SIGNATURE), upstream_model=model)
    assert [part.get("thoughtSignature") for part in made[1]["parts"]] == [SIGNATURE, None]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gemini-2.5-flash", None),
        ("gemini-3.5-flash", "skip_thought_signature_validator"),
        ("gemma-3-27b-it", None),
        ("gemini-flash-latest", "skip_thought_signature_validator"),
    ],
)
@pytest.mark.parametrize("extra", [None, "x", {"google": "x"}, {"google": {"thought_signature": 5}}])
def test_a_call_whose_signature_was_lost_is_marked_for_models_that_want_one(model, expected, extra):
    message = called(("a", "f", "{}"), ("b", "g", "{}"))
    message["tool_calls"][0]["extra_content"] = extra
    made = contents(HELLO, {"role": "assistant", "content": "Hm."}, message, upstream_model=model)
    assert [part.get("thoughtSignature") for part in made[1]["parts"]] == [None, expected, None]


PARAMETERS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"q": {"type": "string", "minLength": 1, "default": "x"}, "strict": {"type": ["integer", "null"]}},
    "required": ["q", "unknown"],
    "additionalProperties": False,
}
FIND = {"type": "function", "function": {"name": "find", "description": "Finds.", "strict": True, "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def test_tools_are_declarations_without_what_gemini_does_not_know():
    made = sent(tools=[FIND, NOW], parallel_tool_calls=False)
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
    ("choice", "theirs"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "function": {"name": "find"}}, {"mode": "ANY", "allowedFunctionNames": ["find"]}),
    ],
    ids=["auto", "none", "required", "named"],
)
def test_a_tool_choice_is_a_mode(choice, theirs):
    assert sent(tools=[FIND], tool_choice=choice)["toolConfig"] == {"functionCallingConfig": theirs}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": "all"}, "tools"),
        ({"tools": ["find"]}, "tools[0]"),
        ({"tools": [{"type": "google_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {"name": 5}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": "x"}}]}, "tools[0].function.parameters"),
        ({"tools": [FIND], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [FIND], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
        ({"tools": [FIND], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
)
def test_tools_that_cannot_be_are_named(fields, param):
    assert_refused(param, **fields)


# --- How it is generated -----------------------------------------------------------------------------------------


def test_sampling_is_told_by_their_names():
    given = {"temperature": 0.5, "top_p": 1, "top_k": 40, "seed": -1, "frequency_penalty": 0.1, "presence_penalty": -0.1}
    assert config(**given, stop="\n\n", logprobs=True, top_logprobs=3) == {
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


def test_nothing_else_is_sent():
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
        "tools": [],
        "seed": None,
        "response_format": None,
        "logprobs": False,
        "response_modalities": ["IMAGE"],
        "modalities": ["text"],
    }
    assert sent(**everything) == sent()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": ["a", "b", "c", "d", "e", "f"]}, "stop"),
        ({"stop": [5]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"seed": "x"}, "seed"),
        ({"seed": True}, "seed"),
        ({"presence_penalty": "x"}, "presence_penalty"),
        ({"frequency_penalty": False}, "frequency_penalty"),
        ({"logprobs": "yes"}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"reasoning_effort": 5}, "reasoning_effort"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "alloy"}}, "audio"),
    ],
)
def test_what_gemini_cannot_take_is_named(fields, param):
    assert_refused(param, **fields)


def test_five_stop_sequences_are_the_most():
    assert config(stop=list("abcde")) == {"stopSequences": list("abcde")}


def test_json_is_asked_for_with_and_without_a_schema():
    assert config(response_format={"type": "text"}) == {}
    assert config(response_format={"type": "json_object"}) == {"responseMimeType": "application/json"}
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}, "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
    assert config(response_format=wanted) == {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
    }


@pytest.mark.parametrize(
    ("model", "effort", "theirs"),
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
def test_how_much_to_think_is_a_budget_or_a_level(model, effort, theirs):
    assert sent(upstream_model=model, reasoning_effort=effort)["generationConfig"]["thinkingConfig"] == theirs


# --- Schemas -----------------------------------------------------------------------------------------------------


def schema(given, budget_bytes=10_000):
    return translate(given, "p", ExpansionBudget(budget_bytes))


@pytest.mark.parametrize(
    ("given", "theirs"),
    [
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"type": "string", "format": ["odd"]}, {"type": "STRING"}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
        ({"type": "string", "enum": ["a", ""]}, {"type": "STRING"}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER"}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"items": {"type": "number", "exclusiveMinimum": 0}}, {"type": "ARRAY", "items": {"type": "NUMBER"}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
        ({"properties": {"$ref": {"type": "boolean"}}}, {"type": "OBJECT", "properties": {"$ref": {"type": "BOOLEAN"}}}),
        ({"type": "null"}, {"type": "STRING", "nullable": True}),
        ({"type": 5, "title": "t"}, {"type": "STRING", "title": "t"}),
        (
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "description": "d"},
            {"type": "STRING", "maxLength": 3, "description": "d", "nullable": True},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "number"}], "description": "d"},
            {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "description": "d"},
        ),
        (
            {"type": ["string", "array", "null"], "items": {"type": "integer"}, "description": "d"},
            {
                "anyOf": [{"type": "STRING"}, {"type": "ARRAY", "items": {"type": "INTEGER"}}],
                "description": "d",
                "nullable": True,
            },
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        ),
    ],
)
def test_a_schema_keeps_what_gemini_knows(given, theirs):
    assert schema(given) == theirs


def test_definitions_are_written_out_where_they_are_referred_to():
    given = {
        "$defs": {"Step": {"type": "object", "properties": {"next": {"$ref": "#/$defs/No~1te"}}}, "No/te": {"type": "string"}},
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}},
            "one": {"allOf": [{"$ref": "#/$defs/Step"}]},
        },
    }
    step = {"type": "OBJECT", "properties": {"next": {"type": "STRING"}}}
    assert schema(given) == {"type": "OBJECT", "properties": {"steps": {"type": "ARRAY", "items": step}, "one": step}}


@pytest.mark.parametrize(
    "given",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/A"},
        {"$ref": "https://example.org/schema.json"},
        {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"},
        {"$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}}, "$ref": "#/$defs/A"},
        {"$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)}, "$ref": "#/$defs/0"},
        {"$defs": {"A": {"description": "x" * 6_000}}, "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]},
    ],
    ids=["itself", "unknown", "elsewhere", "circle", "recursive", "doubling", "large"],
)
def test_definitions_without_an_end_are_refused(given):
    with pytest.raises(errors.InvalidRequest, match=r"^p (is|refers)") as caught:
        schema(given)
    assert caught.value.param == "p"


def test_what_definitions_add_is_within_what_the_request_is_charged_for():
    large = {"$defs": {"A": {"type": "string", "description": "x" * 500}}, "type": "object"}
    large["properties"] = {name: {"$ref": "#/$defs/A"} for name in "abcdefgh"}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": large}}
    assert_refused("response_format.json_schema.schema", response_format=wanted)
