"""Streams conform to what clients of OpenAI's API rely on, however they are split. The parser is independent of the gateway's.

The parser follows the HTML standard's section on server-sent events and shares no code with the gateway's.
"""

import codecs
import json
import re
import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import factories
from tests.completions.providers.anthropic import scripts as anthropic_scripts
from tests.completions.providers.gemini import scripts as gemini_scripts
from tests.completions.providers.openai.responses import scripts as responses_scripts
from tests.completions.routes import add
from tests.completions.rows import ask_streamed
from tests.upstream import DONE, FINISH, KEY_ENV, RESET, ROLE, USAGE, chunk, event, refusal, stream, streamed, usage, words

# --- The parser --------------------------------------------------------------------------------------------------


@dataclass
class EventSource:
    """A parser of event streams as in browsers: messages with their data, the names of all fields, and the comments."""

    messages: list[tuple[str, str]] = field(default_factory=list)  # type and data
    fields: set[str] = field(default_factory=set)
    comments: list[str] = field(default_factory=list)
    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"), compare=False)
    _line: str = ""
    _follows_cr: bool = False
    _type: str = ""
    _data: str = ""

    def receive(self, data: bytes, *, final: bool = False) -> None:
        for character in self._decoder.decode(data, final):
            if character == "\n" and self._follows_cr:
                self._follows_cr = False
                continue
            self._follows_cr = character == "\r"
            if character in "\r\n":
                self._process(self._line)
                self._line = ""
            else:
                self._line += character

    @property
    def is_between_messages(self) -> bool:
        return not self._line and not self._data

    def _process(self, line: str) -> None:
        if not line:
            self._dispatch()
        elif line.startswith(":"):
            self.comments.append(line)
        else:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            self.fields.add(name)
            if name == "data":
                self._data += value + "\n"
            elif name == "event":
                self._type = value

    def _dispatch(self) -> None:
        if self._data:
            self.messages.append((self._type or "message", self._data.removesuffix("\n")))
        self._type = self._data = ""


def parsed(pieces: list[bytes]) -> EventSource:
    source = EventSource()
    for piece in pieces:
        source.receive(piece)
    source.receive(b"", final=True)
    return source


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(raw) + 1) for place in places}), len(raw)]
    return [raw[start:end] for start, end in zip(edges, edges[1:], strict=False)]


# --- The rules ---------------------------------------------------------------------------------------------------

KEYS = {"id", "object", "created", "model", "provider", "choices", "usage"}


def assert_conforms(raw: bytes, *, model: str = "acme/large", include_usage: bool = False, choices: int = 1) -> list[dict]:
    """Assert that a complete stream conforms to every rule. Return its chunks."""
    source = parsed([raw])
    assert source.fields == {"data"}  # any other field breaks some client
    assert source.is_between_messages
    assert {kind for kind, _ in source.messages} == {"message"}
    # A message is one line. Clients may split at characters that we do not treat as line ends.
    assert all(re.fullmatch(r"data: .+|: .+|", line) for line in re.split(r"\r\n|\r|\n", raw.decode()))
    *said, last = [data for _, data in source.messages]
    assert last == "[DONE]"
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")
    assert "[DONE]" not in said
    chunks = [json.loads(data) for data in said]
    assert_heads(chunks, model, include_usage)
    for index in range(choices):
        assert_choice([choice for each in chunks for choice in each["choices"] if choice["index"] == index])
    assert {choice["index"] for each in chunks for choice in each["choices"]} == set(range(choices))
    assert_usage(chunks, include_usage)
    return chunks


def assert_heads(chunks: list[dict], model: str, include_usage: bool) -> None:
    assert {frozenset(each) for each in chunks} == {frozenset(KEYS if include_usage else KEYS - {"usage"})}
    assert {(each["object"], each["model"]) for each in chunks} == {("chat.completion.chunk", model)}
    [(completion_id, created)] = {(each["id"], each["created"]) for each in chunks}
    assert completion_id.startswith("chatcmpl-")
    assert type(created) is int


