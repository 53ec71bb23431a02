"""What a provider would refuse in a request becomes what it takes, or is named in the header: a row for each kind and case."""

from typing import Any

import pytest

from completions.request import schema
from tests.completions.providers.sent import sent

HELLO = {"role": "user", "content": "Hello"}
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
Fields = dict[str, Any]


def text(said: str, **fields: Any) -> Fields:
    return {"type": "text", "text": said, **fields}


# --- White space ------------------------------------------------------------------------------------------------------

CALL = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
RESULT = {"role": "tool", "tool_call_id": "t", "content": "\n"}
# Messages with white space alone -> the turns that Anthropic is sent.
BLANK: dict[str, tuple[str, list[Fields], list[Fields]]] = {
    "a part": (
        "chat",
        [{"role": "user", "content": [text("a"), text(" \n"), text("b")]}],
        [{"role": "user", "content": [text("a"), text("b")]}],
    ),
    "a part with a mark": (
        "chat",
        [{"role": "user", "content": [text("a"), text(" ", **MARK)]}],
        [{"role": "user", "content": [text("a", **MARK)]}],
    ),
    "a message": (
        "chat",
        [HELLO, {"role": "assistant", "content": "\n\n"}, HELLO],
        [{"role": "user", "content": [text("Hello"), text("Hello")]}],
    ),
    "text before a call, and a result": (
        "chat",
        [HELLO, {"role": "assistant", "content": "\n\n", "tool_calls": [CALL]}, RESULT],
        [
            {"role": "user", "content": [text("Hello")]},
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
        ],
    ),
    "a block": (
        "messages",
        [{"role": "user", "content": [text("a"), text("\n")]}],
        [{"role": "user", "content": [text("a")]}],
    ),
    "a message in blocks": (
        "messages",
        [
            HELLO,
            {"role": "assistant", "content": [text(" "), USE]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [text("\n")]}]},
        ],
        [
            HELLO,
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": []}]},
        ],
    ),
    "a string": ("messages", [HELLO, {"role": "assistant", "content": " "}, HELLO], [HELLO, HELLO]),
}


@pytest.mark.parametrize(("language", "given", "turns"), BLANK.values(), ids=BLANK)
def test_anthropic_is_sent_no_text_of_white_space_alone(language, given, turns):
    body, ignored = sent("anthropic", language, messages=given)
    assert (body["messages"], ignored) == (turns, "")


def test_instructions_of_white_space_are_left_out_too():
    body, _ = sent("anthropic", messages=[{"role": "system", "content": [text("Be brief."), text(" ")]}, HELLO])
    assert body["system"] == [text("Be brief.")]
    body, _ = sent("anthropic", "messages", messages=[HELLO], system=[text("Be brief."), text(" ")])
    assert body["system"] == [text("Be brief.")]


# Sequences in each language -> those that the provider is sent, and the field that the header names.
STOPS = [
    ("anthropic", "chat", {"stop": ["\n", "END"]}, ["END"], "stop"),
    ("anthropic", "chat", {"stop": ["END"]}, ["END"], ""),
    ("anthropic", "messages", {"stop_sequences": [" ", "END", ""]}, ["END"], "stop_sequences"),
    ("gemini", "chat", {"stop": [" ", "END"]}, [" ", "END"], ""),
    ("own", "chat", {"stop": ["\n", "END"]}, ["\n", "END"], ""),
]


@pytest.mark.parametrize(("provider", "language", "fields", "sequences", "named"), STOPS)
def test_stop_sequence_that_a_provider_refuses_is_named(provider, language, fields, sequences, named):
    body, ignored = sent(provider, language, messages=[HELLO], **fields)
    found = body.get("stop_sequences") or body.get("generationConfig", {}).get("stopSequences") or body.get("stop")
    assert (found, ignored) == (sequences, named)


# --- Tools ------------------------------------------------------------------------------------------------------------

OBJECT = {"type": "object", "properties": {}}
CITY = {"city": {"type": "string"}}
# Parameters of a function -> the schema that Anthropic, OpenAI and Responses are sent.
PARAMETERS = [
    ({}, OBJECT),
    ({"properties": CITY}, {"type": "object", "properties": CITY}),
    ({"type": None, "properties": CITY, "required": ["city"]}, {"type": "object", "properties": CITY, "required": ["city"]}),
    ({"type": ["object", "null"], "properties": None}, OBJECT),
    ({"type": "object", "properties": CITY}, {"type": "object", "properties": CITY}),
]


@pytest.mark.parametrize("provider", ["anthropic", "openai", "mistral", "own", "responses"])
@pytest.mark.parametrize("language", ["chat", "messages", "responses"])
@pytest.mark.parametrize(("given", "theirs"), PARAMETERS)
def test_parameters_are_those_of_an_object(provider, language, given, theirs):
    body, _ = sent(provider, language, **declared(language, given))
    assert schema_of(body) == theirs


def declared(language: str, parameters: Any, **fields: Any) -> Fields:
    function = {"name": "f", "description": None, "parameters": parameters, **fields}
    if language == "chat":
        return {"messages": [HELLO], "tools": [{"type": "function", "function": function}]}
    if language == "responses":
        return {"input": "Hello", "tools": [{"type": "function", **function}]}
    tool = {"name": "f", "description": None, "input_schema": parameters, **fields}
    return {"messages": [HELLO], "tools": [tool]}


