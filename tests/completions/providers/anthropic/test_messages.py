"""OpenAI's messages translated into Anthropic's system blocks and turns."""

import pytest

from completions.providers.anthropic import messages
from gateway_project.errors import InvalidRequest
from tests.completions.providers.chat_requests import HELLO, make_request

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="


def instructions(*given):
    return messages.instructions(make_request(*given).messages)


def turns(*given):
    return messages.conversation(make_request(*given).messages)


def text(value, **fields):
    return {"type": "text", "text": value, **fields}


def test_instructions_are_collected_in_order_from_all_messages():
    late = {"role": "developer", "content": [text("Be kind."), text("")]}
    given = [{"role": "system", "content": "Be brief."}, HELLO, late, {"role": "system", "content": ""}]
    assert instructions(*given) == [text("Be brief."), text("Be kind.")]
    assert turns(*given) == [{"role": "user", "content": [text("Hello")]}]


def test_no_instructions_without_system_messages():
    assert instructions(HELLO) == []


def test_consecutive_messages_of_one_role_become_one_turn():
    assert turns(HELLO, HELLO, {"role": "assistant", "content": "Hi"}, {"role": "assistant", "content": "!"}, HELLO) == [
        {"role": "user", "content": [text("Hello"), text("Hello")]},
        {"role": "assistant", "content": [text("Hi"), text("!")]},
        {"role": "user", "content": [text("Hello")]},
    ]


def test_empty_text_and_empty_messages_are_left_out():
    empty = [{"role": "assistant", "content": ""}, {"role": "assistant", "content": []}, {"role": "user", "content": ""}]
    assert turns(HELLO, *empty, {"role": "user", "content": [text(""), text(" \n")]}) == [
        {"role": "user", "content": [text("Hello")]}
    ]


@pytest.mark.parametrize(("given", "sent"), [("The answer is: \n", "The answer is:"), ("x", "x")])
def test_prefilled_reply_ends_without_white_space(given, sent):
    assert turns(HELLO, {"role": "assistant", "content": given})[-1] == {"role": "assistant", "content": [text(sent)]}


def test_prefilled_reply_of_white_space_is_left_out():
    assert turns(HELLO, {"role": "assistant", "content": " \n"}) == [{"role": "user", "content": [text("Hello")]}]
    assert turns(HELLO, {"role": "assistant", "content": " "}, HELLO) == [{"role": "user", "content": [text("Hello")] * 2}]


def test_images_and_documents_are_sent_as_base64():
    parts = [
        text("What is this?"),
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "bill.pdf"}},
        {"type": "file", "file": {"file_data": PDF}},
    ]
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    assert turns({"role": "user", "content": parts})[0]["content"] == [
        text("What is this?"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {**document, "title": "bill.pdf"},
        document,
    ]


# --- Tools -------------------------------------------------------------------------------------------------------


def calling(*calls):
    tool_calls = [
        {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": arguments}}
        for call_id, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def result(tool_id, content):
    return {"role": "tool", "tool_call_id": tool_id, "content": content}


def test_tool_calls_and_results_become_blocks_of_two_turns():
    called = calling(("a", '{"city":"Köln"}'), ("call|b", ""))
    conversation = [HELLO, called, result("a", "12 °C"), result("call|b", [text("cloudy"), text("")]), HELLO]
    assert turns(*conversation)[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Köln"}},
                {"type": "tool_use", "id": "call_b", "name": "weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("12 °C")]},
                {"type": "tool_result", "tool_use_id": "call_b", "content": [text("cloudy")]},
                text("Hello"),
            ],
        },
    ]


def test_empty_tool_result_is_sent_without_content():
    assert turns(HELLO, calling(("a", "{}")), result("a", ""))[-1]["content"] == [{"type": "tool_result", "tool_use_id": "a"}]


def test_text_comes_before_the_call_of_the_same_message():
    blocks = turns(HELLO, {**calling(("a", "{}")), "content": "Let me see. "})[-1]["content"]
    assert [block["type"] for block in blocks] == ["text", "tool_use"]


# --- Refusals ----------------------------------------------------------------------------------------------------


def part(**fields):
    return {"role": "user", "content": [text("x"), fields]}


def call(**fields):
    tool_call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **fields}
    return {"role": "assistant", "tool_calls": [tool_call]}


def custom_call():
    return call(type="custom", custom={"name": "sql", "input": "SELECT 1"})


def old_call():
    return {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}


IMAGE, FILE = "messages[0].content[1].image_url", "messages[0].content[1].file"
REFUSED = {
    "instructions alone": ({"role": "system", "content": "x"}, "messages"),
    "empty conversation": ({"role": "user", "content": ""}, "messages"),
    "image address": (part(type="image_url", image_url={"url": "https://example.org/a.png"}), f"{IMAGE}.url"),
    "image type": (part(type="image_url", image_url={"url": "data:image/tiff;base64,eA=="}), f"{IMAGE}.url"),
    "file without media type": (part(type="file", file={"file_data": "JVBERi0="}), f"{FILE}.file_data"),
    "file that is not a PDF": (part(type="file", file={"file_data": "data:text/plain;base64,eA=="}), f"{FILE}.file_data"),
    "file not in base64": (part(type="file", file={"file_data": "data:application/pdf,x"}), f"{FILE}.file_data"),
    "audio": (part(type="input_audio", input_audio={"data": "", "format": "wav"}), "messages[0].content[1].type"),
    "role function": ({"role": "function", "name": "f", "content": "x"}, "messages[0].role"),
    "function_call": (old_call(), "messages[0].function_call"),
    "custom tool call": (custom_call(), "messages[0].tool_calls[0].type"),
}


@pytest.mark.parametrize(("message", "param"), REFUSED.values(), ids=REFUSED)
def test_message_without_a_counterpart_is_refused_by_path(settings, message, param):
    settings.REQUEST_REMOTE_IMAGES = True
    request = make_request(message)
    with pytest.raises(InvalidRequest) as refusal:
        messages.conversation(request.messages)
    assert refusal.value.param == param
    assert refusal.value.message.startswith(param)


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"x"', "[" * 90_000], ids=lambda value: value[:4])
def test_arguments_that_are_not_a_json_object_are_refused(arguments):
    request = make_request(HELLO, call(function={"name": "f", "arguments": arguments}))
    with pytest.raises(InvalidRequest) as refusal:
        messages.conversation(request.messages)
    assert refusal.value.param == "messages[1].tool_calls[0].function.arguments"