def assert_choice(said: list[dict]) -> None:
    """Assert that the role comes first, and one finish reason last."""
    first, *_ = said
    assert first["delta"]["role"] == "assistant"
    assert {choice["delta"].get("role") for choice in said} <= {"assistant", None}
    assert [bool(choice["finish_reason"]) for choice in said] == [False] * (len(said) - 1) + [True]


def assert_usage(chunks: list[dict], include_usage: bool) -> None:
    """Assert that usage comes only when requested: in a last chunk without choices, and null in all others."""
    assert all(each["choices"] for each in (chunks[:-1] if include_usage else chunks))
    if include_usage:
        assert chunks[-1]["choices"] == []
        assert [each["usage"] is None for each in chunks] == [True] * (len(chunks) - 1) + [False]
        reported = chunks[-1]["usage"]
        assert reported["total_tokens"] == reported["prompt_tokens"] + reported["completion_tokens"]


def assert_same_wherever_cut(raw: bytes) -> None:
    whole = parsed([raw])

    @given(st.lists(st.integers(0, len(raw)), max_size=20))
    @settings(max_examples=25)
    def check(places: list[int]) -> None:
        assert parsed(cut(raw, places)) == whole

    check()
    assert parsed([raw[place : place + 1] for place in range(len(raw))]) == whole


# --- Streams that end well ---------------------------------------------------------------------------------------

TRICKY = ("Hello ", "\n\ndata: [DONE]\n\n", "é漢😀\u2028\u2029\x85\x0b", '"},"choices":[', "\\u0000\r\n: ping\r", "data:")
CALL = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{\n}"}}]}
UNNUMBERED = {"id": "c", "function": {"name": "f", "arguments": {}}}
PLAIN_ROLES = chunk({"role": "assistant", "content": "Hello "}) + chunk({"role": "assistant", "content": "you"})
SCRIPTS = {
    "complete": streamed(*TRICKY),
    "a byte at a time": stream(*[bytes([byte]) for byte in ROLE + words(*TRICKY) + FINISH + usage() + DONE]),
    "without a role": stream(words(*TRICKY), FINISH, usage(), DONE),
    "with a role in every chunk": stream(PLAIN_ROLES, FINISH, usage(), DONE),
    "with the finish reason twice": stream(ROLE, words("you"), FINISH, FINISH, usage(), DONE),
    "with the finish reason and the usage in the last word": stream(ROLE, chunk({"content": "x"}, "stop", usage=USAGE), DONE),
    "without usage": stream(ROLE, words("you"), FINISH, DONE),
    "with usage in every chunk": stream(ROLE, chunk({"content": "x"}, usage=USAGE), FINISH, usage(), DONE),
    "without [DONE]": stream(ROLE, words("you"), FINISH, usage()),
    "with more behind [DONE]": stream(ROLE, words("you"), FINISH, usage(), DONE, words("never"), DONE),
    "with unknown fields": stream(
        chunk({"role": "assistant", "content": ""}, obfuscation="xyz", system_fingerprint="fp", usage=None),
        b"event: message\nid: 7\nretry: 1\n" + chunk({"content": "x"}, provider="theirs") + b": comment\n\n",
        FINISH,
        DONE,
    ),
    "of a tool": stream(ROLE, chunk(CALL), chunk(finish_reason="tool_calls"), usage(), DONE),
    "without a finish reason": stream(ROLE, words("you"), usage(), DONE),
    "of a tool, without an index and with stop": stream(ROLE, chunk({"tool_calls": [UNNUMBERED]}), FINISH, usage(), DONE),
    "of thoughts in tags": stream(ROLE, words("<th", "ink>so", "</thi", "nk>you"), FINISH, usage(), DONE),
    "of thoughts without a role": stream(chunk({"reasoning": "so"}), words("you"), FINISH, usage(), DONE),
    "of parts": stream(ROLE, chunk({"content": [{"type": "text", "text": "you"}]}), FINISH, usage(), DONE),
    "broken behind the finish": stream(ROLE, words("you"), FINISH, 0.02, RESET),
}