def schema_of(body: Fields) -> Any:
    [tool] = body["tools"]
    return tool.get("input_schema") or tool.get("parameters") or tool["function"]["parameters"]


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "mistral", "own", "responses"])
@pytest.mark.parametrize("language", ["chat", "messages", "responses"])
def test_null_in_a_tool_is_absent(provider, language):
    body, ignored = sent(provider, language, **declared(language, OBJECT, strict=None))
    assert "null" not in str(body["tools"]).replace("None", "null")
    assert ignored == ""


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "own", "responses"])
def test_parameters_that_are_null_are_absent(provider):
    body, _ = sent(provider, **declared("chat", None))
    assert "None" not in str(body["tools"])


# --- Marks for a cache ------------------------------------------------------------------------------------------------


def test_mark_of_a_message_is_that_of_its_last_block():
    given = [
        {"role": "system", "content": "Be brief.", **MARK},
        {"role": "user", "content": [text("a"), text("b")], **MARK},
        {"role": "assistant", "content": "Hm.", "tool_calls": [CALL], **MARK},
        {"role": "tool", "tool_call_id": "t", "content": "one", **HOUR},
    ]
    body, ignored = sent("anthropic", messages=given)
    assert body["system"] == [text("Be brief.", **MARK)]
    assert [turn["content"] for turn in body["messages"]] == [
        [text("a"), text("b", **MARK)],
        [text("Hm."), {**USE, **MARK}],
        [{"type": "tool_result", "tool_use_id": "t", "content": [text("one")], **HOUR}],
    ]
    assert ignored == ""


@pytest.mark.parametrize("provider", ["gemini", "openai", "mistral", "responses"])
def test_mark_of_a_message_is_named_where_there_are_none(provider):
    body, ignored = sent(provider, messages=[{**HELLO, **MARK}])
    assert ("cache_control" in str(body), ignored) == (False, "messages.cache_control")


@pytest.mark.parametrize("place", ["tool", "function"])
def test_mark_inside_of_a_function_is_that_of_its_tool(place):
    function = {"name": "f", "parameters": OBJECT, **(MARK if place == "function" else {})}
    tools = [{"type": "function", "function": function, **(MARK if place == "tool" else {})}]
    body, ignored = sent("anthropic", messages=[HELLO], tools=tools)
    assert (body["tools"], ignored) == ([{"name": "f", "input_schema": OBJECT, **MARK}], "")
    for provider in ("gemini", "openai", "mistral", "responses"):
        body, ignored = sent(provider, messages=[HELLO], tools=tools)
        assert ("cache_control" in str(body), ignored) == (False, "tools.cache_control")


def test_hour_inside_of_a_function_is_held_for():
    tools = [{"type": "function", "function": {"name": "f", **HOUR}}]
    assert schema.parse({"model": "m", "messages": [HELLO], "tools": tools}).wants_hour_cache
    assert not schema.parse(
        {"model": "m", "messages": [HELLO], "tools": [{"type": "function", "function": {"name": "f", **MARK}}]}
    ).wants_hour_cache


# --- Recursive schemas at Gemini --------------------------------------------------------------------------------------

NODE = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Node"}}}
TREE = {"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}}
STRICT = {**TREE, "$defs": {"Node": {**NODE, "required": ["child"]}}}


@pytest.mark.parametrize(
    ("provider", "language", "given", "member", "named"),
    [
        ("gemini", "chat", TREE, "parametersJsonSchema", ""),
        ("gemini 2.5", "chat", TREE, "parametersJsonSchema", ""),
        ("gemini 1.5", "chat", TREE, "parameters", "tools.function.parameters.$ref"),
        ("gemini 1.5", "messages", TREE, "parameters", "tools.input_schema.$ref"),
        ("gemini 1.5", "responses", TREE, "parameters", "tools.parameters.$ref"),
        ("gemini", "chat", STRICT, "parametersJsonSchema", "tools.function.parameters.required"),
        ("gemini", "messages", STRICT, "parametersJsonSchema", "tools.input_schema.required"),
    ],
)
def test_recursive_parameters_are_sent_as_the_model_takes_them(provider, language, given, member, named):
    body, ignored = sent(provider, language, **declared(language, given))
    [declaration] = body["tools"][0]["functionDeclarations"]
    assert (declaration.keys() - {"name"}, ignored) == ({member}, named)
    if given is TREE and member != "parameters":
        assert declaration[member] == TREE


@pytest.mark.parametrize(
    ("provider", "member", "named"),
    [
        ("gemini", "responseJsonSchema", ""),
        ("gemini 1.5", "responseSchema", "response_format.json_schema.schema.$ref"),
    ],
)
def test_recursive_format_of_the_reply_is_sent_as_the_model_takes_it(provider, member, named):
    wanted = {"type": "json_schema", "json_schema": {"name": "tree", "schema": TREE}}
    body, ignored = sent(provider, messages=[HELLO], response_format=wanted)
    assert (set(body["generationConfig"]), ignored) == ({"maxOutputTokens", "responseMimeType", member}, named)
