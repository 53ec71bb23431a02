"""The one form of thoughts, tool calls and finish reasons, in whole messages and in streams however they are cut."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.providers.openai.normal_form import ChoiceNormalizer
from tests.chat import reasoning


def whole(**message):
    return ChoiceNormalizer().message(message)


def streamed(*deltas):
    """Return the deltas in the normal form; the last one finishes the choice."""
    normalizer = ChoiceNormalizer()
    last = len(deltas) - 1
    return [normalizer.delta(delta, is_last=index == last) for index, delta in enumerate(deltas)]


def joined(deltas, field):
    return "".join(delta.get(field) or "" for delta in deltas)


# --- Thoughts ----------------------------------------------------------------------------------------------------

TAGGED = {
    "thoughts": ("<think>\nLet me see.\n</think>\n\nHello", "Let me see.\n", "Hello"),
    "no thoughts": ("<think>\n\n</think>\n\nHello", "", "Hello"),
    "never closed": ("<think>Let me < see </thin", "Let me < see </thin", ""),
    "closed at the end": ("<think>Yes</think>", "Yes", ""),
    "thought twice": ("<think>a</think>b<think>c</think>d", "a", "b<think>c</think>d"),
    "in the middle": ("Use <think>a</think>", "", "Use <think>a</think>"),
    "after white space": ("\n <think>a</think>b", "a", "b"),
    "after much white space": ("\n" * 99 + "<think>a</think>", "", "\n" * 99 + "<think>a</think>"),
    "white space and no tag": ("\n\n a", "", "\n\n a"),
    "white space alone": ("\n\n", "", "\n\n"),
    "white space and the start of a tag": ("\n<thi", "", "\n<thi"),
    "another tag": ("<thinking>a</thinking>", "", "<thinking>a</thinking>"),
    "closed without an opening": ("a</think>b", "", "a</think>b"),
    "start of a tag": ("<thin", "", "<thin"),
    "tag alone": ("<think>", "", ""),
    "empty": ("", "", ""),
    "tags in thoughts": ("<think>a <think> b</ think> c</think>d", "a <think> b</ think> c", "d"),
    "several closings": ("<think>a<</</think></think>", "a<</", "</think>"),
    "gpt-oss at Bedrock": ("<reasoning>Let me see.</reasoning>Hello", "Let me see.", "Hello"),
    "Google's endpoint for OpenAI's clients": ("<thought>Let me see.\n</thought>Hello", "Let me see.\n", "Hello"),
    "closed by the tag of another": ("<reasoning>a</think></thought>b</reasoning>c", "a</think></thought>b", "c"),
    "reasoning in the middle": ("Use <reasoning>a</reasoning>", "", "Use <reasoning>a</reasoning>"),
    "reasoning never closed": ("\n<reasoning>a</reason", "a</reason", ""),
    "start of either tag": ("<th", "", "<th"),
    "a longer name": ("<reasonings>a</reasonings>", "", "<reasonings>a</reasonings>"),
}


@pytest.mark.parametrize(("text", "thoughts", "content"), TAGGED.values(), ids=TAGGED.keys())
def test_tags_at_the_start_become_thoughts(text, thoughts, content):
    message = whole(content=text)
    assert (message.get("reasoning_content", ""), message["content"]) == (thoughts, content)


@pytest.mark.parametrize(("text", "thoughts", "content"), TAGGED.values(), ids=TAGGED.keys())
def test_a_stream_agrees_with_the_whole_reply_a_letter_at_a_time(text, thoughts, content):
    deltas = streamed({"role": "assistant", "content": ""}, *({"content": letter} for letter in text), {})
    assert (joined(deltas, "reasoning_content"), joined(deltas, "content")) == (thoughts, content)


TAGS = ["<think>", "</think>", "<reasoning>", "</reasoning>", "<thought>"]
PIECES = st.lists(st.sampled_from([*TAGS, "<thi", "nk>", "</", "think>", "</reas", "oning>", "\n", "a", "<", ""]), max_size=8)


@given(PIECES)
def test_a_stream_agrees_with_the_whole_reply_however_it_is_cut(pieces):
    message, deltas = whole(content="".join(pieces)), streamed(*({"content": piece} for piece in pieces), {})
    assert joined(deltas, "reasoning_content") == message.get("reasoning_content", "")
    assert joined(deltas, "content") == message["content"]


def test_thoughts_are_passed_on_as_they_arrive():
    deltas = streamed({"content": "<think>"}, {"content": "a"}, {"content": "b</thi"}, {"content": "nk>c"}, {})
    assert [delta.get("reasoning_content") for delta in deltas] == [None, "a", "b", None, None]
    assert [delta.get("content") for delta in deltas] == ["", "", "", "c", None]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_thoughts_of_any_field_are_reasoning_content(name):
    assert whole(content="a", **{name: "b"}) == {"role": "assistant", "content": "a", **reasoning("b")}
    assert streamed({name: "b"}, {"content": "a"}) == [reasoning("b"), {"content": "a"}]


def test_thoughts_in_both_fields_are_the_same():
    assert whole(content="a", reasoning="b", reasoning_content="b")["reasoning_content"] == "b"
    assert whole(content="a", reasoning="c", reasoning_content="b")["reasoning"] == "b"
    assert "reasoning" not in whole(content="a", reasoning=None)


def sealed(given):
    return f"sealed {json.dumps(given)}"


def test_details_of_an_upstream_are_its_own_with_their_secrets_sealed():
    signed = {"type": "reasoning.text", "text": "b", "signature": "s", "format": "anthropic-claude-v1", "index": 0}
    hidden = {"type": "reasoning.encrypted", "data": "d", "format": "openai-responses-v1", "id": "rs_1", "index": 1}
    message = ChoiceNormalizer(sealed).message({"content": "a", "reasoning": "b", "reasoning_details": [signed, hidden]})
    details = [{**signed, "signature": sealed({"detail": signed})}, {**hidden, "data": sealed({"detail": hidden})}]
    assert message == {"role": "assistant", "content": "a", **reasoning("b"), "reasoning_details": details}


def test_a_secret_in_a_stream_is_sealed_with_the_text_that_came_before():
    normalizer = ChoiceNormalizer(sealed)
    for piece in ("b", "c"):
        detail = {"type": "reasoning.text", "text": piece, "index": 0}
        assert normalizer.delta({"reasoning": piece, "reasoning_details": [detail]}, is_last=False) == {
            **reasoning(piece),
            "reasoning_details": [detail],
        }
    signed = {"type": "reasoning.text", "signature": "s", "index": 0}
    assert normalizer.delta({"reasoning_details": [signed]}, is_last=False) == {
        "reasoning_details": [{**signed, "signature": sealed({"detail": {**signed, "text": "bc"}})}]
    }


@pytest.mark.parametrize("details", ["x", [7], {"x": 1}, [None]])
def test_details_that_are_none_are_dropped(details):
    assert not whole(content="a", reasoning_details=details).get("reasoning_details")


def test_thoughts_are_text_whatever_the_other_field_is():
    assert whole(content="a", reasoning="b", reasoning_content={"x": 1})["reasoning_content"] == "b"
    assert whole(content="a", reasoning={"x": 1}, reasoning_content="b")["reasoning_content"] == "b"


def test_tags_are_content_where_thoughts_have_a_field():
    assert whole(content="<think>a</think>", reasoning="b")["content"] == "<think>a</think>"
    deltas = streamed({"content": "<th"}, {"reasoning": "b"}, {"content": "<think>a"}, {})
    assert (joined(deltas, "content"), joined(deltas, "reasoning_content")) == ("<th<think>a", "b")


# --- Content -----------------------------------------------------------------------------------------------------

THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}


def test_parts_become_text():
    parts = [THINKING, {"type": "text", "text": "He"}, {"type": "reference", "reference_ids": [1]}, "llo"]
    assert whole(content=parts) == {"role": "assistant", "content": "Hello", **reasoning("bc")}
    assert streamed({"content": [THINKING]}, {"content": [{"type": "text", "text": "Hello"}]}) == [
        {"content": "", **reasoning("bc")},
        {"content": "Hello"},
    ]
    assert whole(content=[{"type": "thinking", "thinking": "b"}])["reasoning_content"] == "b"


def test_content_of_a_whole_message_may_be_null_and_is_always_there():
    assert whole(content=None)["content"] is None
    assert whole(refusal="no") == {"role": "assistant", "content": None, "refusal": "no"}


@pytest.mark.parametrize("message", [{"content": 7}, {"content": [7]}, {"content": "", "tool_calls": [7]}, {"tool_calls": 7}])
def test_what_is_no_message_raises(message):
    for read in (lambda: ChoiceNormalizer().message(message), lambda: ChoiceNormalizer().delta(message, is_last=True)):
        with pytest.raises((AttributeError, TypeError)):
            read()


# --- Tool calls --------------------------------------------------------------------------------------------------


def call(index=None, call_id=None, name=None, arguments=None):
    """Return a delta of a tool call with the fields that are not None."""
    function = {"name": name, "arguments": arguments}
    fields = {"index": index, "id": call_id, "function": {key: value for key, value in function.items() if value is not None}}
    return {key: value for key, value in fields.items() if value is not None}


def assembled(*events):
    """Return the calls, as (id, name, arguments), as a client of OpenAI's API puts them together from events."""
    calls: dict[int, list[str]] = {}
    for delta in streamed(*({"tool_calls": event} for event in events), {}):
        for each in delta.get("tool_calls", []):
            parts = calls.setdefault(each["index"], ["", "", ""])
            parts[0] += each.get("id") or ""
            parts[1] += each["function"].get("name") or ""
            parts[2] += each["function"].get("arguments") or ""
    assert list(calls) == list(range(len(calls)))
    return [tuple(parts) for parts in calls.values()]