@pytest.mark.parametrize(
    "options", [None, {"include_usage": False}, {"include_usage": True}], ids=["unasked", "unwanted", "wanted"]
)
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_every_stream_conforms_whatever_the_upstream_sends(api, large, upstream, script, options):
    upstream.will(script)
    raw = b"".join(ask_streamed(api, stream_options=options).streaming_content)
    assert_conforms(raw, include_usage=options == {"include_usage": True})
    if options is None:
        assert_same_wherever_cut(raw)


def test_each_of_several_choices_conforms(api, large, upstream):
    def both(one, other, *reasons):
        reasons = reasons or (None, None)
        return event(
            {
                "choices": [
                    {"index": i, "delta": d, "finish_reason": r} for i, d, r in zip((0, 1), (one, other), reasons, strict=True)
                ]
            }
        )

    upstream.will(
        stream(
            both({"content": "a"}, {"content": "b"}),
            both({"content": "c"}, {}, None, "stop"),
            both({}, {}, "stop", "stop"),
            DONE,
        )
    )
    raw = b"".join(ask_streamed(api, n=2).streaming_content)
    chunks = assert_conforms(raw, choices=2)
    said = [
        "".join(c["delta"].get("content", "") for each in chunks for c in each["choices"] if c["index"] == i) for i in (0, 1)
    ]
    assert said == ["ac", "b"]


def test_a_stream_with_heartbeats_conforms(api, large, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    gate = threading.Event()
    upstream.will(stream(ROLE, 0.12, words("Hello "), gate, words("you"), FINISH, usage(), DONE))
    body, raw = iter(ask_streamed(api).streaming_content), b""
    while not raw.endswith(b": keep-alive\n\n") or b"Hello" not in raw:
        raw += next(body)
    gate.set()
    raw += b"".join(body)
    assert_conforms(raw)
    assert set(parsed([raw]).comments) == {": keep-alive"}
    assert_same_wherever_cut(raw)


def test_a_fallbacks_stream_conforms_under_its_own_name(api, large, upstream, spare):
    provider = factories.make_provider("elsewhere", kind="openai", base_url=spare.url)
    factories.make_model("acme/small", provider=provider)
    upstream.will(refusal(500))
    spare.will(streamed(*TRICKY))
    raw = b"".join(ask_streamed(api, models=["acme/small"]).streaming_content)
    assert_conforms(raw, model="acme/small")


def test_another_routes_stream_conforms(api, large, upstream, spare):
    add(large, spare)
    upstream.will(stream(ROLE + event({"error": {"message": "overloaded"}})))
    spare.will(streamed(*TRICKY))
    assert_conforms(b"".join(ask_streamed(api).streaming_content))


@pytest.mark.parametrize("options", [None, {"include_usage": True}], ids=["unasked", "wanted"])
def test_the_echos_stream_conforms(api, echo_model, options):
    asked = {"messages": [{"role": "user", "content": "".join(TRICKY)}], "stream_options": options}
    raw = b"".join(api.post("/v1/chat/completions", {"model": "demo/echo", "stream": True, **asked}).streaming_content)
    assert_conforms(raw, model="demo/echo", include_usage=bool(options))


NATIVE = {
    "anthropic": anthropic_scripts.streamed(anthropic_scripts.text(*TRICKY)),
    "gemini": gemini_scripts.streamed(
        *(gemini_scripts.text_response(text) for text in TRICKY),
        gemini_scripts.text_response("", finish="STOP", usage=gemini_scripts.USAGE),
    ),
    "openai-responses": responses_scripts.streamed(*map(responses_scripts.message, TRICKY)),
}


@pytest.mark.parametrize("options", [None, {"include_usage": True}], ids=["unasked", "wanted"])
@pytest.mark.parametrize("wire_format", NATIVE)
def test_streams_of_other_wire_formats_conform(api, upstream, wire_format, options):
    kind, _, api_name = wire_format.partition("-")
    base_url = upstream.url.removesuffix("/v1")
    provider = factories.make_provider(kind, kind=kind, base_url=base_url, api_key_env=KEY_ENV)
    model = factories.make_model("acme/large", provider=provider, upstream_model=f"{kind}-1")
    model.routes.update(api=api_name or "chat")
    upstream.will(NATIVE[wire_format])
    raw = b"".join(ask_streamed(api, stream_options=options).streaming_content)
    assert_conforms(raw, include_usage=bool(options))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=6),
    st.lists(st.integers(0, 3_000), max_size=6),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_arrives_unchanged_however_it_was_cut(api, large, upstream, texts, places):
    """The upstream's bytes are split at any point; the independent parser reads the gateway's."""
    upstream.will(stream(*cut(ROLE + words(*texts) + FINISH + usage() + DONE, places)))
    chunks = assert_conforms(b"".join(ask_streamed(api).streaming_content))
    assert "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks) == "".join(texts)


