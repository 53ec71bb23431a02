"""The request body of POST /v1/chat/completions, beyond the bounds that ``tests/test_promises.py`` checks."""

import pytest

from completions.chat import ChatRequest
from completions.request import schema
from gateway_project import errors
from tests import chat

HELLO = {"role": "user", "content": "hello"}


def parse(**fields: object) -> ChatRequest:
    fields = {"model": "m", "messages": [HELLO], **fields}
    return schema.parse(fields)


REFUSED = [
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
    ({"n": 17}, "n", "must be between 1 and 16"),
    ({"n": 0}, "n", "must be between 1 and 16"),
    ({"n": True}, "n", "must be an integer"),
    ({"n": "1"}, "n", "must be an integer"),
    ({"stream": True, "stream_options": []}, "stream_options", "must be an object"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage", "must be true or false"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "is only allowed when stream is true"),
    ({"stream": False, "stream_options": {}}, "stream_options", "is only allowed when stream is true"),
]


@pytest.mark.parametrize(("fields", "param", "why"), REFUSED)
def test_invalid_field_is_refused_by_name(fields, param, why):
    with pytest.raises(errors.InvalidRequest) as refusal:
        parse(**fields)
    assert refusal.value.param == param
    assert refusal.value.message.startswith(f"{param} {why}")


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
