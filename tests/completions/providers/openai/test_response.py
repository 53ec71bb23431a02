"""Replies in OpenAI's wire format: their choices and usage in every spelling."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.chat import Chunk
from completions.providers.exchange import InBandError, UnusableResponse
from completions.providers.openai.response import StreamReader, parse_reply
from completions.providers.reported_usage import HOSTS, Report
from tests import chat

PLAIN = b'{"id":"u","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'
ROLE = b'{"id":"u","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
FINISH = PLAIN.replace(b'"finish_reason":null', b'"finish_reason":"stop"')
COUNTED = b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}'
FAILED = b'{"error":{"message":"overloaded"}}'


def read(reader: StreamReader, *events: bytes) -> list[Chunk]:
    """Return the chunks of valid events."""
    chunks, failure = reader.read_events(list(events))
    assert failure is None
    return chunks


# --- Streams -----------------------------------------------------------------------------------------------------

TRICKS = [
    '"finish_reason":null',
    '"choices":',
    '"usage":',
    '"}}]',
    "\\",
    '"',
    "\n",
    "é",
    "漢字",
    "😀",
    "\ud83d",
    "\u2028",
    "}]",
]
CONTENT = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(TRICKS)), max_size=6).map("".join)
SPELLINGS = {
    "openai": '{{"choices":[{{"index":0,"delta":{{"content":{0}}},"logprobs":null,"finish_reason":null}}],"usage":null}}',
    "ollama": '{{"id":"u","choices":[{{"index":0,"delta":{{"role":"assistant","content":{0}}},"finish_reason":null}}]}}',
    "spaced": '{{"id": "u", "choices": [{{"index": 0, "delta": {{"content": {0}}}, "finish_reason": null}}]}}',
    "usage first": '{{"usage":null,"choices":[{{"index":0,"delta":{{"content":{0}}},"finish_reason":null}}],"id":"u"}}',
    "nested": '{{"x":{{"choices":[]}},"choices":[{{"index":0,"delta":{{"content":{0}}},"finish_reason":null}}]}}',
    "thoughts": '{{"choices":[{{"index":0,"delta":{{"content":null,"reasoning_content":{0}}},"finish_reason":null}}]}}',
    "thoughts alone": '{{"choices":[{{"index":0,"delta":{{"reasoning_content":{0}}},"finish_reason":null}}]}}',
    "reasoning": '{{"choices":[{{"index":0,"delta":{{"content":null,"reasoning":{0}}},"finish_reason":null}}]}}',
}


@given(st.sampled_from(sorted(SPELLINGS)), st.lists(CONTENT, min_size=1, max_size=5), st.booleans())
def test_chunks_carry_the_choices_of_the_events(spelling, contents, ascii_only):
    reader = StreamReader()
    read(reader, ROLE, PLAIN)
    for content in contents:
        ascii_only = ascii_only or "\ud83d" in content  # half a pair can only be sent escaped
        data = SPELLINGS[spelling].format(json.dumps(content, ensure_ascii=ascii_only)).encode()
        [chunk] = read(reader, data)
        expected = json.loads(data)["choices"]
        if spelling in ("thoughts", "thoughts alone", "reasoning") and content:
            expected[0]["delta"] |= chat.reasoning(content)
        elif spelling == "reasoning":
            del expected[0]["delta"]["reasoning"]
        assert json.loads(chunk.choices) == expected
        assert chunk.text_bytes == len(content.encode("utf-8", "surrogatepass"))
        assert chunk.usage is None
        assert not chunk.has_finish_reason
    assert not reader.has_finish_reason
    assert reader.has_passed_on


def test_event_with_other_fields_is_parsed():
    reader = StreamReader()
    read(reader, PLAIN)
    more = b'{"id":"u","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"model":"theirs","x":[{"y":1}]}'
    [chunk] = read(reader, more)
    assert json.loads(chunk.choices) == json.loads(PLAIN)["choices"]


def test_finish_reason_and_usage_are_read_after_copied_events():
    reader = StreamReader()
    read(reader, ROLE, PLAIN)
    assert all(read(reader, PLAIN)[0].choices == read(reader, PLAIN)[0].choices for _ in range(3))
    [chunk] = read(reader, FINISH)
    assert chunk.has_finish_reason
    assert reader.has_finish_reason
    [counted] = read(reader, COUNTED)
    assert (counted.usage.prompt_tokens, counted.usage.completion_tokens) == (3, 4)
    assert read(reader, b"[DONE]") == []
    assert read(reader, PLAIN) == []
    assert reader.has_ended


def choice(index=0, finish_reason=None, **delta):
    return {"index": index, "delta": delta, "finish_reason": finish_reason}


def told(reader: StreamReader, *choices) -> list:
    """Return the choices that are passed on for an event with these choices."""
    return [each for chunk in read(reader, json.dumps({"choices": choices}).encode()) for each in json.loads(chunk.choices)]


def test_each_choice_begins_with_a_role():
    reader = StreamReader(choices=2)
    assert told(reader, choice(content="a")) == [choice(content="a", role="assistant")]
    assert told(reader, choice(content="b")) == [choice(content="b")]
    assert told(reader, choice(1, content="c")) == [choice(1, content="c", role="assistant")]
    assert told(reader, choice(1, content="d"), choice(content="e")) == [choice(1, content="d"), choice(content="e")]
    for role in (None, "", "model", "ASSISTANT"):
        reader = StreamReader()
        assert told(reader, choice(role=role, content="a")) == [choice(role="assistant", content="a")]
        assert told(reader, choice(role=role, content="b")) == [choice(content="b")]
        assert told(reader, choice(content="c", role=role)) == [choice(content="c")]


def test_what_comes_before_text_is_held_back():
    reader = StreamReader()
    assert told(reader, {"delta": None}) == told(reader, choice(content="")) == []
    assert not reader.has_passed_on
    assert told(reader, choice(content="a")) == [choice(role="assistant"), choice(content=""), choice(content="a")]
    assert reader.has_passed_on


def test_each_choice_finishes_once_and_keeps_later_text():
    reader = StreamReader(choices=2)
    told(reader, choice(content="a"), choice(1, content="b"))
    assert told(reader, choice(0, "stop")) == [choice(0, "stop")]
    assert told(reader, choice(0, "stop"), choice(1, "length")) == [choice(1, "length")]
    assert told(reader, choice(0, "stop"), choice(1, "stop")) == []
    assert told(reader, choice(0, "stop", content="more")) == [choice(content="more")]
    assert read(reader, PLAIN)[0].text_bytes == 1
    assert reader.has_finish_reason


def test_chunks_of_one_read_are_in_order_up_to_the_end():
    chunks = read(reader := StreamReader(), ROLE, PLAIN, FINISH, COUNTED, b"[DONE]", PLAIN)
    assert [chunk.text_bytes for chunk in chunks] == [0, 1, 1, 0]
    assert [chunk.has_finish_reason for chunk in chunks] == [False, False, True, False]
    assert [chunk.usage is not None for chunk in chunks] == [False, False, False, True]
    assert (reader.has_passed_on, reader.has_finish_reason, reader.has_ended) == (True, True, True)


@pytest.mark.parametrize(
    "middle",
    [
        [PLAIN.replace(b'"a"', text) for text in (b'"\xc3\xa9"', b'"\\n"', b'"\\ud83d\\ude00"', b'""')],
        [PLAIN.replace(b'"a"', b'"\xff"')],
        [PLAIN.replace(b'"content":"a"', b'"reasoning_content":"a"')],
        [PLAIN.replace(b'"content":"a"', b'"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]')],
        [PLAIN.replace(b'"id":"u"', b'"id":"v"')],
        [PLAIN.replace(b"]}", b']\n[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}'), PLAIN.replace(b"0", b"00")],
        [COUNTED],
        [FINISH],
        [FAILED],
        [b"[DONE]"],
    ],
    ids=["text", "not UTF-8", "thoughts", "a tool call", "another frame", "two lines", "usage", "the end", "error", "done"],
)
@pytest.mark.parametrize("place", [1, 5, 12])
def test_events_of_one_read_are_read_as_if_each_came_alone(middle, place):
    events = [ROLE, *[PLAIN] * place, *middle, *[PLAIN.replace(b'"a"', b'"bc"')] * (14 - place), FINISH, COUNTED, b"[DONE]"]
    together, failure = StreamReader().read_events(events)
    reader, alone, failed = StreamReader(), [], None
    for event in events:
        chunks, failed = reader.read_events([event])
        alone += chunks
        if failed:
            break
    assert (together, repr(failure)) == (alone, repr(failed))


def test_usage_beside_a_finish_reason_becomes_its_own_chunk():
    finish, counted = read(reader := StreamReader(), FINISH[:-1] + b',"usage":{"prompt_tokens":3,"completion_tokens":4}}')
    assert (finish.has_finish_reason, finish.usage) == (True, None)
    assert json.loads(finish.choices)[0]["finish_reason"] == "stop"
    assert (counted.choices, counted.usage.completion_tokens) == (b"[]", 4)
    assert reader.has_finish_reason


@pytest.mark.parametrize(
    "data",
    [
        FAILED,
        b"[" + FAILED + b"]",
        b'{"x":' * 100_000,
        b'{"choices":[1]}',
        b'{"choices":7}',
        b'{"x":NaN}',
        b'{"x":"\xff"}',
        b"{",
    ],
    ids=["error", "error in a list", "too deep", "bad choice", "no choices", "NaN", "not UTF-8", "cut off"],
)
def test_text_before_a_malformed_event_is_passed_on(data):
    reader = StreamReader()
    chunks, failure = reader.read_events([ROLE, PLAIN, data, PLAIN])
    assert [chunk.text_bytes for chunk in chunks] == [0, 1]
    assert isinstance(failure, UnusableResponse)
    assert reader.has_passed_on


def test_role_is_withheld_when_a_failure_follows_in_the_same_read():
    reader = StreamReader()
    chunks, failure = reader.read_events([ROLE, FAILED])
    assert chunks == []
    assert "overloaded" in str(failure)
    assert not reader.has_passed_on


def test_finish_reason_is_passed_on_when_a_failure_follows_in_the_same_read():
    reader = StreamReader()
    chunks, failure = reader.read_events([FINISH.replace(b'"a"', b'""'), COUNTED, FAILED])
    assert [chunk.has_finish_reason for chunk in chunks] == [True, False]
    assert chunks[1].usage
    assert failure
    assert reader.has_finish_reason


def test_text_that_is_not_utf_8_is_not_copied():
    reader = StreamReader()
    assert read(reader, PLAIN)
    for text in (b"\xff", b"\xed\xa0\xbd", b"\xc3"):
        chunks, failure = reader.read_events([PLAIN.replace(b'"a"', b'"%s"' % text)])
        assert (chunks, type(failure)) == ([], UnusableResponse)


def test_events_that_come_together_are_read_as_those_that_come_alone():
    texts = [*"abcdefgh", "\\n", "\\u00e9\\ud83d\\ude00", "é", '\\"', "i", "j"]
    events = [ROLE, PLAIN, *[PLAIN.replace(b'"a"', f'"{text}"'.encode()) for text in texts], FINISH, COUNTED, b"[DONE]"]
    alone, together = StreamReader(), StreamReader()
    assert read(together, *events) == [chunk for event in events for chunk in read(alone, event)]
    for place in range(2, len(events)):  # an event with another frame among them
        other = [*events[:place], PLAIN.replace(b'"u"', b'"v"'), *events[place:]]
        alone, together = StreamReader(), StreamReader()
        assert read(together, *other) == [chunk for event in other for chunk in read(alone, event)]


def test_data_of_several_lines_is_no_event_of_its_own_among_others():
    lost = FINISH.replace(b"}]}", b'}],"usage":{"prompt_tokens":7,"completion_tokens":9}} ')
    events = [ROLE, *[PLAIN] * 10, PLAIN + b"\n" + PLAIN, lost, PLAIN]
    chunks, failure = StreamReader().read_events(events)
    assert len(chunks) == 11
    assert str(failure) == "an event is not JSON"


def test_thoughts_in_tags_are_not_copied_as_content():
    reader = StreamReader()
    pieces = ["<thi", "nk>", "a", "b", "</think>", "c", "d"]
    for less_than in ("<", "\\u003c"):  # Go escapes it
        reader = StreamReader()
        read(reader, ROLE)
        deltas = [
            json.loads(chunk.choices)[0]["delta"]
            for piece in pieces
            for chunk in read(reader, PLAIN.replace(b'"a"', f'"{piece}"'.replace("<", less_than).encode()))
        ]
        assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "ab"
        assert "".join(delta.get("content") or "" for delta in deltas) == "cd"


@pytest.mark.parametrize(
    ("delta", "text_bytes"),
    [
        ({"content": "<think>abc", "reasoning": {"x": 1}}, 3),
        ({"reasoning_content": "abc", "reasoning": {"x": 1}}, 3),
        ({"reasoning_content": {"x": 1}, "reasoning": "abc"}, 3),
        ({"reasoning_content": "abc", "reasoning": "abc", "content": "d"}, 4),
    ],
)
def test_text_is_counted_once_whatever_other_fields_hold(delta, text_bytes):
    for finish_reason in (None, "stop"):
        [chunk] = read(StreamReader(), json.dumps({"choices": [choice(0, finish_reason, **delta)]}).encode())
        assert chunk.text_bytes == text_bytes
    assert parse_reply(json.dumps({"choices": [{"message": delta}]}).encode()).text_bytes == text_bytes


def test_done_finishes_what_has_no_finish_reason():
    read(reader := StreamReader(), ROLE, PLAIN.replace(b'"a"', b'"<thi"'))
    *_, chunk = read(reader, b"[DONE]")
    assert json.loads(chunk.choices) == [choice(0, "stop", content="<thi")]
    assert (chunk.text_bytes, chunk.has_finish_reason, reader.has_finish_reason) == (4, True, True)


def test_done_alone_finishes_nothing():
    assert read(reader := StreamReader(), b"[DONE]") == []
    assert not reader.has_finish_reason


# --- Whole replies -----------------------------------------------------------------------------------------------


def test_whole_reply_has_choices_usage_and_text_bytes():
    call = {"id": "c", "type": "function", "function": {"name": "fn", "arguments": "{}"}}
    message = {"role": "assistant", "content": "é😀", "refusal": "no", "reasoning_content": "abc", "tool_calls": [call]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    body = {"id": "u", "choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 0}}
    answer = parse_reply(json.dumps(body).encode())
    assert answer.choices == [{**choices[0], "message": {**message, **chat.reasoning("abc")}}]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 0)
    assert answer.text_bytes == 2 + 4 + 2 + 3 + 2 + 2


def test_choices_of_a_whole_reply_are_numbered():
    message = {"content": "a"}
    for choices, indexes in (
        ([{"message": message}, {"index": None, "message": message}], [0, 1]),
        ([{"index": 1, "message": message}, {"index": 0, "message": message}], [1, 0]),
    ):
        assert [each["index"] for each in parse_reply(json.dumps({"choices": choices}).encode()).choices] == indexes


def test_call_of_a_whole_reply_has_arguments():
    body = {"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}}]}
    [told_choice] = parse_reply(json.dumps(body).encode()).choices
    [call] = told_choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": "{}"}


def test_calls_of_a_whole_reply_that_are_numbered_alike_are_all_there():
    calls = [{"index": 0, "id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in "ab"]
    [told_choice] = parse_reply(json.dumps({"choices": [{"message": {"tool_calls": calls}}]}).encode()).choices
    assert told_choice["message"]["tool_calls"] == calls


def test_a_choice_that_ended_without_a_message_is_empty():
    [choice] = parse_reply(b'{"choices":[{"finish_reason":"length","index":0}]}').choices
    assert choice == {"finish_reason": "length", "index": 0, "message": {"role": "assistant", "content": None}}


@pytest.mark.parametrize("body", [b'{"choices":[]}', b'{"choices":[{"index":0}]}', b'{"choices":[{"message":null}]}'])
def test_reply_without_choices_is_unusable(body):
    with pytest.raises(UnusableResponse, match=f"{len(body)} bytes are not a chat completion"):
        parse_reply(body)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"error": {"message": "too long", "code": "context_length_exceeded"}}, 400, "too long"),
        ({"error": {"message": "slow down", "code": 429}}, 429, "slow down"),
        ({"object": "error", "message": "no", "code": 400}, 400, "no"),
        ({"detail": "no"}, 500, "no"),
        ({"error": {"strange": 1}}, 500, "strange"),
        ({"choices": [{"error": {"message": "gone", "code": 502}, "message": {"content": "a"}}]}, 502, "gone"),
        ({"choices": [{"finish_reason": "error", "message": {"content": "a"}}]}, 500, "finish reason is error"),
    ],
)
def test_error_with_a_good_status_is_found(body, status, words):
    with pytest.raises(InBandError, match=words) as raised:
        parse_reply(json.dumps(body).encode())
    assert raised.value.status == status
    delta = json.loads(json.dumps(body).replace('"message": {"content"', '"delta": {"content"'))
    chunks, failure = StreamReader().read_events([ROLE, json.dumps(delta).encode()])
    assert isinstance(failure, InBandError)
    assert (chunks, failure.status) == ([], status)


# --- Usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "9",
        {},
        {"prompt_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": 1.5, "completion_tokens": 1},
        {"prompt_tokens": "1.0", "completion_tokens": 1},
        {"prompt_tokens": "-1", "completion_tokens": 1},
        {"prompt_tokens": "", "completion_tokens": 1},
        {"prompt_tokens": "\u0661", "completion_tokens": 1},
        {"prompt_tokens": "1" * 5_000, "completion_tokens": 1},
        {"prompt_tokens": 1e300, "completion_tokens": 1},
        {"prompt_tokens": 1, "completion_tokens": 1_000_000_001},
    ],
)
def test_impossible_usage_is_invalid(value):
    assert Report().add(value) is None


@pytest.mark.parametrize("count", [0, 1, 1_000_000_000])
def test_possible_usage_is_valid_including_zero(count):
    usage = Report().add({"prompt_tokens": count, "completion_tokens": count, "total_tokens": "whatever"})
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens) == (count, count, 0, 0)


@pytest.mark.parametrize("count", [20, 20.0, "20"])
def test_count_is_read_as_number_fraction_and_text(count):
    usage = Report().add({"prompt_tokens": count, "completion_tokens": count})
    assert (usage.prompt_tokens, usage.completion_tokens) == (20, 20)
    assert type(usage.prompt_tokens) is int


@pytest.mark.parametrize(
    ("given_tokens", "counted"), [(2, 2), (3, 3), (4, 3), (-1, 0), ("2", 2), (2.0, 2), ("x", 0), (None, 0)]
)
def test_detail_counts_are_at_most_their_total(given_tokens, counted):
    usage = Report(HOSTS["api.openai.com"]).add(
        {
            "prompt_tokens": 3,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": given_tokens},
            "completion_tokens_details": {"reasoning_tokens": given_tokens},
        }
    )
    assert (usage.cached_tokens, usage.reasoning_tokens) == (counted, counted)
