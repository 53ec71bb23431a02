"""Replies in Anthropic's wire format: their text, calls and usage, however the stream is split."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.chat import Chunk
from completions.pricing.usage import Usage
from completions.providers import sse
from completions.providers.anthropic.response import StreamReader, parse_reply, read_error, read_refusal
from completions.providers.exchange import InBandError, UnusableResponse
from completions.providers.reported_usage import MESSAGES, Report
from tests.completions.providers.anthropic.scripts import (
    PING,
    STOP,
    USAGE,
    block_delta,
    block_start,
    block_stop,
    error,
    event,
    message,
    message_delta,
    start,
    text,
    text_block,
    thinking_block,
    thoughts,
    tool,
    tool_use_block,
)
from tests.completions.providers.cuts import CUTS, cut

COUNTED = Usage(124, 7, cached_tokens=100, cache_write_tokens=20)
AT_FIRST = Usage(124, 1, cached_tokens=100, cache_write_tokens=20)
OVERLOADED = event(error("overloaded_error", "Overloaded"))


def read(*pieces: bytes) -> list[Chunk]:
    """Return the chunks of valid events, fed in these pieces."""
    decoder, reader, chunks = sse.Decoder(100_000), StreamReader(), []
    for piece in pieces:
        passed_on, failure = reader.read_events(decoder.feed(piece))
        assert failure is None
        chunks += passed_on
    return chunks


def deltas(chunks: list[Chunk]) -> list[dict]:
    return [choice["delta"] for chunk in chunks for choice in json.loads(chunk.choices)]


def usages(chunks: list[Chunk]) -> list[Usage]:
    return [chunk.usage for chunk in chunks if chunk.usage]


# --- Streams -----------------------------------------------------------------------------------------------------

WEATHER = tool("toolu_1", "weather", '{"city":', ' "Köln"}', index=2)
TIME = tool("toolu_2", "time", index=3)
EVERYTHING = start() + PING + thoughts("Let me ", "see.") + text("Héllo ", "😀", index=1) + WEATHER + PING + TIME
EVERYTHING += message_delta("tool_use") + STOP


def test_events_become_chunks():
    chunks = read(EVERYTHING)
    assert [(json.loads(chunk.choices), chunk.text_bytes, chunk.has_finish_reason, chunk.usage) for chunk in chunks] == [
        *(
            ([{"index": 0, "delta": delta, "finish_reason": None}] if delta else [], text_bytes, False, usage)
            for delta, text_bytes, usage in [
                ({"role": "assistant", "content": ""}, 0, None),
                (None, 0, AT_FIRST),
                ({"reasoning_content": "Let me "}, 7, None),
                ({"reasoning_content": "see."}, 4, None),
                ({"content": "Héllo "}, 7, None),
                ({"content": "😀"}, 4, None),
                (called(0, id="toolu_1", type="function", function={"name": "weather", "arguments": ""}), 7, None),
                (called(0, function={"arguments": '{"city":'}), 8, None),
                (called(0, function={"arguments": ' "Köln"}'}), 9, None),
                (called(1, id="toolu_2", type="function", function={"name": "time", "arguments": ""}), 4, None),
                (called(1, function={"arguments": "{}"}), 2, None),
            ]
        ),
        ([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], 0, True, None),
        ([], 0, False, COUNTED),
    ]


def called(number, **fields):
    return {"tool_calls": [{"index": number, **fields}]}


@given(CUTS.map(lambda cuts: [place * 7 for place in cuts]))
def test_stream_split_anywhere_gives_the_same_chunks(cuts):
    assert read(*cut(EVERYTHING, cuts)) == read(EVERYTHING)


def test_stream_read_byte_by_byte_gives_the_same_chunks():
    assert read(*(bytes([byte]) for byte in EVERYTHING)) == read(EVERYTHING)


CONTENT = st.lists(st.text(min_size=1, max_size=8) | st.sampled_from(["\n", '"', "\\", "\ud83d", "\u2028", "data: x\n\n"]))


@given(CONTENT, CONTENT)
def test_chunks_carry_the_text_of_the_deltas(thinking, spoken):
    chunks = read(start() + thoughts(*thinking) + text(*spoken, index=1) + message_delta() + STOP)
    assert "".join(delta.get("content", "") for delta in deltas(chunks)) == "".join(spoken)
    assert "".join(delta.get("reasoning_content", "") for delta in deltas(chunks)) == "".join(thinking)
    generated = "".join(thinking + spoken)
    assert sum(chunk.text_bytes for chunk in chunks) == sum(len(part.encode("utf-8", "surrogatepass")) for part in generated)


def test_no_chunk_is_returned_before_content_begins():
    reader = StreamReader()
    for data in (start(), PING):
        assert reader.read_events(sse.Decoder(100_000).feed(data)) == ([], None)
    assert not reader.has_passed_on


def test_unknown_blocks_and_events_are_skipped():
    unknown = block_start(0, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    unknown += block_delta(0, "input_json_delta", partial_json='{"query":"x"}') + block_delta(0, "citations_delta", citation={})
    unknown += block_stop(0) + event({"type": "something_new", "index": "x"})
    chunks = read(start() + unknown + text("Hello", index=1) + message_delta() + STOP)
    assert deltas(chunks) == [{"role": "assistant", "content": ""}, {"content": "Hello"}, {}]


def test_arguments_sent_with_the_block_are_kept():
    chunks = read(
        start() + block_start(0, tool_use_block("t", "f", city="Köln")) + block_stop(0) + message_delta("tool_use") + STOP
    )
    assert deltas(chunks)[2] == called(0, function={"arguments": '{"city":"Köln"}'})


def test_text_sent_with_the_block_is_kept():
    assert {"content": "Hello"} in deltas(
        read(start() + block_start(0, text_block("Hello")) + block_stop(0) + message_delta() + STOP)
    )


def test_message_without_content_has_a_role_and_a_finish_reason():
    chunks = read(start() + message_delta("refusal", {"output_tokens": 0}) + STOP)
    assert deltas(chunks) == [{"role": "assistant", "content": ""}, {}]
    assert json.loads(chunks[-2].choices)[0]["finish_reason"] == "content_filter"
    assert usages(chunks)[-1].completion_tokens == 0


def test_finish_reason_is_sent_once_and_the_last_counts_win():
    chunks = read(
        start()
        + text("a")
        + message_delta(None, {"output_tokens": 3})
        + message_delta()
        + message_delta("max_tokens", {"output_tokens": 8})
        + STOP
    )
    assert [json.loads(chunk.choices)[0]["finish_reason"] for chunk in chunks if chunk.has_finish_reason] == ["stop"]
    assert [usage.completion_tokens for usage in usages(chunks)] == [1, 3, 7, 8]


def test_events_after_the_end_are_ignored():
    assert read(EVERYTHING + text("never") + message_delta("max_tokens", {"output_tokens": 1})) == read(EVERYTHING)


def test_valid_later_counts_replace_earlier_ones():
    counts = {"output_tokens": 9, "input_tokens": 5, "cache_read_input_tokens": None, "cache_creation_input_tokens": -1}
    assert usages(read(start() + text("a") + message_delta(usage=counts) + STOP))[-1] == Usage(125, 9, 100, 20)


@pytest.mark.parametrize("counts", [None, {}, {"output_tokens": None}, {"output_tokens": -7}, {"output_tokens": "seven"}, [7]])
def test_text_is_estimated_without_a_last_count(counts):
    assert usages(read(start() + text("x" * 17) + message_delta(usage=counts) + STOP))[-1] == Usage(124, 5, 100, 20)


@pytest.mark.parametrize(
    "counts", [{}, [], {"input_tokens": -1, "output_tokens": 1}, {"input_tokens": 1.5, "output_tokens": 1}]
)
def test_no_usage_without_a_count_of_the_prompt(counts):
    assert usages(read(start(counts) + text("a") + message_delta() + STOP)) == []


@pytest.mark.parametrize(
    "broken",
    [
        b'data: {"error":{"message":"no"}}\n\n',
        b'data: {"x":"\xff"}\n\n',
        b"data: " + b'{"x":' * 90_000 + b"\n\n",
        b'data: {"type":"content_block_delta","index":0,"delta":7}\n\n',
        b'data: {"type":["content_block_delta"],"index":0,"delta":NaN}\n\n',
        block_delta(0, "text_delta", text=7),
        block_start(1, {"type": "tool_use", "id": "x"}),
        OVERLOADED,
    ],
    ids=["no type", "not UTF-8", "too deep", "bad delta", "NaN", "number", "no name", "error"],
)
def test_text_before_a_malformed_event_is_passed_on(broken):
    reader = StreamReader()
    chunks, failure = reader.read_events(
        sse.Decoder(100_000).feed(start() + block_start(0, text_block("Hello")) + broken + text("never"))
    )
    assert deltas(chunks) == [{"role": "assistant", "content": ""}, {"content": "Hello"}]
    assert isinstance(failure, UnusableResponse)
    assert reader.has_passed_on
    assert not reader.has_finish_reason


def test_role_is_withheld_when_an_error_follows_in_the_same_read():
    reader = StreamReader()
    chunks, failure = reader.read_events(sse.Decoder(100_000).feed(start() + block_start(0, text_block("")) + OVERLOADED))
    assert chunks == []
    assert isinstance(failure, InBandError)
    assert failure.status == 529
    assert not reader.has_passed_on


def test_finish_reason_is_passed_on_when_an_error_follows_in_the_same_read():
    reader = StreamReader()
    chunks, failure = reader.read_events(sse.Decoder(100_000).feed(start() + message_delta() + OVERLOADED))
    assert [chunk.has_finish_reason for chunk in chunks] == [False, False, True, False]
    assert failure
    assert reader.has_finish_reason


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("overloaded_error", 529),
        ("rate_limit_error", 429),
        ("invalid_request_error", 400),
        ("api_error", 500),
        ("timeout_error", 504),
        ("authentication_error", 401),
        ("billing_error", 402),
        ("news", 500),
    ],
)
def test_error_type_determines_the_status(kind, status):
    assert read_error({"type": kind, "message": "no"}).status == status


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.", 402),
        ("You have reached your specified API usage limits. You will regain access on 2026-12-01.", 402),
        ("You have reached your specified workspace API usage limits. You will regain access on 2026-12-01.", 402),
        ("This organization has been disabled.", 403),
        ("max_tokens: 9 > 8", 400),
        ("tools.0.name: 'This organization has been disabled.' is no name", 400),
    ],
)
def test_account_errors_are_distinguished_from_request_errors(reason, status):
    error = {"type": "invalid_request_error", "message": reason}
    assert read_error(error).status == status
    body = json.dumps({"type": "error", "error": error}).encode()
    assert read_refusal(400, body) == (status, "")
    assert read_refusal(500, body) == (500, "")


# --- Whole replies -----------------------------------------------------------------------------------------------


def answer(*blocks, **fields):
    return parse_reply(json.dumps(message(*blocks, **fields)).encode())


def test_message_becomes_a_choice():
    tools = tool_use_block("toolu_1", "weather", city="Köln"), tool_use_block("toolu_2", "time")
    got = answer(
        thinking_block("Let me see."),
        text_block("Hello "),
        {"type": "redacted_thinking", "data": "x"},
        text_block("you"),
        *tools,
    )
    assert got.choices == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello you",
                "refusal": None,
                "reasoning_content": "Let me see.",
                "tool_calls": [
                    {"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Köln"}'}},
                    {"id": "toolu_2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
                ],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert got.usage == Usage(124, 7, 100, 20, 3)
    assert got.text_bytes == len(b"Hello youLet me see.weathertime{}") + len('{"city":"Köln"}'.encode())


def test_content_is_null_beside_tool_calls_alone():
    assert answer(tool_use_block("t", "f"), stop_reason="tool_use").choices[0]["message"]["content"] is None
    empty = parse_reply(json.dumps({**message(), "content": []}).encode()).choices[0]["message"]
    assert empty == {"role": "assistant", "content": "", "refusal": None}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("news", "stop"),
        (None, "stop"),
    ],
)
def test_every_stop_reason_is_translated(theirs, ours):
    assert answer(stop_reason=theirs).choices[0]["finish_reason"] == ours


def test_lone_surrogate_becomes_a_question_mark():
    assert answer(text_block("a\ud83d")).choices[0]["message"]["content"] == "a?"


def test_arguments_with_a_lone_surrogate_are_kept():
    called = {"type": "tool_use", "id": "t", "name": "f", "input": {"q": "a\ud83d"}}
    [call] = answer(called).choices[0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"q": "a?"}
    chunks = read(start() + block_start(0, called) + block_stop(0) + message_delta("tool_use") + STOP)
    arguments = "".join(
        call["function"].get("arguments", "") for delta in deltas(chunks) for call in delta.get("tool_calls", [])
    )
    assert json.loads(arguments) == {"q": "a\ud83d"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"<html>",
        b"\xff",
        b'{"type":"message","content":null}',
        b'{"type":"message","content":"x"}',
        b'{"type":"message","content":[7]}',
        b'{"type":"message","content":[{"type":"text"}]}',
        b'{"type":' + b"[" * 90_000,
        b'{"type":"message","content":[{"type":"text","text":"x","y":1e999}]}',
        b'{"type":"error","error":{}}',
    ],
)
def test_malformed_message_is_unusable(body):
    with pytest.raises(UnusableResponse):
        parse_reply(body)


def test_error_with_status_200_is_raised():
    with pytest.raises(InBandError, match="Overloaded") as caught:
        parse_reply(json.dumps(error("overloaded_error", "Overloaded")).encode())
    assert caught.value.status == 529


# --- Usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"])
@pytest.mark.parametrize("value", [-1, 1.5, "one", True, 1_000_000_001, []])
def test_impossible_usage_is_invalid(name, value):
    assert Report(MESSAGES).add({**USAGE, name: value}) is None


@pytest.mark.parametrize("value", [None, [], "9", {}, {"input_tokens": 1}, {"output_tokens": 1}])
def test_malformed_usage_is_invalid(value):
    assert Report(MESSAGES).add(value) is None


def test_prompt_tokens_include_cache_reads_and_writes():
    assert Report(MESSAGES).add(USAGE) == Usage(124, 7, cached_tokens=100, cache_write_tokens=20, reasoning_tokens=3)
    assert Report(MESSAGES).add({"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": None}) == Usage(0, 0)


@pytest.mark.parametrize(("given_tokens", "counted"), [(6, 6), (8, 7), (-1, 0), ("2", 2), ("two", 0), (None, 0)])
def test_reasoning_tokens_are_at_most_the_completion(given_tokens, counted):
    usage = Report(MESSAGES).add({**USAGE, "output_tokens_details": {"thinking_tokens": given_tokens}})
    assert usage.reasoning_tokens == counted
