"""OpenAI's messages translated into Gemini's instructions and contents."""

import json

import pytest

from completions.providers.gemini import messages
from gateway_project.errors import InvalidRequest
from tests.completions.providers.chat_requests import HELLO, make_request
from tests.completions.providers.gemini.scripts import SIGNATURE


def instructions(*given):
    return messages.instructions(make_request(*given).messages)


def contents(*given, signs_calls=False):
    return messages.conversation(make_request(*given).messages, signs_calls=signs_calls)


def assert_refused(param, *given):
    request = make_request(*given)
    with pytest.raises(InvalidRequest) as refusal:
        messages.conversation(request.messages, signs_calls=False)
    assert refusal.value.param == param, refusal.value.message
    assert refusal.value.message.startswith(param)


def test_instructions_are_collected_from_all_messages():
    given = [
        {"role": "system", "content": "Be brief."},
        HELLO,
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": ""}]},
    ]
    assert instructions(*given) == [{"text": "Be brief."}, {"text": "Be kind."}]
    assert contents(*given) == [{"role": "user", "parts": [{"text": "Hello"}]}]


def test_consecutive_messages_of_one_role_become_one_content():
    made = contents(
        HELLO,
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "you"},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes?"}, {"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "content": []},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "Go on"},
    )
    assert [(content["role"], [part["text"] for part in content["parts"]]) for content in made] == [
        ("user", ["Hello", "you"]),
        ("model", ["Yes?", "No.", "Hm."]),
        ("user", ["Go on"]),
    ]


def test_conversation_of_instructions_or_empty_text_is_refused():
    assert_refused("messages", {"role": "system", "content": "Be brief."})
    assert_refused("messages", {"role": "user", "content": ""})


def test_images_audio_and_files_are_sent_as_inline_data():
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1n", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;name=a.pdf;base64,cGRm"}},
    ]
    [content] = contents({"role": "user", "content": parts})
    assert [part["inlineData"] for part in content["parts"]] == [
        {"mimeType": "image/png", "data": "aW1n"},
        {"mimeType": "audio/wav", "data": "d2F2"},
        {"mimeType": "application/pdf", "data": "cGRm"},
    ]


def test_image_address_is_refused_where_the_schema_allows_it(settings):
    settings.REQUEST_REMOTE_IMAGES = True
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    parts = [{"type": "text", "text": "a"}, image]
    assert_refused("messages[1].content[1].image_url.url", HELLO, {"role": "user", "content": parts})


@pytest.mark.parametrize("data", ["JVBERi0=", "data:application/pdf,raw", "data:;base64,aa", "data:pdf;base64,aa", ""])
def test_file_without_a_base64_data_url_is_refused(data):
    parts = [{"type": "file", "file": {"file_data": data}}]
    assert_refused("messages[0].content[0].file.file_data", {"role": "user", "content": parts})


@pytest.mark.parametrize("audio_format", ["opus", "pcm16", "m4a"])
def test_audio_format_that_gemini_does_not_read_is_refused(audio_format):
    parts = [{"type": "input_audio", "input_audio": {"data": "x", "format": audio_format}}]
    assert_refused("messages[0].content[0].input_audio.format", {"role": "user", "content": parts})


# --- Tools -------------------------------------------------------------------------------------------------------


def called(*calls, **fields):
    tool_calls = [
        {"id": made_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for made_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls, **fields}


def result(call_id, content):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_calls_and_results_carry_the_name_of_the_function_in_the_order_of_the_calls():
    made = contents(
        HELLO,
        called(("call_1", "find", '{"q": 1}'), ("call_2", "now", "")),
        result("call_2", '{"time": "noon"}'),
        result("call_1", "nothing found"),
        {"role": "user", "content": "Well?"},
    )
    assert made[1:] == [
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "find", "args": {"q": 1}}}, {"functionCall": {"name": "now", "args": {}}}],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "find", "response": {"output": "nothing found"}}},
                {"functionResponse": {"name": "now", "response": {"time": "noon"}}},
                {"text": "Well?"},
            ],
        },
    ]


DEEP = '{"a":' * 31 + "1" + "}" * 31
# What Gemini would not read as the caller's data: syntax, numbers that a double cannot hold, and what is nested too deep.
SYNTAX = [
    '{"schema": {"$ref": "#/components/schemas/E"}}',
    '{"$ref": "a.png"}',
    '{"a": [{"b": {"$ref": 5}}]}',
    '{"output": "a", "status": 2}',
    '{"error": null, "result": 7}',
    '{"id": 12345678901234567890}',
    '{"a": [-9007199254740993]}',
    DEEP,
]


