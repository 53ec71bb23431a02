"""JSON of upstreams is read as Python's parser reads it, by one that takes less time."""

import json
import math
from typing import Any

import pytest

from completions.providers import wire

TEXTS = [
    b'{"a": [1, 2.5, -0.0, 1e3, true, null, "\\u00e9 \xc3\xa9 \\ud83d\\ude00"]}',
    b'{"a": 1, "a": 2}',
    b" [] ",
    b"123456789012345678901234567890",
    b"5e-324",
    b"1e-400",
    b'"half of a pair: \\ud83d"',
    b'"\x7f"',
]
REFUSED = [b"", b"{", b"[1,]", b"NaN", b"-Infinity", b"1e400", b"01", b'"\x01"', b'"\xff"', b"1" * 5_000]


@pytest.mark.parametrize("text", TEXTS)
def test_json_is_read_as_by_python(text):
    def types(value: Any) -> Any:
        return [types(each) for each in value] if isinstance(value, list) else (type(value), repr(value))

    read = wire.parse_json(text)
    assert read == json.loads(text)
    assert types(read) == types(json.loads(text))


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_json_or_no_finite_number_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        wire.parse_json(text)


def test_deep_nesting_is_an_error_that_the_callers_know():
    with pytest.raises(RecursionError):
        wire.parse_json(b"[" * 100_000 + b"]" * 100_000)


def test_what_may_be_nested_deeply_is_left_to_pythons_parser(monkeypatch):
    monkeypatch.setattr(wire, "_decode_fast", None)  # it reads more levels than can be written afterwards
    assert wire.parse_json(b"[" * 501 + b"]" * 501)
    assert wire.parse_json(b'{"a":' * 501 + b"1" + b"}" * 501)


def test_every_float_is_read_exactly():
    for exponent in range(-320, 308):
        value = math.pi * 10.0**exponent
        assert wire.parse_json(repr(value).encode()) == value