# --- Streams that break ------------------------------------------------------------------------------------------

ENDS = {
    "reset": (RESET,),
    "error": (event({"error": {"message": "overloaded\n\ndata: [DONE]\n\n"}}),),
    "cut": (b"data: {",),
    "finish reason error": (chunk(finish_reason="error"),),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_a_stream_that_breaks_ends_in_one_error_event_without_done(api, large, upstream, end):
    upstream.will(stream(ROLE, words(*TRICKY), 0.02, *end))
    raw = b"".join(ask_streamed(api, stream_options={"include_usage": True}).streaming_content)
    source = parsed([raw])
    assert source.fields == {"data"}
    assert source.is_between_messages
    assert "[DONE]" not in [data for _, data in source.messages]
    *chunks, last = [json.loads(data) for _, data in source.messages]
    assert [each for each in chunks if "error" in each] == []
    assert list(last) == ["error"]  # with "choices" as well, the Vercel AI SDK takes it for a chunk of a stream that ended well
    assert set(last["error"]) == {"message", "type", "param", "code"}
    assert raw.splitlines()[-2].startswith(b'data: {"error":{')  # some clients look for these bytes
    assert_heads(chunks, "acme/large", include_usage=True)
    assert not any(choice["finish_reason"] for each in chunks for choice in each["choices"])
    assert_same_wherever_cut(raw)


def test_the_conformance_check_finds_every_kind_of_violation():
    """Each violation must fail one of the checks above."""
    good = ROLE + words("x") + FINISH + DONE
    judged = good.replace(b"up-1", b"chatcmpl-1").replace(b'"upstream-name"', b'"acme/large","provider":"scripted"')
    assert_conforms(judged)
    for bad in [
        judged.removesuffix(DONE),
        judged + DONE,
        judged.removesuffix(b"\n"),
        b"id: 7\n" + judged,
        b"event: message\n" + judged,
        b"retry: 3000\n\n" + judged,
        judged.replace(b"[DONE]", b"[DONE] "),
        judged.replace(b"data:", b"data", 1),
        judged.replace(b'"created":1', b'"created":2', 1),
        judged.replace(b"chatcmpl-1", b"chatcmpl-2", 1),
        judged.replace(b"acme/large", b"acme/small", 1),
        judged.replace(b'"provider":"scripted",', b"", 1),
        judged.replace(b'"role":"assistant",', b"", 1),
        judged.replace(b'"finish_reason":"stop"', b'"finish_reason":null'),
        judged.replace(b'"finish_reason":null', b'"finish_reason":"stop"', 1),
        judged.replace(b'"choices":', b'"usage":null,"choices":', 1),
    ]:
        with pytest.raises((AssertionError, ValueError, KeyError)):
            assert_conforms(bad)
