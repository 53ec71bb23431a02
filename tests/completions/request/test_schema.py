"""The request body of POST /v1/chat/completions: the bounds of each field, without HTTP. ``test_refusals`` sends some of them.

The bounds of ``max_tokens``, ``temperature``, ``top_p`` and ``stream`` are in ``tests/test_promises.py``, those of messages in
``test_messages``.
"""

import json
from typing import Any

import pytest

from completions.chat import ChatRequest
from completions.inbound.chat_completions.serializers import ChatCompletionRequest
from completions.request import schema
from gateway_project import errors
from tests import chat

HELLO = {"role": "user", "content": "hello"}
FIND = {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}}}


def parse(**fields: object) -> ChatRequest:
    fields = {"model": "m", "messages": [HELLO], **fields}
    return schema.parse(fields)


def tool(**function):
    return {"tools": [{"type": "function", "function": function}]}


def chosen(choice):
    return {"tools": [FIND], "tool_choice": choice}


WRONG_TIERS: list[Any] = ["turbo", "ultrafast", "PRIORITY", "", 5, 0, True, ["flex"], {"tier": "flex"}]
NAME = "must have 1 to 128 letters, digits, underscores, hyphens, dots or colons"
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"model": ""}, "model", "must have 1 to 200 characters"),
    ({"model": "m" * 201}, "model", "must have 1 to 200 characters"),
    ({"model": 1}, "model", "must be a string"),
    ({"model": ["m"]}, "model", "must be a string"),
    ({"messages": {}}, "messages", "must be an array"),
    ({"messages": "hello"}, "messages", "must be an array"),
    ({"messages": []}, "messages", "must have 1 to 2048 items"),
    ({"messages": [HELLO] * 2049}, "messages", "must have 1 to 2048 items"),
    ({"messages": ["hello"]}, "messages[0]", "must be an object"),
    ({"messages": [HELLO, None]}, "messages[1]", "must be an object"),
    ({"messages": [HELLO, {"content": "hello"}]}, "messages[1].role", "is required"),
    ({"messages": [{"role": None, "content": "hello"}]}, "messages[0].role", "is required"),
    ({"messages": [{"role": ["user"], "content": "hello"}]}, "messages[0].role", "must be one of developer, system, user,"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "is required"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content", "is required"),
    ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content", "must be a string"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text", "is required"),
    ({"max_completion_tokens": 0}, "max_completion_tokens", "must be between 1 and 2147483647"),
    ({"max_completion_tokens": "5"}, "max_completion_tokens", "must be an integer"),
    ({"max_tokens": 5, "max_completion_tokens": 5}, "max_completion_tokens", "must not be given together with max_tokens"),
    ({"max_tokens": 2**31}, "max_tokens", "must be between 1 and 2147483647"),
    ({"stream": True, "stream_options": []}, "stream_options", "must be an object"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage", "must be true or false"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "is only allowed when stream is true"),
    ({"stream": False, "stream_options": {}}, "stream_options", "is only allowed when stream is true"),
    *(({"n": value}, "n", "must be between 1 and 16") for value in (0, -1, 17)),
    *(({"n": value}, "n", "must be an integer") for value in (1.0, 2.0, True, "1", [], {})),
    ({"audio": {"voice": "alloy", "format": "wav"}}, "audio", "is not supported: replies are text"),
    ({"frequency_penalty": 2.1}, "frequency_penalty", "must be between -2.0 and 2.0"),
    ({"frequency_penalty": "1"}, "frequency_penalty", "must be a number"),
    ({"presence_penalty": -2.1}, "presence_penalty", "must be between -2.0 and 2.0"),
    ({"presence_penalty": True}, "presence_penalty", "must be a number"),
    ({"functions": []}, "functions", "must be an array of 1 to 1000 functions"),
    ({"functions": [{"name": ""}]}, "functions[0].name", NAME),
    ({"functions": [{"name": "f", "parameters": []}]}, "functions[0].parameters", "must be an object"),
    ({"logit_bias": []}, "logit_bias", "must be an object"),
    ({"logit_bias": {"7": 101}}, "logit_bias.7", "must be a number between -100 and 100"),
    ({"logit_bias": {"7" * 99: "1"}}, "logit_bias." + "7" * 64, "must be a number between -100 and 100"),
    ({"logprobs": 1}, "logprobs", "must be true or false"),
    ({"top_logprobs": 5}, "top_logprobs", "is only allowed when logprobs is true"),
    ({"logprobs": False, "top_logprobs": 0}, "top_logprobs", "is only allowed when logprobs is true"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "must be between 0 and 20"),
    ({"logprobs": True, "top_logprobs": -1}, "top_logprobs", "must be between 0 and 20"),
    ({"logprobs": True, "top_logprobs": True}, "top_logprobs", "must be an integer"),
    ({"metadata": []}, "metadata", "must be an object"),
    ({"metadata": {str(place): "x" for place in range(17)}}, "metadata", "must have at most 16 entries"),
    ({"metadata": {"k": 1}}, "metadata.k", "must be a string of at most 512 characters"),
    ({"metadata": {"k": "x" * 513}}, "metadata.k", "must be a string of at most 512 characters"),
    ({"metadata": {"": "x"}}, "metadata.", "must be a string of at most 512 characters, under a name of 1 to 64"),
    ({"user": "x" * 513}, "user", "must have at most 512 characters"),
    ({"safety_identifier": "x" * 513}, "safety_identifier", "must have at most 512 characters"),
    ({"metadata": {"k" * 65: "x"}}, "metadata." + "k" * 64, "must be a string of at most 512 characters"),
    ({"modalities": ["text", "audio"]}, "modalities", 'must be ["text"]: replies are text'),
    ({"modalities": "text"}, "modalities", 'must be ["text"]: replies are text'),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls", "must be true or false"),
    ({"prompt_cache_key": 1}, "prompt_cache_key", "must be a string"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "must be one of none, minimal, low, medium, high, xhigh, max"),
    ({"reasoning_effort": ["low"]}, "reasoning_effort", "must be one of none"),
    ({"response_format": "json"}, "response_format", "must be an object"),
    ({"response_format": {}}, "response_format.type", "is required"),
    ({"response_format": {"type": "xml"}}, "response_format.type", "must be one of text, json_object, json_schema"),
    ({"response_format": {"type": ["text"]}}, "response_format.type", "must be one of text, json_object, json_schema"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "is required"),
    ({"response_format": {"type": "json_schema", "json_schema": []}}, "response_format.json_schema", "must be an object"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.name", "is required"),
    ({"response_format": {**SCHEMA, "json_schema": {"name": "a b"}}}, "response_format.json_schema.name", NAME),
    ({"response_format": {**SCHEMA, "json_schema": {"name": "a", "schema": 1}}}, "response_format.json_schema.schema", "must"),
    ({"safety_identifier": {}}, "safety_identifier", "must be a string"),
    ({"seed": 1.5}, "seed", "must be an integer"),
    ({"seed": 2**63}, "seed", "must be between -9223372036854775808 and 9223372036854775807"),
    ({"stop": 1}, "stop", "must be a string or an array of at most 16 strings"),
    ({"stop": ["x"] * 17}, "stop", "must be a string or an array of at most 16 strings"),
    ({"stop": ["x", None]}, "stop[1]", "must be a string"),
    ({"store": "yes"}, "store", "must be true or false"),
    ({"stream": True, "stream_options": {"include_obfuscation": 1}}, "stream_options.include_obfuscation", "must be true"),
    ({"temperature": 10**400}, "temperature", "must be between 0.0 and 2.0"),
    ({"tools": {}}, "tools", "must be an array of 1 to 1000 tools"),
    ({"tools": []}, "tools", "must be an array of 1 to 1000 tools"),
    ({"tools": [FIND] * 1_001}, "tools", "must be an array of 1 to 1000 tools"),
    ({"tools": ["find"]}, "tools[0]", "must be an object"),
    ({"tools": [FIND, {"function": {"name": "f"}}]}, "tools[1].type", "is required"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "must be function"),
    ({"tools": [{"type": ["function"]}]}, "tools[0].type", "must be function"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "is required"),
    ({"tools": [{"type": "function", "function": "find"}]}, "tools[0].function", "must be an object"),
    (tool(), "tools[0].function.name", "is required"),
    (tool(name=1), "tools[0].function.name", NAME),
    (tool(name="n" * 129), "tools[0].function.name", NAME),
    (tool(name="f", parameters="{}"), "tools[0].function.parameters", "must be an object"),
    ({"tool_choice": "auto"}, "tool_choice", "is only allowed with tools"),
    (chosen("any"), "tool_choice", "must be one of none, auto, required, or name a function"),
    (chosen(["auto"]), "tool_choice", "must be one of none, auto, required, or name a function"),
    (chosen({"type": "function"}), "tool_choice.function", "is required"),
    (chosen({"type": "function", "function": "find"}), "tool_choice.function", "must be an object"),
    (chosen({"type": "function", "function": {}}), "tool_choice.function.name", "is required"),
    (chosen({"type": "function", "function": {"name": "lose"}}), "tool_choice.function.name", "must be the name of one"),
    (chosen({"type": "function", "function": {"name": ["find"]}}), "tool_choice.function.name", "must be the name of one"),
    ({"user": 1}, "user", "must be a string"),
    *(({"service_tier": value}, "service_tier", "must be one of auto, default, scale, ") for value in WRONG_TIERS),
    *(
        ({name: value}, name, "must be an object")
        for name in ("cache_control", "moderation", "prediction", "prompt_cache_options", "web_search_options")
        for value in ("on", "", True, 1, [], [{}])
    ),
    ({"cache_control": {"type": "forever"}}, "cache_control.type", "must be one of ephemeral"),
    ({"cache_control": {"type": "ephemeral", "ttl": 3600}}, "cache_control.ttl", "must be a string"),
    ({"moderation": {"model": 1}}, "moderation.model", "must be a string"),
    ({"moderation": {"model": "m" * 201}}, "moderation.model", "must have at most 200 characters"),
    ({"moderation": {"mode": "block"}}, "moderation.mode", "is not supported"),
    ({"moderation": {"policy": "block"}}, "moderation.policy", "must be an object"),
    ({"moderation": {"policy": {"input": "block"}}}, "moderation.policy.input", "must be an object"),
    ({"moderation": {"policy": {"output": {"mode": "stop"}}}}, "moderation.policy.output.mode", "must be one of score, block"),
    ({"prediction": {}}, "prediction.type", "is required"),
    ({"prediction": {"type": "text", "content": "x"}}, "prediction.type", "must be one of content"),
    ({"prediction": {"type": "content"}}, "prediction.content", "is required"),
    ({"prediction": {"type": "content", "content": 1}}, "prediction.content", "must be a string or an array of parts"),
    ({"prompt_cache_options": {"mode": "on"}}, "prompt_cache_options.mode", "must be one of implicit, explicit"),
    ({"prompt_cache_options": {"ttl": 30}}, "prompt_cache_options.ttl", "must be one of 30m"),
    ({"web_search_options": {"search_context_size": 3}}, "web_search_options.search_context_size", "must be one of low,"),
    ({"web_search_options": {"user_location": "Berlin"}}, "web_search_options.user_location", "must be an object"),
    ({"verbosity": "loud"}, "verbosity", "must be one of low, medium, high"),
]


@pytest.mark.parametrize(("fields", "param", "why"), REFUSED, ids=[json.dumps(row[0])[:60] for row in REFUSED])
def test_invalid_field_is_refused_by_name(fields, param, why):
    with pytest.raises(errors.InvalidRequest) as refusal:
        parse(**fields)
    assert refusal.value.param == param
    assert refusal.value.message.startswith(f"{param} {why}")


# The bounds that the OpenAPI document tells callers.
BOUNDS: dict[str, Any] = {
    name: field for name, field in ChatCompletionRequest().fields.items() if getattr(field, "max_value", None) is not None
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_number_is_accepted_at_the_bounds_that_are_told_and_refused_beyond_them(name):
    least, most, logprobs = BOUNDS[name].min_value, BOUNDS[name].max_value, {"logprobs": True}
    for value in (least, most):
        assert parse(**logprobs, **{name: value}).fields[name] == value
    for value in (least - 1, most + 1, "1", True, [], {}):
        with pytest.raises(errors.InvalidRequest) as refusal:
            parse(**logprobs, **{name: value})
        assert refusal.value.param == name


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "m" * 200},
        {"messages": [HELLO] * 2048},
        {"messages": [{"role": "user", "content": ""}]},
        {"messages": [{**HELLO, "name": "Ann", "more": [1]}]},
        {"max_tokens": 2**31 - 1},
        {"max_completion_tokens": 1},
        {"n": 1},
        {"n": 16},
        {"stream": True, "stream_options": {}},
        {"stream": True, "stream_options": {"include_usage": None, "include_obfuscation": False}},
    ],
)
def test_field_at_its_bound_is_accepted(fields):
    parse(**fields)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n", "stream_options"])
