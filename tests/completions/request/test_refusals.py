"""One request over HTTP for each kind of invalid field: the reply names it, nothing is written, and no provider is asked.

The bounds of each field are in ``test_schema``, ``test_messages`` and ``tests/test_promises.py``, without HTTP.
"""

from typing import Any

from tests.chat import assert_error, everything_written
from tests.completions.rows import ask

HELLO = {"role": "user", "content": "Hello"}
FIND = {"type": "function", "function": {"name": "find"}}

# A kind of refusal: fields, the one that is named, and what is said of it.
KINDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": ({"messages": None}, "messages", "is required."),
    "no integer": ({"n": "1"}, "n", "must be an integer."),
    "no number": ({"temperature": True}, "temperature", "must be a number."),
    "no boolean": ({"stream": 1}, "stream", "must be true or false."),
    "no string": ({"user": 1}, "user", "must be a string."),
    "no array": ({"messages": {}}, "messages", "must be an array."),
    "no object": ({"response_format": "json"}, "response_format", "must be an object."),
    "below its range": ({"top_p": -0.1}, "top_p", "must be between 0.0 and 1.0."),
    "above its range": ({"temperature": 2.1}, "temperature", "must be between 0.0 and 2.0."),
    "too large for a number of 64 bits": ({"temperature": 10**400}, "temperature", "must be between 0.0 and 2.0."),
    "more than the model has": (
        {"max_tokens": 4097},
        "max_tokens",
        "is 4097, but acme/large generates at most 4096 tokens.",
    ),
    "unknown value": ({"verbosity": "loud"}, "verbosity", "must be one of low, medium, high."),
    "too few items": ({"tools": []}, "tools", "must be an array of 1 to 1000 tools."),
    "too many items": ({"stop": ["x"] * 17}, "stop", "must be a string or an array of at most 16 strings."),
    "too long": ({"safety_identifier": "x" * 513}, "safety_identifier", "must have at most 512 characters."),
    "one item": ({"stop": ["x", None]}, "stop[1]", "must be a string."),
    "one member": ({"logit_bias": {"7": 101}}, "logit_bias.7", "must be a number between -100 and 100."),
    "without another": ({"tool_choice": "auto"}, "tool_choice", "is only allowed with tools."),
    "beside another": (
        {"max_tokens": 5, "max_completion_tokens": 5},
        "max_completion_tokens",
        "must not be given together with max_tokens.",
    ),
    "name of nothing": (
        {"tools": [FIND], "tool_choice": {"type": "function", "function": {"name": "lose"}}},
        "tool_choice.function.name",
        "must be the name of one of the tools.",
    ),
    "not supported": ({"audio": {"voice": "alloy"}}, "audio", "is not supported: replies are text."),
    "of a message": ({"messages": [HELLO, {"role": "user"}]}, "messages[1].content", "is required."),
    "of a part": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
        "messages[0].content[0].text",
        "must be a string.",
    ),
}


def test_each_kind_of_invalid_field_is_refused_by_name_and_nothing_happens(api, large, upstream, subtests):
    before = everything_written()
    for kind, (fields, param, why) in KINDS.items():
        with subtests.test(kind):
            error = assert_error(ask(api, **fields), 400, "invalid_request_error", param)
            assert (error["type"], error["message"]) == ("invalid_request_error", f"{param} {why}")
            assert upstream.requests == []
            assert everything_written() == before
