"""The JSON parser: unambiguous objects are read, everything else is refused, and no bytes cause an internal error."""

import copy
import io
import json
from typing import Any

import pytest
from django.test import RequestFactory
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from completions.inbound.chat_completions.serializers import ChatCompletionRequest
from gateway_project import errors, large_work
from gateway_project.web import strict_json
from tests import chat
from tests.gateway_project.web.counted_lock import CountedLock

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda values: st.lists(values, max_size=5) | st.dictionaries(TEXT, values, max_size=5),
)
OBJECTS = st.dictionaries(TEXT, VALUES)


def nested(levels: int, opening: str = "[", closing: str = "]") -> bytes:
    """Return an object with ``levels`` levels, of which the last is empty."""
    return ('{"a":' + opening * (levels - 1) + closing * (levels - 1) + "}").encode()


# --- What is read -------------------------------------------------------------------------------------------------


@given(value=OBJECTS, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 0, 2]))
def test_a_written_object_is_read_unchanged(value, ensure_ascii, indent):
    assert strict_json.loads(json.dumps(value, ensure_ascii=ensure_ascii, indent=indent).encode()) == value


def test_a_number_keeps_its_kind():
    read = strict_json.loads(b'{"a": 1, "b": 1.0, "c": 1e2, "d": -0, "e": true}')
    assert [type(value) for value in read.values()] == [int, float, float, int, bool]


def test_a_surrogate_pair_is_one_character():
    assert strict_json.loads(rb'{"a": "\ud83d\ude00"}') == {"a": "\N{GRINNING FACE}"}


def test_64_levels_are_read():
    assert strict_json.loads(nested(64))
    assert strict_json.loads(nested(64, '{"a":', "}").replace(b":}", b":0}"))


def test_an_integer_of_4300_digits_is_read():
    assert strict_json.loads(b'{"a": ' + b"9" * 4300 + b"}")["a"] == 10**4300 - 1


# --- What is refused ----------------------------------------------------------------------------------------------

