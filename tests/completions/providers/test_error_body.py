"""What is read of the bodies of upstreams' errors, in every shape that upstreams use."""

import json
import re
from pathlib import Path

import pytest

from completions.providers import error_body
from completions.providers.error_body import ProviderError

ERRORS_PAGE = Path(__file__).parents[3] / "docs/api/errors.md"
EXTRA = {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted", "input": {}}
BODIES = {
    "openai": (
        {"error": {"message": "too long", "code": "c", "param": "messages", "type": "t"}},
        ("too long", "c", "messages"),
    ),
    "openai without a code": ({"error": {"message": "too long", "code": None, "param": None}}, ("too long", "", "")),
    "gemini's list": ([{"error": {"message": "too long", "code": 400}}], ("too long", "400", "")),
    "text as the error": ({"error": "too long", "code": "theirs"}, ("too long", "theirs", "")),
    "vllm": ({"object": "error", "message": "too long", "param": None, "code": 400}, ("too long", "400", "")),
    "mistral": ({"object": "error", "message": "too long", "type": "t", "code": "3051"}, ("too long", "3051", "")),
    "mistral 422": (
        {"object": "error", "message": {"detail": [EXTRA]}, "code": None},
        ("stream_options: Extra inputs are not permitted", "", "stream_options"),
    ),
    "fastapi": (
        {"detail": [EXTRA, {"loc": ["body", "messages", 0, "role"], "msg": "wrong"}]},
        ("stream_options: Extra inputs are not permitted; messages.0.role: wrong", "", "stream_options"),
    ),
    "fastapi's text": ({"detail": "Not Found"}, ("Not Found", "", "")),
    "message alone": ({"message": "too long"}, ("too long", "", "")),
    "list of errors": ({"errors": [{"message": "one"}, {"message": "two"}]}, ("one; two", "", "")),
    "error within an error": ({"error": {"error": {"message": "too long"}}}, ("too long", "", "")),
    "text": ("too long", ("too long", "", "")),
    "nothing in it": ({"error": {}}, ("", "", "")),
    "empty list": ([], ("", "", "")),
    "number": (7, ("", "", "")),
    "strange types": ({"error": {"message": 7, "code": True, "param": [1]}}, ("", "", "")),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_error_is_found_in_every_shape(body, expected):
    assert error_body.parse(json.dumps(body).encode()) == ProviderError(*expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"upstream connect error\n", "upstream connect error"),
        (b"<html><head><TITLE>413 Too Large</TITLE></head></html>", "413 Too Large"),
        (b"<html>secret</html>", ""),
        (b"\x1f\x8b\x08\x00", ""),
        (b'{"choices":[{"message":{"content":"private', ""),
        (b"", ""),
        (b"\xff", "\ufffd"),
        (b"[" * 100_000, ""),
    ],
    ids=["text", "title", "html", "gzip", "cut json", "empty", "not utf-8", "deep"],
)
def test_message_of_a_body_that_is_not_json(body, message):
    assert error_body.parse(body).message == message


def test_nesting_and_number_of_messages_are_bounded():
    deep: object = "too long"
    for _ in range(50):
        deep = {"error": deep}
    assert error_body.from_json(deep).message == ""
    assert error_body.from_json({"detail": [{"msg": "x"}] * 1_000}).message == "x; x; x; x; x"


@pytest.mark.parametrize(
    ("code", "status"), [("400", 400), ("529", 529), ("200", None), ("3051", None), ("", None), ("x", None)]
)
def test_code_that_is_a_status(code, status):
    assert ProviderError("", code).status == status


def test_documented_codes_are_exactly_those_that_are_passed_on():
    [paragraph] = [text for text in ERRORS_PAGE.read_text().split("\n\n") if "`context_length_exceeded`" in text]
    documented = set(re.findall(r"`(\w+)`", paragraph)) - {"code", "type", "param", "invalid_request_error"}
    assert documented == error_body.CALLER_CODES


OVERFLOWS = [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
    "Prompt exceeds max length",
    "The input (1492905 tokens) is longer than the model's context length (1048576 tokens).",
]


@pytest.mark.parametrize("message", OVERFLOWS)
def test_overflow_is_told_by_words_where_there_is_no_code(message):
    assert ProviderError(message).caller_code == "context_length_exceeded"


@pytest.mark.parametrize("code", ["insufficient_quota", "invalid_api_key", "upstream_code", "400", "", "model_not_found"])
def test_code_of_an_upstream_is_not_passed_on(code):
    assert ProviderError("no", code).caller_code is None


@pytest.mark.parametrize(
    ("parsed", "is_error"),
    [
        ({"error": {"message": "no"}}, True),
        ({"error": None, "choices": []}, False),
        ({"object": "error", "message": "no"}, True),
        ({"detail": "no"}, True),
        ({"message": "no", "code": 500}, True),
        ({"message": "no", "type": "t"}, True),
        ({"message": "Hello you"}, False),
        ({"message": {"role": "assistant", "content": "Hello you"}, "type": "t"}, False),
        ({"choices": [], "message": "welcome"}, False),
        ({"usage": {}}, False),
        ([{"error": {"code": 400}}], True),
        ({}, False),
        ([], False),
        ("no", False),
    ],
)
def test_error_is_told_from_a_reply(parsed, is_error):
    assert error_body.is_error(parsed) == is_error
