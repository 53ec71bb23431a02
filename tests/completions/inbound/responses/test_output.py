"""A stream of OpenAI's events says what the whole reply does, however it is cut: OpenAI's own SDK puts it together."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.inbound.events import as_json, parse_choices
from completions.inbound.responses import output
from completions.inbound.responses.output import Output
from tests.completions.inbound.responses.put_together import arguments, begun, delta, put_together, texts

OPEN = {"response.output_item.added": 1, "response.output_item.done": -1}


def events_of(*choices: dict[str, Any]) -> tuple[list[dict[str, Any]], Output]:
    """Return the events of a stream of these choices, to its end, and its output."""
    written = Output("x_", {})
    events = [event for choice in choices for event in written.read(choice)] + written.end()
    return [json.loads(as_json(event)) for event in events], written


def said_by_deltas(events: list[dict[str, Any]]) -> dict[int, str]:
    """Return the text of each item, from its deltas."""
    texts: dict[int, str] = {}
    for event in events:
        if event["type"].endswith(".delta"):
            texts[event["output_index"]] = texts.get(event["output_index"], "") + event["delta"]
    return texts


def text_of(item: dict[str, Any]) -> str:
    match item["type"]:
        case "reasoning":
            return item["summary"][0]["text"]
        case "message":
            [part] = item["content"]
            return part[part["type"].removeprefix("output_")]
        case "function_call":
            return item["arguments"]
        case _:
            return item["input"]


def more(index: int, arguments: str) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "function": {"arguments": arguments}}])


def custom(index: int, given: str) -> dict[str, Any]:
    return delta(
        tool_calls=[{"index": index, "id": f"call_{index}", "type": "custom", "custom": {"name": "p", "input": given}}]
    )


def finished(reason: str) -> dict[str, Any]:
    return {"index": 0, "delta": {}, "finish_reason": reason}


cuts = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def pieces(text: str, sizes: list[int]) -> list[str]:
    """Cut a text into pieces of these sizes, again and again."""
    cut, number = [], 0
    while text:
        size = sizes[number % len(sizes)]
        cut.append(text[:size])
        text, number = text[size:], number + 1
    return cut


@given(st.none() | texts, st.none() | texts, st.none() | texts, st.lists(arguments, max_size=3), cuts, st.randoms())
def test_a_stream_says_what_the_whole_reply_says(thought, text, refusal, given, sizes, random):
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": f"f{index}", "arguments": json.dumps(each)}}
        for index, each in enumerate(given)
    ]
    message = {"reasoning_content": thought, "content": text, "refusal": refusal, "tool_calls": calls}
    replied = output.Output("x_", {})
    replied.read_whole({"message": message, "finish_reason": "stop"})
    whole = replied.items()

    said = [delta(reasoning_content=piece) for piece in pieces(thought or "", sizes)]
    said += [delta(content=piece) for piece in pieces(text or "", sizes)]
    said += [delta(refusal=piece) for piece in pieces(refusal or "", sizes)]
    # Calls begin in order, and their arguments may come in turns.
    waiting = [
        [begun(index), *(more(index, piece) for piece in pieces(json.dumps(each), sizes))] for index, each in enumerate(given)
    ]
    said += [each.pop(0) for each in waiting]
    while any(waiting):
        said.append(random.choice([each for each in waiting if each]).pop(0))
    events, written = events_of(*said)
    assert put_together(events, whole) == written.items() == whole
    assert said_by_deltas(events) == dict(enumerate(map(text_of, whole)))


def test_the_events_of_each_item_come_in_order():
    events, _ = events_of(delta(reasoning_content="Hm."), delta(content="Hi"), begun(0, "{}"), begun(1), more(1, "{}"))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert [event["item"]["id"] for event in events if event["type"] in OPEN] == [
        *["rs_x_0"] * 2,
        *["msg_x_1"] * 2,
        *["fc_x_2"] * 2,
        *["fc_x_3"] * 2,
    ]
    assert all(event["logprobs"] == [] for event in events if "output_text." in event["type"])


def test_the_input_of_a_custom_tool_is_streamed_whole():
    events, written = events_of(custom(0, "*** Begin"), delta(tool_calls=[{"index": 0, "custom": {"input": " Patch"}}]))
    kinds = [event["type"] for event in events]
    assert kinds[1:4] == ["response.custom_tool_call_input.delta"] * 2 + ["response.custom_tool_call_input.done"]
    [item] = written.items()
    assert item == {
        "id": "ctc_x_0",
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": "call_0",
        "name": "p",
        "input": "*** Begin Patch",
    }


def test_an_empty_reply_has_no_items():
    events, written = events_of(delta(role="assistant", content=""), finished("stop"))
    assert (events, written.items()) == ([], [])


def test_a_call_without_arguments_has_none():
    events, written = events_of(begun(0), finished("tool_calls"))
    assert said_by_deltas(events) == {0: "{}"}
    assert written.items()[0]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("reason", "incomplete"),
    [("stop", None), ("tool_calls", None), ("length", "max_output_tokens"), ("content_filter", "content_filter")],
)
def test_it_says_what_is_incomplete(reason, incomplete):
    _, written = events_of(delta(reasoning_content="Hm."), delta(content="Hel"), finished(reason))
    first, last = written.items()
    assert (written.incomplete_reason, last["status"]) == (incomplete, "incomplete" if incomplete else "completed")
    assert "status" not in first


def test_a_call_that_is_cut_is_incomplete():
    _, written = events_of(begun(0, '{"a":1}'), begun(1, '{"a":'))
    assert [item["status"] for item in written.items(is_cut=True)] == ["completed", "incomplete"]


def test_probabilities_are_those_of_the_text():
    token = {"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}
    events, written = events_of({**delta(content="Hi"), "logprobs": {"content": [token], "refusal": None}})
    assert [event["logprobs"] for event in events if "logprobs" in event] == [[token], [token]]
    [item] = json.loads(as_json({"type": "x", "items": written.items()}))["items"]
    assert item["content"][0]["logprobs"] == [token]


def test_halves_of_an_emoji_are_sent_as_they_come_and_joined_in_the_end():
    choices = parse_choices(rb'[{"delta":{"content":"\ud83d"}},{"delta":{"content":"\ude00\ud83d"}}]')
    events, written = events_of(*choices)
    assert said_by_deltas(events) == {0: "\ud83d\ude00\ud83d"}
    assert written.items()[0]["content"][0]["text"] == "😀\ufffd"
