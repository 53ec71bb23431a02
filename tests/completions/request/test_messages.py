"""What a conversation may be made of: every role and every part, as it came to the upstream; every refusal by its part."""

import base64

import pytest

from tests.chat import assert_error, everything_written
from tests.completions.rows import ask, assert_charged

HELLO = {"role": "user", "content": "Hello"}
PNG = "data:image/png;base64,iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": PNG}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
FIND = {"name": "find", "arguments": '{"q": "é"}'}
CALL = {"id": "call_1", "type": "function", "function": FIND}
GRAMMAR = {"id": "call_1", "type": "custom", "custom": {"name": "sql"}}


@pytest.fixture(autouse=True)
def capable(large):
    """It sees, and it calls functions."""
    large.image_support = large.function_calling = True
    large.save()


def said(content, role="user", **fields):
    return [HELLO, {"role": role, "content": content, **fields}]


def called(*calls, content=None, **fields):
    return [HELLO, {"role": "assistant", "content": content, "tool_calls": list(calls), **fields}]


# --- Accepted ----------------------------------------------------------------------------------------------------

FINE = {
    "an instruction": [{"role": "system", "content": "Be brief."}],
    "a developer's instruction": [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, HELLO],
    "an instruction at the end": said("Be brief.", "system"),
    "an empty question": said(""),
    "a question by name": said("Hello", name="Ann"),
    "what we do not know": said("Hello", weight=0.5, cache_control={"type": "ephemeral"}),
    "null beside": said("Hello", name=None, tool_calls=None),
    "text in parts": said([{"type": "text", "text": "é"}, {"type": "text", "text": "", "cache_control": None}]),
    "an image alone": said([IMAGE]),
    "an image closely": said([{"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}]),
    "an image in capitals": said([{"type": "image_url", "image_url": {"url": "DATA:IMAGE/PNG;BASE64,iVBORw0KGgo="}}]),
    "a sound": said([SOUND, {"type": "text", "text": "What is said?"}]),
    "a document": said([PDF]),
    "a document without address or type": said([{"type": "file", "file": {"file_data": "JVBERi0="}}]),
    "an answer": said("Hi", "assistant"),
    "an answer in parts": said([{"type": "text", "text": "Hi"}, {"type": "refusal", "refusal": "No."}], "assistant"),
    "an answer of nothing": said([], "assistant"),
    "a refusal": said(None, "assistant", refusal="No."),
    "a refusal of nothing": said("Hi", "assistant", refusal=None),
    "a call": called(CALL),
    "a call without its type": called({"id": "call_1", "function": FIND}),
    "a call with words": called(CALL, content="Let me see."),
    "a call without arguments": called({**CALL, "function": {"name": "find", "arguments": ""}}),
    "a call with arguments that are none": called({**CALL, "function": {"name": "find", "arguments": "{"}}),
    "a call of a tool with a grammar": called({"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}),
    "two calls and their results": [
        *called(CALL, {**CALL, "id": "call_2"}),
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
    ],
    "a call as it was before there were several": [
        *said(None, "assistant", function_call=FIND),
        {"role": "function", "name": "find", "content": "one"},
    ],
}


@pytest.mark.parametrize("messages", FINE.values(), ids=FINE)
def test_valid_messages_reach_the_upstream_unchanged(api, alice, upstream, messages):
    assert ask(api, messages=messages).status_code == 200
    [asked] = upstream.requests
    assert asked.body["messages"] == messages
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


# --- Refused -----------------------------------------------------------------------------------------------------

ROLES = "must be one of developer, system, user, assistant, tool, function"
AT = "messages[1]"
PART = f"{AT}.content[0]"
CALLED = f"{AT}.tool_calls[0]"
FUNCTION, IMAGED, SOUNDED = f"{CALLED}.function", f"{PART}.image_url", f"{PART}.input_audio"


def image(**fields):
    return said([{"type": "image_url", "image_url": fields}])


def sound(**fields):
    return said([{"type": "input_audio", "input_audio": fields}])


def file(**fields):
    return said([{"type": "file", "file": fields}])


def function(**fields):
    return called({**CALL, "function": fields})


def old_call(call):
    return said(None, "assistant", function_call=call)


DATA_URL = "must be a data URL of a base64-encoded image (data:image/png;base64,...)"
WRONG = {
    "a message that is text": (["Hello"], "messages[0]", "must be an object"),
    "a message that is null": ([HELLO, None], AT, "must be an object"),
    "no role": ([HELLO, {"content": "x"}], f"{AT}.role", "is required"),
    "a role of null": (said("x", None), f"{AT}.role", "is required"),
    "a role that is a list": (said("x", ["user"]), f"{AT}.role", ROLES),
    "an unknown role": (said("x", "User"), f"{AT}.role", ROLES),
    "no content": ([HELLO, {"role": "user"}], f"{AT}.content", "is required"),
    "an instruction of null": (said(None, "system"), f"{AT}.content", "is required"),
    "an answer of null": (said(None, "assistant"), f"{AT}.content", "is required"),
    "an answer of null and no call": (called(), f"{AT}.content", "is required"),
    "a result of null": (said(None, "tool", tool_call_id="c"), f"{AT}.content", "is required"),
    "content that is a number": (said(1), f"{AT}.content", "must be a string or an array of parts"),
    "content that is an object": (said({"type": "text"}), f"{AT}.content", "must be a string or an array of parts"),
    "content of no parts": (said([]), f"{AT}.content", "must not be empty"),
    "a name that is a number": (said("x", name=1), f"{AT}.name", "must be a string"),
    "a part that is text": (said(["x"]), PART, "must be an object"),
    "a part without a type": (said([{"text": "x"}]), f"{PART}.type", "is required"),
    "a part of a type that is a list": (said([{"type": ["text"]}]), f"{PART}.type", "must be text or image_url"),
    "a part of a type that is an object": (said([{"type": {}}]), f"{PART}.type", "must be text or image_url"),
    "a part of an unknown type": (said([{"type": "video_url"}]), f"{PART}.type", "must be text or image_url or input"),
    "a second part that is wrong": (said([IMAGE, 1]), f"{AT}.content[1]", "must be an object"),
    "an image in an instruction": (said([IMAGE], "system"), f"{PART}.type", "must be text in a message of this role"),
    "an image in an answer": (said([IMAGE], "assistant"), f"{PART}.type", "must be text or refusal in"),
    "an image in a result": (said([IMAGE], "tool", tool_call_id="c"), f"{PART}.type", "must be text in a message of this role"),
    "a refusal in a question": (said([{"type": "refusal", "refusal": "x"}]), f"{PART}.type", "must be text or"),
    "a text of nothing": (said([{"type": "text"}]), f"{PART}.text", "is required"),
    "a text that is a number": (said([{"type": "text", "text": 1}]), f"{PART}.text", "must be a string"),
    "a refusal of a list": (said([{"type": "refusal", "refusal": []}], "assistant"), f"{PART}.refusal", "must be a string"),
    "an image of nothing": (said([{"type": "image_url"}]), f"{PART}.image_url", "is required"),
    "an image that is text": (said([{"type": "image_url", "image_url": PNG}]), f"{PART}.image_url", "must be an object"),
    "an image without a URL": (image(detail="low"), f"{IMAGED}.url", "is required"),
    "an image of a list": (image(url=[PNG]), f"{IMAGED}.url", "must be a string"),
    "an image elsewhere": (image(url="https://example.org/a.png"), f"{IMAGED}.url", f"{DATA_URL}; images"),
    "an image in the clear": (image(url="http://example.org/a.png"), f"{IMAGED}.url", DATA_URL),
    "an image on a disk": (image(url="file:///etc/passwd"), f"{IMAGED}.url", DATA_URL),
    "an image that is a page": (image(url="data:text/html;base64,PGI+"), f"{IMAGED}.url", DATA_URL),
    "an image that is no base64": (image(url="data:image/png;base64,<b>"), f"{IMAGED}.url", DATA_URL),
    "an image of no data": (image(url="data:image/png;base64,"), f"{IMAGED}.url", DATA_URL),
    "an image with a line in it": (image(url=PNG[:-4] + "\n" + PNG[-4:]), f"{IMAGED}.url", DATA_URL),
    "an image not in base64": (image(url="data:image/svg+xml,%3Csvg%3E"), f"{IMAGED}.url", DATA_URL),
    "an image in no detail": (image(url=PNG, detail="huge"), f"{IMAGED}.detail", "must be one of auto, low, high"),
    "a sound of nothing": (said([{"type": "input_audio"}]), f"{PART}.input_audio", "is required"),
    "a sound without data": (sound(format="wav"), f"{SOUNDED}.data", "is required"),
    "a sound of bytes": (sound(data=[1], format="wav"), f"{SOUNDED}.data", "must be a string"),
    "a sound without a format": (sound(data="UklGRg=="), f"{SOUNDED}.format", "is required"),
    "a sound of another format": (sound(data="UklGRg==", format="midi"), f"{SOUNDED}.format", "must be one of wav, mp3"),
    "a document of nothing": (said([{"type": "file"}]), f"{PART}.file", "is required"),
    "a document that is kept elsewhere": (file(file_id="file-1"), f"{PART}.file.file_id", "is not supported"),
    "a document without data": (file(filename="a.pdf"), f"{PART}.file.file_data", "is required"),
    "a document of bytes": (file(file_data=[1]), f"{PART}.file.file_data", "must be a string"),
    "a document elsewhere": (file(file_data="https://example.org/a.pdf"), f"{PART}.file.file_data", "must be the file itself"),
    "a refusal of a number": (said("x", "assistant", refusal=1), f"{AT}.refusal", "must be a string"),
    "calls that are an object": (said("x", "assistant", tool_calls={}), f"{AT}.tool_calls", "must be an array"),
    "a call that is text": (called("find"), CALLED, "must be an object"),
    "a call without an id": (called({"function": FIND}), f"{CALLED}.id", "is required"),
    "a call with a number for an id": (called({**CALL, "id": 1}), f"{CALLED}.id", "must be a string"),
    "a call of an unknown type": (called({**CALL, "type": "mcp"}), f"{CALLED}.type", "must be function or custom"),
    "a call of a type that is a list": (called({**CALL, "type": ["function"]}), f"{CALLED}.type", "must be function or custom"),
    "a call of nothing": (called({"id": "c", "type": "function"}), f"{CALLED}.function", "is required"),
    "a call of text": (called({**CALL, "function": "find"}), f"{CALLED}.function", "must be an object"),
    "a call without a name": (function(arguments=""), f"{FUNCTION}.name", "is required"),
    "a call with a space in its name": (function(name="f x", arguments=""), f"{FUNCTION}.name", "must have 1 to 128"),
    "a call without arguments": (function(name="find"), f"{FUNCTION}.arguments", "is required"),
    "a call with an object of arguments": (function(name="find", arguments={}), f"{FUNCTION}.arguments", "must be a string"),
    "a second call that is wrong": (called(CALL, {}), f"{AT}.tool_calls[1].id", "is required"),
    "a call of a grammar without input": (called(GRAMMAR), f"{CALLED}.custom.input", "is required"),
    "an old call without a name": (old_call({"arguments": ""}), f"{AT}.function_call.name", "is required"),
    "an old call that is text": (old_call("find"), f"{AT}.function_call", "must be an object"),
    "a result of nothing": (said("x", "tool"), f"{AT}.tool_call_id", "is required"),
    "a result of a number": (said("x", "tool", tool_call_id=1), f"{AT}.tool_call_id", "must be a string"),
    "an old result of nothing": (said("x", "function"), f"{AT}.name", "is required"),
}


@pytest.mark.parametrize(("messages", "param", "why"), WRONG.values(), ids=WRONG)
def test_invalid_message_is_refused_by_path_and_nothing_happens(api, upstream, messages, param, why):
    before = everything_written()
    error = assert_error(ask(api, messages=messages), 400, "invalid_request_error", param)
    assert error["message"].startswith(f"{param} {why}")
    assert upstream.requests == []
    assert everything_written() == before


@pytest.mark.parametrize("part", [IMAGE, SOUND, PDF], ids=lambda part: part["type"])
@pytest.mark.parametrize("role", ["developer", "system", "tool", "function"])
def test_only_user_messages_may_have_images_audio_and_files(api, role, part):
    messages = said([part], role, tool_call_id="c", name="f")
    assert_error(ask(api, messages=messages), 400, "invalid_request_error", f"{PART}.type")


# --- Settings ----------------------------------------------------------------------------------------------------


def test_image_addresses_are_accepted_when_the_setting_allows_them(api, upstream, settings):
    settings.REQUEST_REMOTE_IMAGES = True
    messages = image(url="https://example.org/a.png?size=1")
    assert ask(api, messages=messages).status_code == 200
    assert upstream.requests[0].body["messages"] == messages


@pytest.mark.parametrize("url", ["http://example.org/a.png", "HTTPS://example.org", "https://example.org/\n", "//a", "ftp://a"])
def test_other_addresses_are_refused(api, upstream, settings, url):
    settings.REQUEST_REMOTE_IMAGES = True
    error = assert_error(ask(api, messages=image(url=url)), 400, "invalid_request_error", f"{IMAGED}.url")
    assert error["message"] == f"{IMAGED}.url {DATA_URL} or an https:// address."
    assert upstream.requests == []


def test_number_of_images_is_limited(api, upstream, settings):
    settings.REQUEST_IMAGES_MAX = 2
    assert ask(api, messages=[*said([IMAGE]), *said([IMAGE])]).status_code == 200
    reply = ask(api, messages=[*said([IMAGE, IMAGE]), *said([IMAGE])])
    error = assert_error(reply, 400, "invalid_request_error", "messages[3].content[0].image_url")
    assert error["message"].endswith("is one image too many: a request may have 2.")
    assert len(upstream.requests) == 1


def large_image(image_bytes):
    return said([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * image_bytes}}])


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