TWO = [("a", "f", '{"x":1}'), ("b", "f", "{}")]
TOOL_STREAMS = {
    "openai": [[call(0, "a", "f", "")], [call(0, None, None, '{"x"')], [call(0, None, None, ":1}")], [call(1, "b", "f", "{}")]],
    "interleaved": [
        [call(0, "a", "f", "")],
        [call(1, "b", "f", "")],
        [call(0, arguments='{"x":1}')],
        [call(1, arguments="{}")],
    ],
    "without index, whole calls": [[call(None, "a", "f", '{"x":1}'), call(None, "b", "f", "{}")]],
    "without index, in pieces": [[call(None, "a", "f", '{"x"')], [call(None, arguments=":1}")], [call(None, "b", "f", "{}")]],
    "without index, id repeated": [[call(None, "a", "f", '{"x"')], [call(None, "a", "f", ":1}")], [call(None, "b", "f", "{}")]],
    "index 0 for all": [[call(0, "a", "f", '{"x":1}')], [call(0, "b", "f", "{}")]],
    "index 0 for all at once": [[call(0, "a", "f", '{"x":1}'), call(0, "b", "f", "{}")]],
    "id and name in every piece": [[call(0, "a", "f", '{"x"')], [call(0, "a", "f", ":1}")], [call(1, "b", "f", "{}")]],
    "empty id and name in pieces": [[call(0, "a", "f", '{"x"')], [call(0, "", "", ":1}")], [call(1, "b", "f", "{}")]],
    "another id in every piece": [[call(0, "a", "f", '{"x"')], [call(0, "z", None, ":1}")], [call(1, "b", "f", "{}")]],
    "numbered from 1": [[call(1, "a", "f", '{"x":1}')], [call(2, "b", "f", "{}")]],
    "name after the id": [[call(0, "a", None, "")], [call(0, None, "f", '{"x":1}')], [call(1, "b", "f", "{}")]],
    "arguments as an object": [[call(None, "a", "f", {"x": 1})], [call(None, "b", "f", {})]],
}


