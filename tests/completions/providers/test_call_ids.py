"""What a caller states by id stays tied by id: the results of tools, at every kind of provider."""

import re
from typing import Any

import pytest

from gateway_project.errors import InvalidRequest
from tests.completions.providers.sent import sent

HELLO = {"role": "user", "content": "Hello"}
SYSTEM = {"role": "system", "content": "Be brief."}
Message = dict[str, Any]


def calls(*ids: str, start: int = 0) -> Message:
    functions = ({"name": "get", "arguments": f'{{"n": {n}}}'} for n in range(start, start + len(ids)))
    made = [{"id": each, "type": "function", "function": function} for each, function in zip(ids, functions, strict=True)]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str, said: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": said}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


# An order of messages -> the texts and results that each provider gets after each call, "n: result" for call n of its reply.
CONVERSATIONS: dict[str, tuple[list[Message], list[str]]] = {
    "results in another order": (
        [HELLO, calls("t1", "t2"), result("t2", "two"), result("t1", "one")],
        ["Hello", "0: one", "1: two"],
    ),
    "a message of the user between": (
        [HELLO, calls("t1", "t2"), result("t2", "two"), user("Go on"), result("t1", "one")],
        ["Hello", "0: one", "1: two", "Go on"],
    ),
    "an instruction between": ([HELLO, calls("t1"), SYSTEM, result("t1", "one")], ["Hello", "0: one"]),
    "a result after a later reply": (
        [HELLO, calls("t1"), user("Go on"), {"role": "assistant", "content": "Hm."}, result("t1", "one")],
        ["Hello", "0: one", "Go on", "Hm."],
    ),
    "ids that begin anew in each reply": (
        [HELLO, calls("c0", "c1"), result("c1", "b"), result("c0", "a"), calls("c0"), result("c0", "c")],
        ["Hello", "0: a", "1: b", "0: c"],
    ),
    "a late result of an id that a later reply has too": (
        [HELLO, calls("c0"), user("Go on"), calls("c0"), result("c0", "new"), result("c0", "old")],
        ["Hello", "0: old", "Go on", "0: new"],
    ),
    "two calls of one id": ([HELLO, calls("c", "c"), result("c", "a"), result("c", "b")], ["Hello", "0: a", "1: b"]),
    "empty ids": ([HELLO, calls("", ""), result("", "a"), result("", "b")], ["Hello", "0: a", "1: b"]),
    "a result that is sent twice": (
        [HELLO, calls("t1", "t2"), result("t1", "one"), result("t1", "one"), result("t2", "two")],
        ["Hello", "0: one", "1: two"],
    ),
    "two messages of one reply": (
        [HELLO, calls("t1"), calls("t2", start=1), result("t2", "two"), result("t1", "one")],
        ["Hello", "0: one", "1: two"],
    ),
    "ids that become one": (
        [HELLO, calls("f.read:0", "f.read.0"), result("f.read.0", "b"), result("f.read:0", "a")],
        ["Hello", "0: a", "1: b"],
    ),
    "long ids that begin alike": (
        [HELLO, calls("x" * 80 + "1", "x" * 80 + "2"), result("x" * 80 + "2", "b"), result("x" * 80 + "1", "a")],
        ["Hello", "0: a", "1: b"],
    ),
}
ACCEPTED = {
    "anthropic": r"[a-zA-Z0-9_-]+",
    "openai": r".{1,40}",
    "mistral": r"[A-Za-z0-9]{9}",
    "responses": r".{1,64}",
    "own": r".+",
}


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "gemini 1.5", "openai", "mistral", "responses", "own"])
@pytest.mark.parametrize(("given", "read"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_every_result_is_read_as_that_of_its_call(provider, given, read):
    body, _ = sent(provider, messages=given)
    told = [text for text in _read(body) if text != "Be brief."]
    assert told == read
    assert all(re.fullmatch(ACCEPTED[provider], each) for each in _ids(body)) if provider in ACCEPTED else not list(_ids(body))


def _read(body: Message) -> list[str]:
    """Return the texts, and each result with the number of its call: by its id, or by its place where there are none."""
    told, open_calls = [], {}
    for kind, *said in _events(body):
        if kind == "call":
            open_calls[said[0] or len(open_calls)] = said[1]
        elif kind == "result":
            told.append(f"{open_calls.pop(said[0] or next(iter(open_calls)))}: {said[1]}")
        else:
            assert not open_calls, "the results follow their reply"
            told.append(said[0])
    assert not open_calls, "every call has its result"
    return told


def _ids(body: Message):
    return (said[0] for kind, *said in _events(body) if kind == "call" and said[0])


def _events(body: Message):
    if "input" in body:
        yield from map(_item, body["input"])
    for content in body.get("contents", ()):
        yield from map(_part, content["parts"])
    for message in body.get("messages", ()):
        if message["role"] == "tool":
            yield "result", message["tool_call_id"], _said(message["content"])
        elif isinstance(message["content"], list):
            yield from map(_block, message["content"])
        elif message["content"]:
            yield "text", message["content"]
        for call in message.get("tool_calls", ()):
            yield "call", call["id"], int(call["function"]["arguments"].strip("{}").partition(":")[2])


def _said(content):
    return content if isinstance(content, str) else content[0]["text"]


def _item(item):
    match item["type"]:
        case "function_call":
            return "call", item["call_id"], int(item["arguments"].strip("{}").partition(":")[2])
        case "function_call_output":
            return "result", item["call_id"], _said(item["output"])
    return "text", item["content"][0]["text"]


def _part(part):
    if called := part.get("functionCall"):
        return "call", called.get("id"), called["args"]["n"]
    if answered := part.get("functionResponse"):
        return "result", answered.get("id"), answered["response"]["output"]
    return "text", part["text"]


def _block(block):
    match block["type"]:
        case "tool_use":
            return "call", block["id"], block["input"]["n"]
        case "tool_result":
            return "result", block["tool_use_id"], block["content"][0]["text"]
    return "text", block["text"]


@pytest.mark.parametrize("provider", [*ACCEPTED])
def test_an_id_stays_the_same_as_the_conversation_goes_on(provider):
    given = [HELLO]
    before: list[str] = []
    for call_id in ("functions.read:0", "functions.read.0", "c0", "c0", "", "functions_read_0", "x" * 90):
        given += [calls(call_id), result(call_id, "a")]
        now = [*_ids(sent(provider, messages=given)[0])]
        assert now[:-1] == before
        before = now
    assert len(set(before)) >= len(before) - (provider == "own"), "only c0 may come twice, where any id is taken"


@pytest.mark.parametrize("provider", ["gemini", "gemini 1.5"])
def test_ids_of_other_makers_are_not_sent_to_gemini(provider):
    body, _ = sent(provider, messages=CONVERSATIONS["results in another order"][0])
    assert [*_ids(body)] == []
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]


REFUSED = {
    "no such call": ([HELLO, calls("t1"), result("t2", "x")], "messages[2].tool_call_id"),
    "a result before its call": ([HELLO, result("t1", "x"), calls("t1")], "messages[1].tool_call_id"),
    "two results that differ": ([HELLO, calls("t1"), result("t1", "x"), result("t1", "y")], "messages[3].tool_call_id"),
}


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
@pytest.mark.parametrize(("given", "param"), REFUSED.values(), ids=REFUSED)
def test_a_result_that_is_tied_to_no_call_is_refused_by_its_path(provider, given, param):
    with pytest.raises(InvalidRequest) as refusal:
        sent(provider, messages=given)
    assert refusal.value.param == param


def test_gemini_is_not_sent_some_results_of_a_reply_which_it_would_take_for_others():
    with pytest.raises(InvalidRequest) as refusal:
        sent("gemini", messages=[HELLO, calls("t1", "t2"), result("t2", "two")])
    assert refusal.value.param == "messages[1].tool_calls[0].id"


# --- Anthropic's Messages ---------------------------------------------------------------------------------------------


def use(tool_id: str, n: int = 0) -> Message:
    return {"type": "tool_use", "id": tool_id, "name": "get", "input": {"n": n}}


def used(tool_id: str, said: str) -> Message:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": [{"type": "text", "text": said}]}


BLOCKS = {
    "results in another order": ([use("a"), use("b", 1)], [used("b", "y"), used("a", "x")]),
    "ids that become one": ([use("f.r:0"), use("f.r.0", 1)], [used("f.r.0", "y"), used("f.r:0", "x")]),
    "empty ids": ([use(""), use("", 1)], [used("", "x"), used("", "y")]),
    "two calls of one id": ([use("c"), use("c", 1)], [used("c", "x"), used("c", "y")]),
}


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "mistral", "responses", "own"])
@pytest.mark.parametrize(("called", "answered"), BLOCKS.values(), ids=BLOCKS)
def test_blocks_of_messages_stay_tied(provider, called, answered):
    given = [HELLO, {"role": "assistant", "content": called}, {"role": "user", "content": answered}]
    body, _ = sent(provider, "messages", messages=[*given, *given[1:]])
    told = _read(body)
    assert (told[0], sorted(told[1:3]), sorted(told[3:])) == ("Hello", ["0: x", "1: y"], ["0: x", "1: y"])
    ids = [*_ids(body)]
    assert len(set(ids)) == len(ids) or provider == "own", "no two calls share an id"
    assert all(re.fullmatch(ACCEPTED[provider], each) for each in ids) if provider in ACCEPTED else not ids


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai", "responses"])
def test_items_of_responses_stay_tied(provider):
    function = {"type": "function_call", "name": "get"}
    called = [{**function, "call_id": each, "arguments": f'{{"n": {n}}}'} for n, each in enumerate("ab")]
    answers = [{"type": "function_call_output", "call_id": each, "output": each} for each in "ba"]
    body, _ = sent(provider, "responses", input=[HELLO, *called, *answers])
    assert _read(body) == ["Hello", "0: a", "1: b"]
