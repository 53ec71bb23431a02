"""Replies in Gemini's wire format: their text, calls and usage, and the status of refusals."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.providers import sse
from completions.providers.exchange import InBandError, UnusableResponse
from completions.providers.gemini.response import StreamReader, parse_reply, read_refusal
from completions.providers.reported_usage import GEMINI, Report
from tests.chat import reasoning
from tests.completions.providers.gemini.scripts import (
    BAD_KEY,
    HELLO,
    SIGNATURE,
    USAGE,
    call,
    error,
    events,
    exhausted,
    response,
    text_response,
    thought_part,
)


def read(reader, *responses):
    """Return the chunks of valid events, and those of the end."""
    chunks, failure = reader.read_events([json.dumps(each).encode() for each in responses])
    assert failure is None
    return [*chunks, *reader.last()] if reader.finish_reason else chunks


def choices(chunks):
    return [json.loads(chunk.choices)[0] for chunk in chunks if chunk.usage is None]


def answer(*parts, **fields):
    return parse_reply(json.dumps(response(*parts, **fields)).encode())


def message(*parts, **fields):
    [choice] = answer(*parts, **fields).choices
    return choice["message"]


# --- Streams -----------------------------------------------------------------------------------------------------


def test_stream_is_role_text_usage_and_one_finish_reason():
    chunks = read(StreamReader(), *HELLO)
    assert choices(chunks) == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "Hello "}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "you"}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"},
    ]
    assert [(chunk.text_bytes, chunk.has_finish_reason) for chunk in chunks if chunk.usage is None] == [
        (0, False),
        (6, False),
        (3, False),
        (0, True),
    ]
    assert [(chunk.usage.prompt_tokens, chunk.usage.completion_tokens) for chunk in chunks if chunk.usage] == [(9, 0), (9, 2)]


def test_thoughts_and_calls_are_separate_and_counted():
    chunks = read(
        StreamReader(),
        response(thought_part("Hm é")),
        response(thought_part("so"), {"text": "I look. "}, call("find", {"q": "é"}, SIGNATURE)),
        response(call("now")),
        response(finish="STOP"),
    )
    _, thinks, looks, calls, finish = [choice["delta"] | {"end": choice["finish_reason"]} for choice in choices(chunks)]
    assert thinks == {**reasoning("Hm é", "google-gemini-v1"), "end": None}
    [first], [second] = looks.pop("tool_calls"), calls.pop("tool_calls")
    assert looks == {"content": "I look. ", **reasoning("so", "google-gemini-v1"), "end": None}
    ids = [first.pop("id"), second.pop("id")]
    assert len(set(ids)) == 2
    assert all(made.startswith("call_") for made in ids)
    assert first == {
        "index": 0,
        "type": "function",
        "function": {"name": "find", "arguments": '{"q":"é"}'},
        "extra_content": {"google": {"thought_signature": SIGNATURE}},
    }
    assert second == {"index": 1, "type": "function", "function": {"name": "now", "arguments": "{}"}}
    assert finish == {"end": "tool_calls"}  # although the event with the finish reason has no call
    assert [chunk.text_bytes for chunk in chunks] == [0, 5, 2 + 8 + 4 + 10, 3 + 2, 0]


def test_repeated_finish_reason_is_sent_once_at_the_end():
    chunks = read(
        StreamReader(), text_response("a", finish="STOP"), text_response("b", finish="STOP"), response(finish="MAX_TOKENS")
    )
    assert [choice["finish_reason"] for choice in choices(chunks)] == [None, None, None, "length"]
    assert [choice["delta"].get("content") for choice in choices(chunks)] == ["", "a", "b", None]


def test_stream_of_a_blocked_prompt_is_empty_with_content_filter():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}}
    reader = StreamReader()
    chunks = read(reader, blocked)
    assert [choice["delta"] for choice in choices(chunks)] == [{"role": "assistant", "content": ""}, {}]
    assert choices(chunks)[-1]["finish_reason"] == "content_filter"
    assert [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage] == [4]


def test_events_without_content_yield_no_chunks():
    reader = StreamReader()
    assert read(reader, {}, {"candidates": []}, {"modelVersion": "x"}, text_response(""), {"candidates": [{}]}) == []
    assert not reader.has_passed_on


@pytest.mark.parametrize(
    "data",
    [
        b'{"x":"\xff"}',
        b'{"x":' * 100_000,
        b'{"x":NaN}',
        b'{"candidates":[1]}',
        b'{"candidates":{"a":1}}',
        b'{"candidates":[{"content":{"parts":[{"text":5}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":5}}]}}]}',
        b'{"candidates":[{"logprobsResult":7}]}',
        b'{"candidates":[{"logprobsResult":{"chosenCandidates":[{"token":"a","logProbability":[]}]}}]}',
    ],
    ids=[
        "not UTF-8",
        "too deep",
        "NaN",
        "no candidate",
        "an object of candidates",
        "text is a number",
        "a call without a name",
        "a call of a number",
        "logprobs are a number",
        "a probability is a list",
    ],
)
def test_text_before_a_malformed_event_is_passed_on(data):
    reader = StreamReader()
    chunks, failure = reader.read_events(
        [json.dumps(text_response("a")).encode(), data, json.dumps(text_response("b")).encode()]
    )
    assert [chunk.text_bytes for chunk in chunks] == [0, 1]
    assert type(failure) is UnusableResponse
    assert (reader.has_passed_on, reader.finish_reason) == (True, None)


def test_error_event_keeps_its_status():
    chunks, failure = StreamReader().read_events([json.dumps(error(503, "UNAVAILABLE", "The model is overloaded.")).encode()])
    assert chunks == []
    assert isinstance(failure, InBandError)
    assert (failure.status, str(failure)) == (503, "The model is overloaded.")


TEXT = st.text(max_size=6, alphabet=st.characters(exclude_categories=["Cs"]))
PARTS = st.one_of(
    st.builds(lambda text: {"text": text}, TEXT),
    st.builds(thought_part, TEXT),
    st.builds(call, st.sampled_from(["f", "g"]), st.dictionaries(TEXT, TEXT, max_size=2)),
)
STREAMS = st.lists(st.lists(PARTS, max_size=3).map(lambda parts: response(*parts, usage=USAGE)), max_size=4)


@given(STREAMS, st.data())
def test_stream_split_anywhere_yields_the_same_text(responses, data):
    body = events(*responses, response(finish="STOP", usage=USAGE))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    def chunks_of(*pieces):
        decoder, reader, chunks = sse.Decoder(1_000_000), StreamReader(), []
        for piece in pieces:
            brought, failure = reader.read_events(decoder.feed(piece))
            assert failure is None
            chunks += brought
        return [_without_ids(chunk) for chunk in [*chunks, *reader.last()]]

    assert chunks_of(*pieces) == chunks_of(body)


def _without_ids(chunk):
    [choice] = json.loads(chunk.choices) or [{}]
    for made in choice.get("delta", {}).get("tool_calls", []):
        assert made.pop("id").startswith("call_")
    return choice, chunk.text_bytes, chunk.has_finish_reason, chunk.usage


# --- Whole replies -----------------------------------------------------------------------------------------------


def test_text_parts_are_joined_and_thoughts_are_separate():
    made = answer(thought_part("Hm. "), thought_part("Yes."), {"text": "Hello "}, {"text": "you"}, finish="STOP", usage=USAGE)
    assert made.choices == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello you",
                "refusal": None,
                **reasoning("Hm. Yes.", "google-gemini-v1"),
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.text_bytes) == (9, 2, 17)


def test_function_calls_become_tool_calls_with_ids_and_signatures():
    made = answer(call("find", {"q": [1, None]}, SIGNATURE), call("now"), finish="STOP")
    [choice] = made.choices
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    first, second = choice["message"]["tool_calls"]
    assert first["function"] == {"name": "find", "arguments": '{"q":[1,null]}'}
    assert first["extra_content"] == {"google": {"thought_signature": SIGNATURE}}
    assert "extra_content" not in second
    assert first["id"] != second["id"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("LANGUAGE", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("OTHER", "content_filter"),
        ("FINISH_REASON_UNSPECIFIED", "stop"),
        ("SOMETHING_NEW", "stop"),
        (None, "stop"),
    ],
)
def test_every_finish_reason_is_translated(theirs, ours):
    assert answer({"text": "a"}, finish=theirs).choices[0]["finish_reason"] == ours


@pytest.mark.parametrize("theirs", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE"])
def test_a_call_that_is_none_is_a_failure(theirs):
    with pytest.raises(InBandError, match=theirs) as caught:
        answer({"text": "a"}, finish=theirs)
    assert caught.value.status == 500


def test_call_cut_off_at_the_limit_finishes_with_length():
    assert answer(call("f"), finish="MAX_TOKENS").choices[0]["finish_reason"] == "length"


def test_limit_used_up_by_thoughts_is_an_empty_reply():
    made = answer(finish="MAX_TOKENS", usage={"promptTokenCount": 4, "thoughtsTokenCount": 6, "totalTokenCount": 10})
    assert made.choices[0]["message"]["content"] == ""
    assert made.choices[0]["finish_reason"] == "length"
    assert (made.usage.completion_tokens, made.usage.reasoning_tokens) == (6, 6)


def test_whole_reply_to_a_blocked_prompt_is_empty_with_content_filter():
    made = parse_reply(b'{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":3}}')
    assert made.choices[0]["message"]["content"] == ""
    assert made.choices[0]["finish_reason"] == "content_filter"
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (3, 0)


def test_logprobs_are_translated():
    chosen = [{"token": "Hé", "tokenId": 1, "logProbability": -0.5}, {"token": "!", "tokenId": 2, "logProbability": -1.5}]
    top = [{"candidates": [chosen[0], {"token": "Yo", "tokenId": 3, "logProbability": -2.5}]}]
    body = response({"text": "Hé!"}, finish="STOP")
    body["candidates"][0]["logprobsResult"] = {"chosenCandidates": chosen, "topCandidates": top}
    [choice] = parse_reply(json.dumps(body).encode()).choices
    first = {"token": "Hé", "logprob": -0.5, "bytes": [72, 195, 169]}
    yo = {"token": "Yo", "logprob": -2.5, "bytes": [89, 111]}
    last = {"token": "!", "logprob": -1.5, "bytes": [33], "top_logprobs": []}
    assert choice["logprobs"] == {"content": [{**first, "top_logprobs": [first, yo]}, last], "refusal": None}


def test_lone_surrogate_becomes_a_question_mark():
    body = b'{"candidates":[{"content":{"parts":[{"text":"a\\ud83d"}]},"finishReason":"MAX_TOKENS"}]}'
    assert parse_reply(body).choices[0]["message"]["content"] == "a?"


def test_arguments_with_a_lone_surrogate_are_kept():
    call = b'{"functionCall":{"name":"f","args":{"q":"a\\ud83d"}}}'
    body = b'{"candidates":[{"content":{"parts":[%s]},"finishReason":"STOP"}]}' % call
    [called] = parse_reply(body).choices[0]["message"]["tool_calls"]
    assert json.loads(called["function"]["arguments"]) == {"q": "a?"}
    [delta] = [each["delta"] for each in choices(StreamReader().read_events([body])[0]) if "tool_calls" in each["delta"]]
    [called] = delta["tool_calls"]
    assert json.loads(called["function"]["arguments"]) == {"q": "a\ud83d"}


@pytest.mark.parametrize("body", [b"{}", b'{"candidates":[]}', b'{"usageMetadata":{}}', b"null", b"[]", b"<html>", b""])
def test_reply_without_candidates_is_unusable(body):
    with pytest.raises(UnusableResponse, match="are not a response"):
        parse_reply(body)


# --- Usage -------------------------------------------------------------------------------------------------------


def counted(**counts):
    usage = Report(GEMINI).add(counts)
    return (
        None if usage is None else (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens)
    )


def test_thoughts_are_added_unless_the_total_includes_them():
    assert counted(promptTokenCount=10, candidatesTokenCount=5, thoughtsTokenCount=7, totalTokenCount=22) == (10, 12, 0, 7)
    assert counted(promptTokenCount=10, candidatesTokenCount=12, thoughtsTokenCount=7, totalTokenCount=22) == (10, 12, 0, 7)
    assert counted(promptTokenCount=10, candidatesTokenCount=5, thoughtsTokenCount=7) == (10, 12, 0, 7)


def test_tool_use_prompt_tokens_are_prompt_tokens():
    tools = {"promptTokenCount": 10, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 5}
    assert counted(**tools, totalTokenCount=18) == (13, 5, 0, 0)
    assert counted(**tools, thoughtsTokenCount=2, totalTokenCount=20) == (13, 7, 0, 2)
    assert counted(**tools, thoughtsTokenCount=2, totalTokenCount=18) == (13, 5, 0, 2)


@pytest.mark.parametrize(("cached", "of_it"), [(4, 4), (10, 10), (11, 10), (-1, 0), ("4", 4), ("four", 0), (None, 0)])
def test_cached_tokens_are_at_most_the_prompt(cached, of_it):
    assert counted(promptTokenCount=10, candidatesTokenCount=1, cachedContentTokenCount=cached) == (10, 1, of_it, 0)


def test_missing_counts_are_zero():
    assert counted(promptTokenCount=0) == (0, 0, 0, 0)
    assert counted(promptTokenCount=1_000_000_000) == (1_000_000_000, 0, 0, 0)


@pytest.mark.parametrize("value", [-1, 1.5, "nine", True, [], 1_000_000_001])
@pytest.mark.parametrize("name", ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"])
def test_impossible_count_makes_the_usage_invalid(name, value):
    assert Report(GEMINI).add({"promptTokenCount": 9, "candidatesTokenCount": 2, name: value}) is None


@pytest.mark.parametrize("metadata", [None, [], "9", {}, {"candidatesTokenCount": 2}, {"totalTokenCount": 11}])
def test_usage_without_a_prompt_count_is_invalid(metadata):
    assert Report(GEMINI).add(metadata) is None


# --- Refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (error(400, "INVALID_ARGUMENT"), 400),
        (BAD_KEY, 403),
        ([BAD_KEY], 403),
        (error(400, "INVALID_ARGUMENT", "API Key not found. Please pass a valid API key."), 403),
        (error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), 403),
        ({"error": "as text"}, 400),
        ({"error": {"message": 5, "details": 7}}, 400),
        ([], 400),
        ("text", 400),
    ],
    ids=["theirs", "key", "key in a list", "key in words", "place", "text", "odd", "list", "no object"],
)
def test_400_about_our_account_becomes_403(body, status):
    assert read_refusal(400, json.dumps(body).encode()) == (status, "")


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_malformed_refusal_keeps_its_status(body):
    assert read_refusal(429, body) == (429, "")


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("58s", "58"),
        ("58.934310785s", "59"),
        ("0s", "0"),
        ("0.2s", "1"),
        ("soon", ""),
        ("-3s", ""),
        ("", ""),
        (7, "7"),
        (None, ""),
    ],
)
def test_wait_is_read_from_retry_info(delay, seconds):
    assert read_refusal(429, json.dumps(exhausted(delay)).encode()) == (429, seconds)
