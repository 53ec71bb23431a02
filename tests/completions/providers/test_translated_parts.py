"""Parts of a conversation at Anthropic and Gemini over HTTP: round trips, whole and streamed, and refusals."""

import pytest

from tests import factories
from tests.chat import assert_error, everything_written
from tests.completions.providers.anthropic import scripts as anthropic
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.rows import ask, ask_streamed, events
from tests.upstream import KEY_ENV

PNG = "data:image/png;base64,iVBORw0KGgo="
FIND = {
    "type": "function",
    "function": {"name": "find", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}
HELLO = {"role": "user", "content": "Hello"}
KINDS = ["anthropic", "gemini"]
CALLED = {
    "anthropic": (
        anthropic.whole(
            anthropic.tool_use_block("toolu_1", "find", q="é"),
            anthropic.tool_use_block("toolu_2", "find"),
            stop_reason="tool_use",
        ),
        anthropic.streamed(
            anthropic.tool("toolu_1", "find", '{"q":', '"é"}'),
            anthropic.tool("toolu_2", "find", index=1),
            anthropic.message_delta("tool_use"),
        ),
    ),
    "gemini": (
        gemini.whole(parts=(gemini.call("find", {"q": "é"}, gemini.SIGNATURE), gemini.call("find"))),
        gemini.streamed(
            gemini.response(gemini.call("find", {"q": "é"}, gemini.SIGNATURE)),
            gemini.response(gemini.call("find"), finish="STOP", usage=gemini.USAGE),
        ),
    ),
}
SAID = {"anthropic": anthropic.whole(), "gemini": gemini.whole("Hello you")}


@pytest.fixture(params=KINDS)
def kind(request, upstream, db):
    """A model at a provider of this kind, with images and function calling."""
    upstream_model = {"anthropic": "claude-haiku-4-5", "gemini": "gemini-3.5-flash"}[request.param]
    base_url = upstream.url.removesuffix("/v1")
    provider = factories.make_provider("theirs", kind=request.param, base_url=base_url, api_key_env=KEY_ENV)
    factories.make_model(
        "acme/large", provider=provider, upstream_model=upstream_model, image_support=True, function_calling=True
    )
    upstream.will(SAID[request.param])
    return request.param


def turns(upstream, kind):
    """Return the turns of the last request to the upstream, as role and content."""
    body = upstream.requests[-1].body
    if kind == "anthropic":
        return [(turn["role"], turn["content"]) for turn in body["messages"]]
    return [(turn["role"], turn["parts"]) for turn in body["contents"]]


def whole_message(api):
    [choice] = ask(api, tools=[FIND]).json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    return choice["message"]


def streamed_message(api):
    """Return the message that a client assembles from the stream."""
    *said, done = events(ask_streamed(api, tools=[FIND]))
    assert done == "[DONE]"
    assert [event["choices"][0]["finish_reason"] for event in said if event["choices"]][-1] == "tool_calls"
    calls = {}
    for event in said:
        for piece in event["choices"][0]["delta"].get("tool_calls", []) if event["choices"] else []:
            call = calls.setdefault(piece["index"], {**piece, "function": {**piece["function"], "arguments": ""}})
            call["function"]["arguments"] += piece["function"]["arguments"]
    return {"role": "assistant", "content": None, "tool_calls": [calls[index] for index in sorted(calls)]}


def calling(arguments, **fields):
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": arguments}, **fields}
    result = {"role": "tool", "tool_call_id": "c", "content": "one"}
    return [HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}, result]


# --- Round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_tool_calls_and_results_survive_the_round_trip(api, upstream, kind, is_stream):
    upstream.will(CALLED[kind][is_stream], SAID[kind])
    message = streamed_message(api) if is_stream else whole_message(api)
    one, two = message["tool_calls"]
    assert [call["type"] for call in (one, two)] == ["function", "function"]
    assert [call["function"]["name"] for call in (one, two)] == ["find", "find"]
    assert one["function"]["arguments"].replace(" ", "") == '{"q":"é"}'
    assert one["id"] != two["id"]

    results = [
        {"role": "tool", "tool_call_id": one["id"], "content": "one"},
        {"role": "tool", "tool_call_id": two["id"], "content": [{"type": "text", "text": '{"n": 2}'}]},
    ]
    reply = ask(api, messages=[HELLO, message, *results], tools=[FIND])
    assert reply.json()["choices"][0]["message"]["content"] == "Hello you"
    assert turns(upstream, kind) == THERE[kind]


