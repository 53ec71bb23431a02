"""A stream of Anthropic's events says what the whole reply does, however it is cut: Anthropic's own SDK puts it together."""

import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from hypothesis import given
from hypothesis import strategies as st

from completions.inbound.messages import blocks
from completions.inbound.messages.blocks import BlockStream

START = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1, "output_tokens": 0}}}


def events_of(*choices: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a stream of these choices, to its end."""
    written = BlockStream()
    raw = b"".join([*(event for choice in choices for event in written.read(choice)), *written.end()])
    *frames, rest = raw.decode().split("\n\n")
    assert rest == ""
    parsed = [json.loads(frame.partition("\ndata: ")[2]) for frame in frames]
    assert [frame.partition("\n")[0] for frame in frames] == [f"event: {event['type']}" for event in parsed]
    return parsed


def put_together(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks that the SDK reads, after the order of the events is checked."""
    open_index = None
    started = 0
    for event in events:
        if event["type"] == "content_block_start":
            assert (open_index, event["index"]) == (None, started)
            open_index, started = event["index"], started + 1
        else:
            assert event["index"] == open_index
            open_index = None if event["type"] == "content_block_stop" else open_index
    assert open_index is None
    message, buffers = None, {}
    read: list[Any] = [START, *events]
    for event in read:
        message = accumulate_event(event=event, current_snapshot=message, json_bufs=buffers)
    return [block.to_dict() for block in message.content]


def delta(**fields: Any) -> dict[str, Any]:
    return {"index": 0, "delta": fields, "finish_reason": None}


def begun(index: int, arguments: str = "") -> dict[str, Any]:
    function = {"name": f"f{index}", "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": f"call_{index}", "type": "function", "function": function}])


def more(index: int, arguments: str) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "function": {"arguments": arguments}}])


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
arguments = st.dictionaries(texts, st.one_of(texts, st.integers(-9, 9), st.lists(st.booleans(), max_size=2)), max_size=3)
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def pieces(text: str, sizes: list[int]) -> list[str]:
    """Cut a text into pieces of these sizes, again and again."""
    cut, number = [], 0
    while text:
        size = sizes[number % len(sizes)]
        cut.append(text[:size])
        text, number = text[size:], number + 1
    return cut


@given(st.none() | texts, st.none() | texts, st.lists(arguments, max_size=3), cuts, st.randoms())
def test_a_stream_says_what_the_whole_reply_says(thinking, text, given, sizes, random):
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": f"f{index}", "arguments": json.dumps(each)}}
        for index, each in enumerate(given)
    ]
    message = {"reasoning_content": thinking, "content": text, "tool_calls": calls}
    whole = blocks.message({"message": message, "finish_reason": "stop"})["content"]
    assert [block["type"] for block in whole] == ["thinking"] * bool(thinking) + ["text"] * bool(text) + ["tool_use"] * len(
        calls
    )
    assert [block["input"] for block in whole if block["type"] == "tool_use"] == given

    said = [delta(reasoning_content=piece) for piece in pieces(thinking or "", sizes)]
    said += [delta(content=piece) for piece in pieces(text or "", sizes)]
    # Calls begin in order, and their arguments may come in turns.
    waiting = [
        [begun(index), *(more(index, piece) for piece in pieces(json.dumps(each), sizes))] for index, each in enumerate(given)
    ]
    said += [each.pop(0) for each in waiting]
    while any(waiting):
        said.append(random.choice([each for each in waiting if each]).pop(0))
    assert put_together(events_of(*said)) == whole


def test_thinking_is_a_block_of_its_own_and_signed():
    events = events_of(delta(reasoning_content="Hm."), delta(content="Hi"))
    deltas = [event["delta"]["type"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == ["thinking_delta", "signature_delta", "text_delta"]
    assert [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"] == [
        "thinking",
        "text",
    ]


def test_an_empty_reply_has_no_block():
    assert events_of(delta(role="assistant", content=""), {"index": 0, "delta": {}, "finish_reason": "stop"}) == []
    assert blocks.message({"message": {"content": ""}, "finish_reason": "stop"})["content"] == []


def test_a_call_without_arguments_has_an_empty_input():
    [block] = put_together(events_of(begun(0), {"index": 0, "delta": {}, "finish_reason": "tool_calls"}))
    assert block["input"] == {}


def test_arguments_that_are_no_object_are_not_lost():
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "1 + 1"}}
    [block] = blocks.message({"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"})["content"]
    assert block["input"] == {"arguments": "1 + 1"}


def test_a_call_is_sent_as_it_arrives():
    written = BlockStream()
    assert len(written.read(begun(0))) == 1
    assert b'"partial_json":"{\\"a\\":"' in b"".join(written.read(more(0, '{"a":')))


@pytest.mark.parametrize(
    ("choice", "reason", "sequence"),
    [
        ({"finish_reason": "stop"}, "end_turn", None),
        ({"finish_reason": "length"}, "max_tokens", None),
        ({"finish_reason": "tool_calls"}, "tool_use", None),
        ({"finish_reason": "content_filter"}, "refusal", None),
        ({"finish_reason": "stop", "stop_reason": "###"}, "stop_sequence", "###"),
        ({"finish_reason": "stop", "stop_reason": 128_009}, "end_turn", None),
    ],
)
def test_it_says_why_the_model_stopped(choice, reason, sequence):
    written = BlockStream()
    written.read({"delta": {}, **choice})
    assert written.stop == {"stop_reason": reason, "stop_sequence": sequence}
    assert blocks.message({"message": {"content": "x"}, **choice})["stop_reason"] == reason


def test_a_refusal_is_text_and_the_reason():
    written = BlockStream()
    assert b"No." in b"".join(written.read(delta(refusal="No.")))
    written.read({"delta": {}, "finish_reason": "stop"})
    assert written.stop["stop_reason"] == "refusal"