def test_null_counts_as_absent(name):
    without = parse()
    assert (parsed := parse(**{name: None})) == without or parsed.fields.pop(name) is None
    assert parsed.max_tokens is None


def test_both_names_of_the_token_limit_mean_the_same():
    assert parse(max_tokens=5).max_tokens == parse(max_completion_tokens=5).max_tokens == 5
    assert parse(max_tokens=None, max_completion_tokens=5).max_tokens == 5
    assert parse(max_tokens=5, max_completion_tokens=None).max_tokens == 5


def test_name_of_the_token_limit_is_kept():
    assert parse().max_tokens_field == parse(max_tokens=5, max_completion_tokens=None).max_tokens_field == "max_tokens"
    assert parse(max_tokens=None, max_completion_tokens=5).max_tokens_field == "max_completion_tokens"


def test_unknown_fields_are_kept():
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert parse(tools=tools, seed=7, stop=None).fields == {
        "model": "m",
        "messages": [HELLO],
        "tools": tools,
        "seed": 7,
        "stop": None,
    }


def test_include_usage_is_read_from_stream_options():
    assert parse(stream=True, stream_options={"include_usage": True}).include_usage
    assert not parse(stream=True, stream_options={"include_usage": False}).include_usage
    assert not parse(stream=True, stream_options={"other": True}).include_usage
    assert not parse(stream=True).include_usage


def test_number_of_messages_is_limited_by_a_setting(settings):
    settings.REQUEST_MESSAGES_MAX = 1
    with pytest.raises(errors.InvalidRequest, match="must have 1 to 1 items"):
        parse(messages=[HELLO, HELLO])


@pytest.mark.parametrize("fields", [{"max_completion_tokens": 4097}, {"max_tokens": None, "max_completion_tokens": 4097}])
def test_limit_above_the_models_is_refused_by_the_name_given(api, echo_model, fields):
    error = chat.assert_error(chat.ask(api, **fields), 400, "invalid_request_error", "max_completion_tokens")
    assert "generates at most 4096 tokens" in error["message"]


def test_either_name_of_the_token_limit_is_obeyed(api, echo_model):
    for name in ("max_tokens", "max_completion_tokens"):
        reply = chat.ask(api, **{name: 2})
        assert reply.json()["choices"][0]["message"]["content"] == "one two "
        assert reply.json()["choices"][0]["finish_reason"] == "length"