@pytest.mark.parametrize("events", TOOL_STREAMS.values(), ids=TOOL_STREAMS.keys())
def test_streamed_tool_calls_are_put_together_right(events):
    assert assembled(*events) == TWO


def test_calls_without_an_id_get_one():
    [(one, *first), (other, *second)] = assembled([call(0, "", "f", "{}"), call(0, "", "g", "{}")])
    assert one.startswith("call_")
    assert other.startswith("call_")
    assert one != other
    assert (first, second) == (["f", "{}"], ["g", "{}"])
    [made] = whole(tool_calls=[{"function": {"name": "f", "arguments": {"x": 1}}}])["tool_calls"]
    assert made.pop("id").startswith("call_")
    assert made == {"type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}


def test_a_different_name_after_arguments_begins_another_call():
    named = [(name, arguments) for _, name, arguments in assembled([call(0, None, "f", "{}")], [call(0, None, "g", "{}")])]
    assert named == [("f", "{}"), ("g", "{}")]


@pytest.mark.parametrize(
    "events",
    [
        [[call(0, None, "f", '{"x":1}')], [call(0, None, "f", "{}")]],
        [[call(0, None, "f", '{"x":1}')], [call(0, None, None, "")], [call(0, None, "f", "{}")]],
        [[call(0, None, "f", "")], [call(0, None, None, '{"x"')], [call(0, None, None, ":1}")], [call(0, None, "f", "{}")]],
        [[call(0, None, "f", '{"x"')], [call(0, None, "f", ":1}")], [call(0, None, "f", "")], [call(0, None, None, "{}")]],
    ],
    ids=["whole calls", "empty piece between", "in pieces", "name in every piece"],
)
def test_a_name_after_complete_arguments_begins_another_call(events):
    (one, *first), (other, *second) = assembled(*events)
    assert (first, second) == (["f", '{"x":1}'], ["f", "{}"])
    assert one != other


@pytest.mark.parametrize("pieces", [['{"x":', '"}', '"}'], ["1", "2"], ['{"x":' * 99_999 + "}", "}"]])
def test_a_name_after_incomplete_arguments_does_not(pieces):
    [(_, name, arguments)] = assembled(*([call(0, None, "f", piece)] for piece in pieces))
    assert (name, arguments) == ("f", "".join(pieces))


def test_a_call_with_an_id_goes_on_without_it():
    assert assembled([call(0, "a", "f", "{}")], [call(0, None, "f", "")]) == [("a", "f", "{}")]


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "arguments": None}, {"name": "f", "arguments": ""}])
def test_a_whole_call_without_arguments_has_empty_ones(function):
    [made] = whole(tool_calls=[{"id": "a", "function": function}])["tool_calls"]
    assert made == {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}


