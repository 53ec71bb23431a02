"""Messages: every valid role and part reaches the upstream, every invalid one is refused by its path."""

import base64

import pytest

from completions.providers.openai import request as openai_request
from completions.request import schema
from gateway_project.errors import InvalidRequest
from tests.chat import assert_error
from tests.completions.offers import make_call, make_offer
from tests.completions.rows import ask, assert_charged

HELLO = {"role": "user", "content": "Hello"}
SAID = {"role": "assistant", "content": "Hello"}
PNG = "data:image/png;base64,iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": PNG}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
FIND = {"name": "find", "arguments": '{"q": "é"}'}
CALL = {"id": "call_1", "type": "function", "function": FIND}
CUSTOM_CALL = {"id": "call_1", "type": "custom", "custom": {"name": "sql"}}


@pytest.fixture
def api(api, large):
    """A client, for a model that reads images and calls functions."""
    large.image_support = large.function_calling = True
    large.save()
    return api


def conversation(content, role="user", **fields):
    return [HELLO, {"role": role, "content": content, **fields}]


def conversation_with_calls(*calls, content=None, **fields):
    return [HELLO, {"role": "assistant", "content": content, "tool_calls": list(calls), **fields}]


# --- Accepted ----------------------------------------------------------------------------------------------------

VALID = {
    "an instruction": [{"role": "system", "content": "Be brief."}],
    "a developer's instruction": [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, HELLO],
    "an instruction at the end": conversation("Be brief.", "system"),
    "an empty question": conversation(""),
    "a question by name": conversation("Hello", name="Ann"),
    "thoughts": [{"role": "assistant", "content": "Hi", "reasoning_content": "Hm."}, *conversation("Hello")],
    "null fields": conversation("Hello", name=None, tool_calls=None),
    "text in parts": conversation([{"type": "text", "text": "é"}, {"type": "text", "text": "", "cache_control": None}]),
    "an image alone": conversation([IMAGE]),
    "an image with a detail": conversation([{"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}]),
    "audio": conversation([AUDIO, {"type": "text", "text": "What is said?"}]),
    "a document": conversation([PDF]),
    "a document that is not a data URL": conversation([{"type": "file", "file": {"file_data": "JVBERi0="}}]),
    "an assistant's text": conversation("Hi", "assistant"),
    "an assistant's parts": conversation([{"type": "text", "text": "Hi"}, {"type": "refusal", "refusal": "No."}], "assistant"),
    "an assistant's empty array": conversation([], "assistant"),
    "a refusal": conversation(None, "assistant", refusal="No."),
    "a null refusal": conversation("Hi", "assistant", refusal=None),
    "a call": conversation_with_calls(CALL),
    "a call without its type": conversation_with_calls({"id": "call_1", "function": FIND}),
    "a call with text": conversation_with_calls(CALL, content="Let me see."),
    "a call with empty arguments": conversation_with_calls({**CALL, "function": {"name": "find", "arguments": ""}}),
    "a call with arguments that are not JSON": conversation_with_calls(
        {**CALL, "function": {"name": "find", "arguments": "{"}}
    ),
    "a custom call": conversation_with_calls({"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}),
    "two calls and their results": [
        *conversation_with_calls(CALL, {**CALL, "id": "call_2"}),
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
    ],
    "a function_call and its result": [
        *conversation(None, "assistant", function_call=FIND),
        {"role": "function", "name": "find", "content": "one"},
    ],
}


def as_sent(messages):
    """Return messages with the role of instructions that all servers know."""
    return [{**each, "role": "system"} if each["role"] == "developer" else each for each in messages]


def parse(messages):
    return schema.parse({"model": "acme/large", "messages": messages})


@pytest.mark.parametrize("messages", VALID.values(), ids=VALID)
def test_valid_messages_are_passed_on_unchanged(messages):
    assert openai_request.body(make_call(parse(messages), make_offer(), 9), stream=False)["messages"] == as_sent(messages)


def test_valid_messages_reach_the_upstream_over_http(api, alice, upstream):
    messages = [message for conversation in VALID.values() for message in conversation]
    assert ask(api, messages=messages).status_code == 200
    [asked] = upstream.requests
    assert asked.body["messages"] == as_sent(messages)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


# --- Refused -----------------------------------------------------------------------------------------------------

ROLES = "must be one of developer, system, user, assistant, tool, function"
AT = "messages[1]"
PART = f"{AT}.content[0]"
CALL_PATH = f"{AT}.tool_calls[0]"
FUNCTION, IMAGE_PATH, AUDIO_PATH = f"{CALL_PATH}.function", f"{PART}.image_url", f"{PART}.input_audio"


def image(**fields):
    return conversation([{"type": "image_url", "image_url": fields}])


def audio(**fields):
    return conversation([{"type": "input_audio", "input_audio": fields}])


def file(**fields):
    return conversation([{"type": "file", "file": fields}])


def function(**fields):
    return conversation_with_calls({**CALL, "function": fields})


def old_call(call):
    return conversation(None, "assistant", function_call=call)


DATA_URL = "must be a data URL of a base64-encoded image (data:image/png;base64,...)"
INVALID = {
    "a message that is text": (["Hello"], "messages[0]", "must be an object"),
    "a message that is null": ([HELLO, None], AT, "must be an object"),
    "no role": ([HELLO, {"content": "x"}], f"{AT}.role", "is required"),
    "a role of null": (conversation("x", None), f"{AT}.role", "is required"),
    "a role that is a list": (conversation("x", ["user"]), f"{AT}.role", ROLES),
    "an unknown role": (conversation("x", "User"), f"{AT}.role", ROLES),
    "no content": ([HELLO, {"role": "user"}], f"{AT}.content", "is required"),
    "a null instruction": (conversation(None, "system"), f"{AT}.content", "is required"),
    "a null answer": (conversation(None, "assistant"), f"{AT}.content", "is required"),
    "a null answer with no calls": (conversation_with_calls(), f"{AT}.content", "is required"),
    "a null result": (conversation(None, "tool", tool_call_id="c"), f"{AT}.content", "is required"),
    "content that is a number": (conversation(1), f"{AT}.content", "must be a string or an array of parts"),
    "content that is an object": (conversation({"type": "text"}), f"{AT}.content", "must be a string or an array of parts"),
    "an empty array of parts": (conversation([]), f"{AT}.content", "must not be empty"),
    "a name that is a number": (conversation("x", name=1), f"{AT}.name", "must be a string"),
    "a part that is text": (conversation(["x"]), PART, "must be an object"),
    "a part without a type": (conversation([{"text": "x"}]), f"{PART}.type", "is required"),
    "a part type that is a list": (conversation([{"type": ["text"]}]), f"{PART}.type", "must be text or image_url"),
    "a part type that is an object": (conversation([{"type": {}}]), f"{PART}.type", "must be text or image_url"),
    "a part of an unknown type": (conversation([{"type": "video_url"}]), f"{PART}.type", "must be text or image_url or input"),
    "a second part that is wrong": (conversation([IMAGE, 1]), f"{AT}.content[1]", "must be an object"),
    "an image in an instruction": (conversation([IMAGE], "system"), f"{PART}.type", "must be text in a message of this role"),
    "an image in an answer": (conversation([IMAGE], "assistant"), f"{PART}.type", "must be text or refusal in"),
    "an image in a tool's message": (
        conversation([IMAGE], "tool", tool_call_id="c"),
        f"{PART}.type",
        "must be text in a message of this role",
    ),
    "a refusal in a user's message": (conversation([{"type": "refusal", "refusal": "x"}]), f"{PART}.type", "must be text or"),
    "a text part without text": (conversation([{"type": "text"}]), f"{PART}.text", "is required"),
    "a text that is a number": (conversation([{"type": "text", "text": 1}]), f"{PART}.text", "must be a string"),
    "a refusal part that is a list": (
        conversation([{"type": "refusal", "refusal": []}], "assistant"),
        f"{PART}.refusal",
        "must be a string",
    ),
    "an image part without an image": (conversation([{"type": "image_url"}]), f"{PART}.image_url", "is required"),
    "an image that is text": (
        conversation([{"type": "image_url", "image_url": PNG}]),
        f"{PART}.image_url",
        "must be an object",
    ),
    "an image without a URL": (image(detail="low"), f"{IMAGE_PATH}.url", "is required"),
    "an image URL that is a list": (image(url=[PNG]), f"{IMAGE_PATH}.url", "must be a string"),
    "an ftp address": (image(url="ftp://example.org/a.png"), f"{IMAGE_PATH}.url", f"{DATA_URL} or an https"),
    "a long address": (image(url=f"https://{'a' * 8_185}"), f"{IMAGE_PATH}.url", "must be an address of at most"),
    "an address of two lines": (image(url="https://a/\n"), f"{IMAGE_PATH}.url", "must be an address of at most"),
    "a file address": (image(url="file:///etc/passwd"), f"{IMAGE_PATH}.url", DATA_URL),
    "a data URL of HTML": (image(url="data:text/html;base64,PGI+"), f"{IMAGE_PATH}.url", DATA_URL),
    "an image with invalid base64": (image(url="data:image/png;base64,<b>"), f"{IMAGE_PATH}.url", DATA_URL),
    "an image without data": (image(url="data:image/png;base64,"), f"{IMAGE_PATH}.url", DATA_URL),
    "an image with a line break": (image(url=PNG[:-4] + "\n" + PNG[-4:]), f"{IMAGE_PATH}.url", DATA_URL),
    "an image not in base64": (image(url="data:image/svg+xml,%3Csvg%3E"), f"{IMAGE_PATH}.url", DATA_URL),
    "an unknown detail": (image(url=PNG, detail="huge"), f"{IMAGE_PATH}.detail", "must be one of auto, low, high"),
    "an audio part without audio": (conversation([{"type": "input_audio"}]), f"{PART}.input_audio", "is required"),
    "audio without data": (audio(format="wav"), f"{AUDIO_PATH}.data", "is required"),
    "audio data that is a list": (audio(data=[1], format="wav"), f"{AUDIO_PATH}.data", "must be a string"),
    "audio without a format": (audio(data="UklGRg=="), f"{AUDIO_PATH}.format", "is required"),
    "an unknown audio format": (audio(data="UklGRg==", format="midi"), f"{AUDIO_PATH}.format", "must be one of wav, mp3"),
    "a file part without a file": (conversation([{"type": "file"}]), f"{PART}.file", "is required"),
    "a file id": (file(file_id="file-1"), f"{PART}.file.file_id", "is not supported"),
    "a file_url": (file(file_url="https://example.org/a.pdf"), f"{PART}.file.file_url", "is not supported"),
    "a file_url beside data": (
        file(file_data="data:application/pdf;base64,JVBERi0=", file_url="https://example.org/a.pdf"),
        f"{PART}.file.file_url",
        "is not supported",
    ),
    "a file without data": (file(filename="a.pdf"), f"{PART}.file.file_data", "is required"),
    "file data that is a list": (file(file_data=[1]), f"{PART}.file.file_data", "must be a string"),
    "a file address in file_data": (
        file(file_data="https://example.org/a.pdf"),
        f"{PART}.file.file_data",
        "must be the file itself",
    ),
    "a refusal that is a number": (conversation("x", "assistant", refusal=1), f"{AT}.refusal", "must be a string"),
    "calls that are an object": (conversation("x", "assistant", tool_calls={}), f"{AT}.tool_calls", "must be an array"),
    "a call that is text": (conversation_with_calls("find"), CALL_PATH, "must be an object"),
    "a call without an id": (conversation_with_calls({"function": FIND}), f"{CALL_PATH}.id", "is required"),
    "a call with a number for an id": (conversation_with_calls({**CALL, "id": 1}), f"{CALL_PATH}.id", "must be a string"),
    "an unknown call type": (
        conversation_with_calls({**CALL, "type": "mcp"}),
        f"{CALL_PATH}.type",
        "must be function or custom",
    ),
    "a call type that is a list": (
        conversation_with_calls({**CALL, "type": ["function"]}),
        f"{CALL_PATH}.type",
        "must be function or custom",
    ),
    "a call without a function": (
        conversation_with_calls({"id": "c", "type": "function"}),
        f"{CALL_PATH}.function",
        "is required",
    ),
    "a function that is text": (
        conversation_with_calls({**CALL, "function": "find"}),
        f"{CALL_PATH}.function",
        "must be an object",
    ),
    "a call without a name": (function(arguments=""), f"{FUNCTION}.name", "is required"),
    "a call with a space in its name": (function(name="f x", arguments=""), f"{FUNCTION}.name", "must have 1 to 128"),
    "a call without arguments": (function(name="find"), f"{FUNCTION}.arguments", "is required"),
    "arguments that are an object": (function(name="find", arguments={}), f"{FUNCTION}.arguments", "must be a string"),
    "a second call that is wrong": (conversation_with_calls(CALL, {}), f"{AT}.tool_calls[1].id", "is required"),
    "a custom call without input": (conversation_with_calls(CUSTOM_CALL), f"{CALL_PATH}.custom.input", "is required"),
    "a function_call without a name": (old_call({"arguments": ""}), f"{AT}.function_call.name", "is required"),
    "a function_call that is text": (old_call("find"), f"{AT}.function_call", "must be an object"),
    "too many details of reasoning": (
        [{**SAID, "reasoning_details": [{}] * 1_024}, {**SAID, "reasoning_details": [{}]}, HELLO],
        f"{AT}.reasoning_details",
        "must have at most 1024 details",
    ),
    "a result without a call id": (conversation("x", "tool"), f"{AT}.tool_call_id", "is required"),
    "a call id that is a number": (conversation("x", "tool", tool_call_id=1), f"{AT}.tool_call_id", "must be a string"),
    "a function result without a name": (conversation("x", "function"), f"{AT}.name", "is required"),
}


@pytest.mark.parametrize(("messages", "param", "why"), INVALID.values(), ids=INVALID)
def test_invalid_message_is_refused_by_path(messages, param, why):
    with pytest.raises(InvalidRequest) as refusal:
        parse(messages)
    assert refusal.value.param == param
    assert refusal.value.message.startswith(f"{param} {why}")


@pytest.mark.parametrize("part", [IMAGE, AUDIO, PDF], ids=lambda part: part["type"])
@pytest.mark.parametrize("role", ["developer", "system", "tool", "function"])
def test_only_user_messages_may_have_images_audio_and_files(role, part):
    with pytest.raises(InvalidRequest) as refusal:
        parse(conversation([part], role, tool_call_id="c", name="f"))
    assert refusal.value.param == f"{PART}.type"


# --- Settings ----------------------------------------------------------------------------------------------------


def test_image_addresses_are_accepted_when_the_setting_allows_them(api, upstream, settings):
    settings.REQUEST_REMOTE_IMAGES = True
    messages = image(url="https://example.org/a.png?size=1")
    assert ask(api, messages=messages).status_code == 200
    assert upstream.requests[0].body["messages"] == messages


@pytest.mark.parametrize("url", ["http://example.org/a.png", "HTTPS://example.org", "https://example.org/\n", "//a", "ftp://a"])
def test_other_addresses_are_refused(settings, url):
    settings.REQUEST_REMOTE_IMAGES = True
    with pytest.raises(InvalidRequest) as refusal:
        parse(image(url=url))
    assert refusal.value.param == f"{IMAGE_PATH}.url"
    assert refusal.value.message == f"{IMAGE_PATH}.url {DATA_URL} or an https:// address."


def test_number_of_images_is_limited(api, upstream, settings):
    settings.REQUEST_IMAGES_MAX = 2
    assert ask(api, messages=[*conversation([IMAGE]), *conversation([IMAGE])]).status_code == 200
    reply = ask(api, messages=[*conversation([IMAGE, IMAGE]), *conversation([IMAGE])])
    error = assert_error(reply, 400, "invalid_request_error", "messages[3].content[0].image_url")
    assert error["message"].endswith("is one image too many: a request may have 2.")
    assert len(upstream.requests) == 1


def large_image(image_bytes):
    return conversation([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * image_bytes}}])


def test_image_up_to_the_request_limit_is_passed_on(api, upstream, settings):
    messages = large_image(settings.REQUEST_BYTES_MAX - 1_000)
    assert ask(api, messages=messages).status_code == 200
    assert upstream.requests[0].body["messages"] == messages


def test_image_beyond_the_request_limit_is_refused(api, upstream, settings):
    assert_error(ask(api, messages=large_image(settings.REQUEST_BYTES_MAX)), 413, "invalid_request_error")
    assert upstream.requests == []


def test_whole_base64_alphabet_is_accepted(api, upstream):
    messages = image(url="data:image/webp;base64," + base64.b64encode(bytes(range(256))).decode())
    assert ask(api, messages=messages).status_code == 200


def test_in_production_images_are_fetched_by_https_alone(monkeypatch):
    monkeypatch.setattr(schema, "IMAGE_SCHEMES", ("https://",))
    assert parse(image(url="https://example.org/a.png")).contents.remote_images == (
        (f"{IMAGE_PATH}.url", "https://example.org/a.png"),
    )
    with pytest.raises(InvalidRequest, match="or an https:// address"):
        parse(image(url="http://example.org/a.png"))