THERE = {
    "anthropic": [
        ("user", [{"type": "text", "text": "Hello"}]),
        (
            "assistant",
            [
                {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"q": "é"}},
                {"type": "tool_use", "id": "toolu_2", "name": "find", "input": {}},
            ],
        ),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "one"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": '{"n": 2}'}]},
            ],
        ),
    ],
    "gemini": [
        ("user", [{"text": "Hello"}]),
        (
            "model",
            [
                {"functionCall": {"name": "find", "args": {"q": "é"}}, "thoughtSignature": gemini.SIGNATURE},
                {"functionCall": {"name": "find", "args": {}}},
            ],
        ),
        (
            "user",
            [
                {"functionResponse": {"name": "find", "response": {"output": "one"}}},
                {"functionResponse": {"name": "find", "response": {"n": 2}}},
            ],
        ),
    ],
}


def test_consecutive_text_and_image_are_one_turn(api, upstream, kind):
    parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}]
    assert ask(api, messages=[HELLO, {"role": "user", "content": parts}]).status_code == 200
    image = {
        "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        "gemini": {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
    }[kind]
    words = [{"type": "text", "text": said} if kind == "anthropic" else {"text": said} for said in ("Hello", "What?")]
    assert turns(upstream, kind) == [("user", [*words, image])]


def test_assistant_messages_without_content_are_left_out(api, upstream, kind):
    messages = [
        HELLO,
        {"role": "assistant", "content": None, "refusal": "No.", "reasoning_content": "Hm.", "tool_calls": None},
        {"role": "assistant", "content": [], "tool_calls": None},
        {"role": "user", "content": "Why?"},
    ]
    assert ask(api, messages=messages).status_code == 200
    assert [said for _, said in turns(upstream, kind)][-1] == [
        *([{"type": "text", "text": "Hello"}] if kind == "anthropic" else [{"text": "Hello"}]),
        *([{"type": "text", "text": "Why?"}] if kind == "anthropic" else [{"text": "Why?"}]),
    ]


def test_developer_message_becomes_an_instruction(api, upstream, kind):
    messages = [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, HELLO]
    assert ask(api, messages=messages).status_code == 200
    body = upstream.requests[0].body
    instructions = body["system"] if kind == "anthropic" else body["systemInstruction"]["parts"]
    assert [each["text"] for each in instructions] == ["Be brief."]
    assert len(turns(upstream, kind)) == 1


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
def test_every_reasoning_effort_is_accepted(api, kind, effort):
    assert ask(api, reasoning_effort=effort, max_tokens=2_000).status_code == 200


@pytest.mark.parametrize("kind_of_call", [None, "function"])
def test_arguments_are_parsed_as_json(api, upstream, kind, kind_of_call):
    arguments = '{"q": "\\ud83d\\ude00"}'  # both halves of an emoji
    assert ask(api, messages=calling(arguments, type=kind_of_call)).status_code == 200
    said = turns(upstream, kind)[1][1][0]
    assert (said["input"] if kind == "anthropic" else said["functionCall"]["args"]) == {"q": "\N{GRINNING FACE}"}


def test_empty_arguments_become_an_empty_object(api, upstream, kind):
    assert ask(api, messages=calling("")).status_code == 200
    said = turns(upstream, kind)[1][1][0]
    assert (said["input"] if kind == "anthropic" else said["functionCall"]["args"]) == {}


# --- Refusals ----------------------------------------------------------------------------------------------------


ARGUMENTS = [
    '{"q": "\\ud83d"}',
    '{"q": NaN}',
    '{"q": 1e999}',
    '{"q": Infinity}',
    '{"q": "\\u0000"}',
    "[]",
    "null",
    "{",
    "[" * 90_000,
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda text: text[:20])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_invalid_arguments_are_refused_before_money_is_held(api, upstream, kind, arguments, is_stream):
    before = everything_written()
    reply = ask(api, messages=calling(arguments), stream=is_stream)
    assert_error(reply, 400, "invalid_request_error", "messages[1].tool_calls[0].function.arguments")
    assert upstream.requests == []
    assert everything_written() == before


REFUSED = {
    "an image elsewhere": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}],
        "messages[0].content[0].image_url.url",
    ),
    "a document that does not say what it is": (
        [{"role": "user", "content": [{"type": "file", "file": {"file_data": "JVBERi0="}}]}],
        "messages[0].content[0].file.file_data",
    ),
}


@pytest.mark.parametrize(("messages", "param"), REFUSED.values(), ids=REFUSED)
def test_addresses_and_untyped_files_are_refused(api, upstream, kind, settings, messages, param):
    settings.REQUEST_REMOTE_IMAGES = True
    before = everything_written()
    assert_error(ask(api, messages=messages), 400, "invalid_request_error", param)
    assert upstream.requests == []
    assert everything_written() == before


def test_custom_tool_call_is_refused(api, upstream, kind):
    messages = calling("", type="custom", custom={"name": "sql", "input": "SELECT 1"})
    before = everything_written()
    assert_error(ask(api, messages=messages), 400, "invalid_request_error", "messages[1].tool_calls[0].type")
    assert upstream.requests == []
    assert everything_written() == before
