"""The body of a request is released while its request waits, and restored for a further attempt."""

import json
import tracemalloc

import pytest

from completions.chat import RequestBody
from completions.request import schema

FIELDS = {
    "model": "m",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 2_000}],
    "reasoning": {"effort": "none"},
    "stop": ["a", "b"],
    "logprobs": None,
    "logit_bias": {str(number): 1 for number in range(16)},
    "prompt_cache_key": "u" * 2_000,
}


@pytest.fixture
def raw():
    return json.dumps(FIELDS).encode()


def test_a_released_body_has_every_name_and_the_short_values(raw):
    request = schema.parse(RequestBody(json.loads(raw), raw))
    request.body.release()
    assert list(request.fields) == list(FIELDS)
    short = ("model", "reasoning", "stop", "logprobs")
    assert {name: request.fields[name] for name in short} == {name: FIELDS[name] for name in short}
    assert all(request.fields[name] not in (None, FIELDS[name]) for name in ("messages", "logit_bias", "prompt_cache_key"))


def test_a_restored_body_is_the_same_as_before(raw):
    request = schema.parse(RequestBody(json.loads(raw), raw))
    for _ in range(2):
        request.body.release()
        request.body.restore()
        assert request.fields == FIELDS
        assert request.messages == FIELDS["messages"]


def test_a_released_body_takes_hardly_more_memory_than_its_bytes(raw):
    tracemalloc.start()
    try:
        body = RequestBody(json.loads(raw), raw)
        parsed_bytes, _ = tracemalloc.get_traced_memory()
        body.release()
        released_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parsed_bytes > 5 * len(raw)
    assert released_bytes < len(raw) / 2
    assert body.size_bytes == len(raw)


def test_a_small_body_stays_parsed():
    body = RequestBody(dict(FIELDS))
    body.release()
    body.forget()
    assert body.fields == FIELDS