def test_first_delta_of_a_call_has_its_type_and_later_ones_do_not():
    first, second = itertools.chain(
        *(
            delta["tool_calls"]
            for delta in streamed({"tool_calls": [call(0, "a", "f", "")]}, {"tool_calls": [call(0, "a", "f", "x")]})
        )
    )
    assert first == {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert second == {"index": 0, "function": {"arguments": "x"}}


def test_custom_tool_calls_keep_their_type_and_input():
    custom = {"id": "a", "custom": {"name": "f", "input": "x"}}
    assert whole(tool_calls=[custom])["tool_calls"] == [{**custom, "type": "custom"}]
    [delta] = streamed({"tool_calls": [custom]})
    assert delta["tool_calls"] == [{**custom, "type": "custom", "index": 0}]


# --- Finish reasons ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "theirs", "ours"),
    [
        ({"content": "a"}, "stop", "stop"),
        ({"content": "a"}, None, "stop"),
        ({"content": "a"}, "", "stop"),
        ({"content": "a"}, "length", "length"),
        ({"content": "a"}, "model_length", "length"),
        ({"content": "a"}, "theirs", "stop"),
        ({"tool_calls": [call(0, "a", "f", "{}")]}, "stop", "tool_calls"),
        ({"tool_calls": [call(0, "a", "f", "{}")]}, None, "tool_calls"),
        ({"tool_calls": [call(0, "a", "f", "{}")]}, "length", "length"),
        ({"tool_calls": []}, "stop", "stop"),
        ({"function_call": {"name": "f", "arguments": "{}"}}, "stop", "function_call"),
    ],
)
def test_finish_reason_is_one_of_openais(message, theirs, ours):
    for is_whole in (True, False):
        normalizer = ChoiceNormalizer()
        normalizer.message(message) if is_whole else normalizer.delta(message, is_last=True)
        assert normalizer.finish_reason(theirs) == ours