REFUSED = {
    "nothing": (b"", "not valid JSON"),
    "white space": (b" \n", "not valid JSON"),
    "no JSON": (b"hello", "not valid JSON"),
    "half an object": (b'{"a": 1', "not valid JSON"),
    "something after it": (b'{"a": 1} {}', "not valid JSON"),
    "a comma too many": (b'{"a": 1,}', "not valid JSON"),
    "single quotes": (b"{'a': 1}", "not valid JSON"),
    "a comment": (b'{"a": 1 /* one */}', "not valid JSON"),
    "a leading zero": (b'{"a": 01}', "not valid JSON"),
    "a hexadecimal number": (b'{"a": 0x10}', "not valid JSON"),
    "a line break in a string": (b'{"a": "\n"}', "not valid JSON"),
    "an array": (b"[{}]", "must be a JSON object"),
    "a string": (b'"a"', "must be a JSON object"),
    "a number": (b"1", "must be a JSON object"),
    "null": (b"null", "must be a JSON object"),
    "NaN": (b'{"a": NaN}', "NaN is not a JSON number"),
    "Infinity": (b'{"a": [Infinity]}', "Infinity is not a JSON number"),
    "-Infinity": (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
    "1e999": (b'{"a": 1e999}', "1e999 is too large"),
    "-1e999": (b'{"a": -1e999}', "-1e999 is too large"),
    "a NUL character": (rb'{"a": "\u0000"}', "NUL"),
    "a NUL character in a name": (rb'{"a": [{"b\u0000": 1}]}', "NUL"),
    "a NUL byte": (b'{"a": "\x00"}', "not valid JSON"),
    "half a surrogate pair": (rb'{"a": "\ud800"}', "surrogate"),
    "the other half": (rb'{"a": ["\udc00 "]}', "surrogate"),
    "half a pair in a name": (rb'{"\ud800": 1}', "surrogate"),
    "UTF-16": ('{"a": "é"}'.encode("utf-16"), "not UTF-8"),
    "UTF-16 without a mark": ('{"a": 1}'.encode("utf-16-le"), "not valid JSON"),
    "UTF-32": ('{"a": 1}'.encode("utf-32"), "not UTF-8"),
    "a byte order mark": (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
    "Latin-1": ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
    "an overlong byte sequence": (b'{"a": "\xc0\xaf"}', "not UTF-8"),
    "a surrogate in UTF-8": (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    "65 levels": (nested(65), "more than 64 levels"),
    "65 levels of objects": (nested(65, '{"a":', "}").replace(b":}", b":0}"), "more than 64 levels"),
    "100,000 levels": (nested(100_000), "more than 64 levels"),
    "100,000 levels of objects": (nested(100_000, '{"a":', "}").replace(b":}", b":0}"), "more than 64 levels"),
    "100,000 levels that never close": (b'{"a":' + b"[" * 100_000, "more than 64 levels"),
    "an integer of 4301 digits": (b'{"a": ' + b"9" * 4301 + b"}", "too many digits"),
    "an integer of a million digits": (b'{"a": -' + b"9" * 1_000_000 + b"}", "too many digits"),
}


@pytest.mark.parametrize(("raw", "why"), REFUSED.values(), ids=REFUSED)
def test_anything_but_one_unambiguous_object_is_refused(raw, why):
    with pytest.raises(errors.InvalidRequest, match=why) as refusal:
        strict_json.loads(raw)
    assert "sys." not in refusal.value.message


@pytest.mark.parametrize(
    ("raw", "twice"),
    [
        (b'{"a": 1, "a": 2}', "a"),
        (b'{"a": 1, "b": 2, "a": 1}', "a"),
        (b'{"a": {"b": [{"c": 1, "c": 1}]}}', "c"),
        (rb'{"a": 1, "\u0061": 2}', "a"),
    ],
)
def test_a_name_that_occurs_twice_is_refused_and_named(raw, twice):
    with pytest.raises(errors.InvalidRequest, match="occurs twice") as refusal:
        strict_json.loads(raw)
    assert refusal.value.param == twice


def test_the_same_name_in_two_objects_is_accepted():
    assert strict_json.loads(b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}')


@given(st.binary() | st.binary().map(lambda raw: b'{"a":' + raw + b"}"))
@example(b'{"a":1}')
def test_arbitrary_bytes_are_an_object_or_refused(raw):
    try:
        assert isinstance(strict_json.loads(raw), dict)
    except errors.InvalidRequest as refusal:
        json.dumps(refusal.body())


# --- As Python's parser reads it ----------------------------------------------------------------------------------


def reference(raw: bytes) -> Any:
    """Read strictly with Python's parser: the object, or None where it is refused."""

    def unique(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    def finite(digits):
        if abs(float(digits)) == float("inf"):
            raise ValueError("too large")
        return float(digits)

    def refuse(word):
        raise ValueError(word)

    try:
        value = json.loads(raw.decode(), object_pairs_hook=unique, parse_constant=refuse, parse_float=finite)
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except (ValueError, RecursionError):  # UnicodeError is a ValueError
        return None
    return value if isinstance(value, dict) and r"\u0000" not in text.replace(r"\\", "") else None


# Pieces of which nearly valid JSON is made: each stands for a rule of the grammar or of ours.
PIECES = [
    *'{}[]:,"', " ", "\n", '"a"', '"b"', '"a":', '"a":1', '{"a":{"b":[', "]}}", '"x\\\\"', '"{:,}"',
    *["1", "-0", "0.5", "1e5", "1E-400", "1e999", "01", "9" * 20, "9" * 4299, "true", "null", "NaN", "-Infinity"],
    *[r"\\", r"\"", r"\\\"", r"\n", r"\/", r"\x", r"\u0041", r"\u0000", r"\\u0000", r"\ud83d\ude00", r"\ud83d", r"\ude00"],
    *["\x00", "\x7f", "é", "\N{GRINNING FACE}"],
]  # fmt: skip
ODD_JSON = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@given(ODD_JSON | ODD_JSON.map('{{"a":[{}]}}'.format) | ODD_JSON.map('{{"a":"{}"}}'.format) | OBJECTS.map(json.dumps))
@settings(max_examples=250)
@example('{"a":1,"\\u0061":2}')
@example('{"a":"\\\\","b":"\\"","c":":"}')
@example('{"a":"\\\\u0000"}')
def test_the_same_bodies_are_read_and_refused_as_by_a_strict_use_of_pythons_parser(text):
    assert_read_as_by_python(text.encode())


def assert_read_as_by_python(raw: bytes) -> None:
    try:
        read: Any = strict_json.loads(raw)
    except errors.InvalidRequest:
        read = None
    # As text, because 1 equals 1.0 and True.
    assert json.dumps(read) == json.dumps(reference(raw))


HALVES = st.sampled_from(["\0", "\ud83d", "\ude00", "\\", "\\u0000", "\\ud83d", '"', "a", "\N{GRINNING FACE}", "\n"])


@given(st.lists(HALVES, max_size=12).map("".join), st.booleans())
def test_a_mended_body_is_read_with_a_replacement_for_each_character_that_cannot_be_kept(text, has_mark):
    written = json.dumps({"a": text})
    body, is_replaced = strict_json.mended(b"\xef\xbb\xbf" * has_mark + written.encode(), lambda: None)
    read = json.loads(written)["a"]  # which joins pairs
    expected = "".join("\ufffd" if each == "\0" or "\ud800" <= each <= "\udfff" else each for each in read)
    assert strict_json.loads(body) == {"a": expected}
    assert is_replaced == (expected != read)


@given(ODD_JSON.map('{{"a":[{}]}}'.format) | ODD_JSON.map('{{"a":"{}"}}'.format), st.integers(1, 8))
def test_slices_make_no_difference(text, slice_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_SLICE_BYTES", max(slice_bytes, 2))
        assert_read_as_by_python(text.encode())


def test_a_large_body_is_refused_without_the_place():
    padding = b'"' + b"x" * 70_000 + b'"'
    for raw, why in [
        (b'{"a": 1, "a": ' + padding + b"}", "A name occurs twice"),
        (b'{"a": ' + padding + b", }", "not valid JSON"),
        (b'{"a": 1e999, "b": ' + padding + b"}", "too large"),
        (b'{"a": "\xff", "b": ' + padding + b"}", "not UTF-8"),
        (b'{"a": "\\u0000", "b": ' + padding + b"}", "NUL"),
    ]:
        with pytest.raises(errors.InvalidRequest, match=why):
            strict_json.loads(raw)


# --- How much is read ---------------------------------------------------------------------------------------------


def arriving(raw: bytes, **headers: Any) -> Any:
    request = RequestFactory().post("/", raw, content_type="application/json", **headers)
    return type(request)({**request.environ, "wsgi.input": io.BytesIO(raw)})


def test_a_body_is_read_up_to_its_length():
    assert strict_json.read_body(arriving(b'{"a": 1}{"b": 2}', CONTENT_LENGTH="8")) == b'{"a": 1}'


def test_a_body_that_ends_before_its_length_is_refused():
    with pytest.raises(errors.InvalidRequest, match="ended before its Content-Length"):
        strict_json.read_body(arriving(b'{"a": 1}', CONTENT_LENGTH="9"))


@pytest.mark.parametrize("length", ["", "0", "-1", "eight", "²"])
def test_a_body_without_a_length_is_refused(length):
    with pytest.raises(errors.InvalidRequest, match="empty"):
        strict_json.read_body(arriving(b'{"a": 1}', CONTENT_LENGTH=length))


def test_a_body_of_the_largest_size_is_read_and_a_larger_one_refused(settings):
    settings.REQUEST_BYTES_MAX = 1_000
    raw = b'{"a": "' + b"x" * 991 + b'"}'
    assert len(strict_json.read_body(arriving(raw))) == 1_000
    with pytest.raises(errors.RequestTooLarge):
        strict_json.read_body(arriving(raw + b" "))


@pytest.mark.parametrize("odd", [b"1,", b"[],", b'{"":""},', b'"",', b"0.5e1,", b"9999999999,"])
def test_syntax_is_bounded_whatever_it_is_made_of(odd):
    with pytest.raises(errors.InvalidRequest, match="more than 1000 characters of JSON outside strings"):
        strict_json.loads(b'{"a": [' + odd * 2_000 + b"1]}", syntax_max=1_000)


def test_neither_strings_nor_white_space_count_as_syntax():
    raw = json.dumps({"a": [',{}[]:\\"' * 10_000, "x" * 600_000], "b": 1}, indent=300).encode()
    assert strict_json.loads(raw, syntax_max=12) == json.loads(raw)
    with pytest.raises(errors.InvalidRequest):
        strict_json.loads(raw, syntax_max=8)


# --- Over HTTP -----------------------------------------------------------------------------------------------------

WELL = {
    "model": "demo/echo",
    "messages": [{"role": "user", "content": "one two three"}],
    "max_tokens": 2,
    "temperature": 1.0,
    "top_p": 1,
    "n": 1,
    "stream": False,
    "echo": {"reply": "yes"},
}
UNDESCRIBED = ["audio"]  # refused all the same
ODD = VALUES | st.sampled_from([0, -1, 2**31, 2**63, 10**4000, -0.0, 1e308, "", "1", [], {}, [[]], [{}], {"role": "user"}])
through_http = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def almost_valid_body(draw: st.DrawFn) -> bytes:
    """Draw a valid body with a few changes: values replaced, names removed or added, bytes overwritten."""
    fields: dict[str, Any] = json.loads(json.dumps(WELL))
    for name in draw(st.lists(st.sampled_from([*WELL, *ChatCompletionRequest().fields, *UNDESCRIBED]), max_size=2)):
        fields[name] = copy.deepcopy(draw(ODD))
    for name in draw(st.lists(st.sampled_from(list(WELL)), max_size=1)):
        fields.pop(name, None)
    if draw(st.booleans()) and isinstance(fields.get("messages"), list):
        fields["messages"].append(draw(ODD | st.fixed_dictionaries({"role": ODD, "content": ODD})))
    if draw(st.booleans()) and isinstance(fields.get("echo"), dict):
        fields["echo"][draw(st.sampled_from(["reply", "status", "break_after_tokens", "report_usage", "x"]))] = draw(ODD)
    raw = bytearray(json.dumps(fields).encode())
    for place, byte in draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=2)):
        raw[place] = byte
    return bytes(raw)


def assert_served_or_refused(api: Any, raw: bytes) -> None:
    before = chat.everything_written()
    reply = chat.send(api, raw)
    if reply.status_code == 200:
        assert reply.getvalue()
        return
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}
    if not error["message"].startswith("The model's provider"):  # the echo provider failed on request, after admission
        assert 400 <= reply.status_code < 500
        assert chat.everything_written() == before


@given(raw=st.binary(max_size=200))
@through_http
def test_arbitrary_bytes_never_cause_an_internal_error(api, echo_model, raw):
    assert_served_or_refused(api, raw)


@given(raw=almost_valid_body())
@through_http
def test_almost_valid_requests_never_cause_an_internal_error(api, echo_model, raw):
    assert_served_or_refused(api, raw)


@given(value=OBJECTS)
@through_http
def test_unknown_fields_are_ignored(api, echo_model, value):
    known = {*WELL, *ChatCompletionRequest().fields, *UNDESCRIBED}
    reply = chat.send(api, json.dumps({**{name: item for name, item in value.items() if name not in known}, **WELL}).encode())
    assert reply.status_code == 200
    assert reply.json()["choices"][0]["message"]["content"] == "yes"


def test_a_body_with_too_many_values_is_refused_and_nothing_is_written(api, echo_model, settings):
    settings.REQUEST_SYNTAX_MAX = 1_000
    before = chat.everything_written()
    reply = chat.send(api, json.dumps({**WELL, "x": [1] * 70_000}).encode())
    assert reply.status_code == 400
    assert "more than 1000 characters of JSON outside strings" in reply.json()["error"]["message"]
    assert chat.everything_written() == before


def test_the_valid_body_is_accepted(api, echo_model):
    assert chat.send(api, json.dumps(WELL).encode()).status_code == 200


# --- Turns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "turns"),
    [
        (b"[]" + b",[]" * 3_000, 1),
        (b'"' + b"a" * 60_000 + b'"', 0),
        (b'"' + b"a" * 70_000 + b'"', 1),
        (b"[]" + b",[]" * 2_000, 0),
    ],
    ids=["tiny values", "text", "large text", "few tiny values"],
)
def test_a_body_takes_a_turn_by_the_time_that_it_takes(monkeypatch, body, turns):
    lock = CountedLock()
    monkeypatch.setattr(large_work, "_lock", lock)
    strict_json.StrictJSONParser().parse(arriving(b'{"a": [' + body + b"]}"))
    assert lock.turns == turns