@pytest.mark.parametrize(
    "content",
    ["[1]", "7", '"a"', "", "NaN", '{"a": NaN}', '{"a": "\\ud83d"}', "[" * 100_000, *SYNTAX],
    ids=lambda text: text[:30],
)
def test_result_that_is_not_an_object_is_wrapped(content):
    made = contents(HELLO, called(("c", "f", "{}")), result("c", content))
    assert made[-1]["parts"] == [{"functionResponse": {"name": "f", "response": {"output": content}}}]


@pytest.mark.parametrize(
    "content", ['{"$defs": {"a": 1}, "ref": "#/a"}', '{"output": "a"}', '{"a": 9007199254740992, "b": 1e300, "c": true}']
)
def test_result_that_is_an_object_of_data_stays_one(content):
    made = contents(HELLO, called(("c", "f", "{}")), result("c", content))
    assert made[-1]["parts"] == [{"functionResponse": {"name": "f", "response": json.loads(content)}}]


@pytest.mark.parametrize("arguments", ["[]", "7", "{", '{"a": NaN}', '{"a": "\\ud83d"}', '{"a":' * 100_000])
def test_arguments_that_are_not_a_json_object_are_refused(arguments):
    assert_refused("messages[1].tool_calls[0].function.arguments", HELLO, called(("c", "f", arguments)))


def test_result_without_an_earlier_call_is_refused():
    assert_refused("messages[2].tool_call_id", HELLO, called(("c", "f", "{}")), result("d", "x"))
    assert_refused("messages[1].tool_call_id", HELLO, result("c", "x"), called(("c", "f", "{}")))


def test_signature_of_a_call_is_not_that_of_a_later_one_with_its_id():
    given = [{"call": "c", "signature": "s"}]
    request = make_request(HELLO, called(("c", "f", "{}")), result("c", "x"), called(("c", "f", "{}")), result("c", "y"))
    made = messages.conversation(
        request.messages, signs_calls=False, signatures_of=lambda message: given if message is request.messages[1] else []
    )
    assert [part.get("thoughtSignature") for content in made for part in content["parts"] if "functionCall" in part] == [
        "s",
        None,
    ]


def test_function_call_and_role_function_are_translated():
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    made = contents(HELLO, old, {"role": "function", "name": "f", "content": "ok"})
    assert made[1]["parts"] == [{"functionCall": {"name": "f", "args": {}}}]
    assert made[2]["parts"] == [{"functionResponse": {"name": "f", "response": {"output": "ok"}}}]


def signed(message, signature):
    message["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": signature}}
    return message


@pytest.mark.parametrize("signs_calls", [False, True])
def test_signature_is_sent_back_with_its_call(signs_calls):
    made = contents(HELLO, signed(called(("a", "f", "{}"), ("b", "g", "{}")), SIGNATURE), signs_calls=signs_calls)
    assert [part.get("thoughtSignature") for part in made[1]["parts"]] == [SIGNATURE, None]


@pytest.mark.parametrize(("signs_calls", "expected"), [(False, None), (True, "skip_thought_signature_validator")])
@pytest.mark.parametrize("extra", [None, "x", {"google": "x"}, {"google": {"thought_signature": 5}}])
def test_first_unsigned_call_is_marked_for_models_that_want_signatures(signs_calls, expected, extra):
    message = called(("a", "f", "{}"), ("b", "g", "{}"))
    message["tool_calls"][0]["extra_content"] = extra
    made = contents(HELLO, {"role": "assistant", "content": "Hm."}, message, signs_calls=signs_calls)
    assert [part.get("thoughtSignature") for part in made[1]["parts"]] == [None, expected, None]


def test_custom_tool_call_is_refused():
    call = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    assert_refused("messages[1].tool_calls[0].type", HELLO, {"role": "assistant", "tool_calls": [call]})


def test_arguments_of_a_function_call_that_are_not_a_json_object_are_refused():
    old = {"role": "assistant", "function_call": {"name": "f", "arguments": "[]"}}
    assert_refused("messages[1].function_call.arguments", HELLO, old)
