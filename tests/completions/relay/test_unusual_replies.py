"""What providers send beside their references, and what callers get of it in each language. A report is a row of its table."""

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from billing.models import Hold
from completions.models import Completion, LanguageModel
from gateway_project import metrics
from tests import factories
from tests.cases import undone
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.providers.openai.responses import scripts as responses
from tests.completions.routes import add
from tests.completions.rows import MESSAGES, ask_streamed, assert_charged, assert_released
from tests.upstream import CLOSE, DONE, FINISH, KEY_ENV, RESET, ROLE, USAGE, chunk, event, reply, stream, usage, whole, words

Fields = dict[str, Any]
KINDS = ("openai", "openai-responses", "anthropic", "gemini")
LANGUAGES = ("chat", "messages", "responses")
# Each kind's "Hello you" as events, the last of which has the finish reason; and as a whole reply.
EVENTS: dict[str, list[bytes]] = {
    "openai": [ROLE, words("Hello "), words("you"), chunk(finish_reason="stop", usage=USAGE)],
    "openai-responses": [
        responses.begun(),
        responses.said(0, responses.message("Hello you")),
        responses.ended(responses.message("Hello you")),
    ],
    "anthropic": [claude.start(), claude.text("Hello ", "you"), claude.message_delta()],
    "gemini": [event(each) for each in gemini.HELLO],
}
WHOLE: dict[str, Any] = {
    "openai": whole(),
    "openai-responses": responses.whole(responses.message("Hello you")),
    "anthropic": claude.whole(),
    "gemini": gemini.whole("Hello you"),
}


def body_of(script: list[Any]) -> bytes:
    return b"".join(script).partition(b"\r\n\r\n")[2]


def serve(upstream: Any, kind: str) -> None:
    """Let the upstream serve acme/large in a kind's format."""
    kind, _, api_name = kind.partition("-")
    base_url = upstream.url if kind == "openai" else upstream.url.removesuffix("/v1")
    provider = factories.make_provider(f"of-{kind}", kind=kind, base_url=base_url, api_key_env=KEY_ENV)
    model = factories.make_model("acme/large", provider=provider, upstream_model=f"{kind}-1")
    model.routes.update(api=api_name or "chat")


# --- What callers are told ------------------------------------------------------------------------------------------


@dataclass
class Told:
    """A reply in the terms of chat: its text, its calls as (name, arguments), and why it ended."""

    status: int
    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    reason: str | None = None
    error: Fields | None = None
    headers: Any = None


ASKED: dict[str, tuple[str, Fields]] = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES}),
    "messages": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 100}),
    "responses": ("/v1/responses", {"input": "Say hello."}),
}


def told(api: Any, language: str, *, is_streamed: bool) -> Told:
    path, fields = ASKED[language]
    answer = api.post(path, {"model": "acme/large", "stream": is_streamed, **fields})
    if not answer.streaming:
        body = answer.json()
        if answer.status_code != 200:
            return Told(answer.status_code, error=body["error"])
        found = {"chat": of_chat, "messages": of_message, "responses": of_response}[language](body)
        found.headers = answer.headers
        return found
    raw = b"".join(answer.streaming_content)
    events = [line.removeprefix(b"data: ") for line in raw.split(b"\n") if line.startswith(b"data: ")]
    return {"chat": of_chunks, "messages": of_message_events, "responses": of_response_events}[language](events)


def of_chat(body: Fields) -> Told:
    [choice] = body["choices"]
    calls = choice["message"].get("tool_calls") or []
    assert all(call["type"] == "function" for call in calls)
    named = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    return Told(200, choice["message"]["content"] or "", named, [call["id"] for call in calls], choice["finish_reason"])


def of_chunks(events: list[bytes]) -> Told:
    found, arguments = Told(200), list[str]()
    for each in map(json.loads, filter(lambda data: data != b"[DONE]", events)):
        found.error = each.get("error")
        for choice in each.get("choices", []):
            delta = choice["delta"]
            assert delta.get("role", "assistant") == "assistant"
            found.text += delta.get("content") or ""
            found.reason = choice["finish_reason"] or found.reason
            for call in delta.get("tool_calls") or []:
                if call["index"] == len(arguments):
                    found.calls.append((call["function"]["name"], ""))
                    found.ids.append(call["id"])
                    arguments.append("")
                arguments[call["index"]] += call["function"].get("arguments") or ""
    found.calls = [(name, text) for (name, _), text in zip(found.calls, arguments, strict=True)]
    assert (events[-1] == b"[DONE]") == (found.error is None)
    return found


REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "stop_sequence": "stop",
}


def of_message(body: Fields) -> Told:
    text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    uses = [block for block in body["content"] if block["type"] == "tool_use"]
    calls = [(use["name"], json.dumps(use["input"], separators=(",", ":"))) for use in uses]
    return Told(200, text, calls, [use["id"] for use in uses], REASONS[body["stop_reason"]])


def of_message_events(events: list[bytes]) -> Told:
    found, blocks = Told(200), dict[int, Fields]()
    for each in map(json.loads, events):
        match each["type"]:
            case "content_block_start":
                blocks[each["index"]] = {**each["content_block"], "json": ""}
            case "content_block_delta":
                delta, block = each["delta"], blocks[each["index"]]
                block["text"] = block.get("text", "") + delta.get("text", "")
                block["json"] += delta.get("partial_json", "")
            case "message_delta":
                found.reason = REASONS[each["delta"]["stop_reason"]]
            case "error":
                found.error = each["error"]
    uses = [block for block in blocks.values() if block["type"] == "tool_use"]
    found.text = "".join(block["text"] for block in blocks.values() if block["type"] == "text")
    found.calls, found.ids = [(use["name"], use["json"]) for use in uses], [use["id"] for use in uses]
    return found


def of_response(body: Fields) -> Told:
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    calls = [item for item in body["output"] if item["type"] == "function_call"]
    reason = {"content_filter": "content_filter"}.get((body["incomplete_details"] or {}).get("reason"), "length")
    reason = reason if body["status"] == "incomplete" else "tool_calls" if calls else "stop"
    text = "".join(part.get("text", "") for part in parts)
    return Told(200, text, [(call["name"], call["arguments"]) for call in calls], [call["call_id"] for call in calls], reason)


def of_response_events(events: list[bytes]) -> Told:
    last = json.loads(events[-1])
    if last["type"] in ("response.failed", "error"):
        return Told(200, error=last.get("response", last).get("error", last))
    return of_response(last["response"])


def oddities(kind: str, provider: str = "scripted") -> float:
    return metrics.upstream_oddities_total.labels(provider, kind)._value.get()


# --- Events that are no objects -------------------------------------------------------------------------------------

NO_OBJECTS = [
    b": keepalive",
    b"ping",
    b"null",
    b"[]",
    b'"ping"',
    b"0",
    b"true",
    b"[1]",
    b"[[",
    b"OPENROUTER PROCESSING",
    b"\xff",
    b"  ",
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_that_is_no_object_is_skipped_and_counted(api, alice, upstream, kind, subtests):
    serve(upstream, kind)
    slug = f"of-{kind.partition('-')[0]}"
    no_objects = b"".join(b"data: %s\n\n" % each for each in NO_OBJECTS)
    for language in LANGUAGES:
        with subtests.test(language), undone():
            upstream.will(stream(no_objects, *(piece for each in EVENTS[kind] for piece in (each, no_objects))))
            before = oddities("skipped_event", slug)
            found = told(api, language, is_streamed=True)
            assert (found.status, found.text, found.reason, found.error) == (200, "Hello you", "stop", None)
            assert oddities("skipped_event", slug) - before >= 2 * len(NO_OBJECTS)
            assert Completion.objects.get().settlement == Completion.Settlement.REPORTED


def test_events_that_are_no_objects_have_a_bound(api, alice, large, upstream):
    upstream.will(stream(ROLE, words("Hello"), b"data: ping\n\n" * 1_001, FINISH, DONE))
    *_, last = ask_streamed(api).streaming_content
    assert b'"error"' in last


def test_a_broken_object_is_no_signal_of_life(api, alice, large, upstream):
    """It may have had a part of the reply in it."""
    upstream.will(stream(ROLE, words("Hello"), b'data: {"choices":[{"ind\n\n', words("you"), FINISH, DONE))
    *_, last = ask_streamed(api).streaming_content
    assert b'"error"' in last


# --- Framing --------------------------------------------------------------------------------------------------------

BOM = b"\xef\xbb\xbf"
FRAMES = {
    "no end": lambda raw: raw.rstrip(),
    "one LF": lambda raw: raw.rstrip() + b"\n",
    "one CRLF": lambda raw: raw.rstrip() + b"\r\n",
    "one CR": lambda raw: raw.rstrip() + b"\r",
    "CR alone": lambda raw: raw.replace(b"\n", b"\r"),
    "CRLF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "byte order mark": lambda raw: BOM + raw,
    "byte order mark in the data": lambda raw: b"data: " + BOM + raw[6:] if raw.startswith(b"data: ") else raw,
    "rest of an event": lambda raw: raw + b"data: {",
    "no blank lines": lambda raw: b"\n".join(line for line in raw.splitlines() if line.startswith(b"data")) + b"\n\n",
    "data: twice": lambda raw: raw.replace(b"data: ", b"data: data: "),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_read_however_it_is_framed(api, upstream, kind, subtests):
    serve(upstream, kind)
    raw = b"".join(EVENTS[kind])
    closed = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    for name, frame in FRAMES.items():
        for ending, script in {"chunked": stream(frame(raw)), "closed": [closed, frame(raw), CLOSE]}.items():
            with subtests.test(f"{name}, {ending}"), undone():
                upstream.will(script)
                found = told(api, "chat", is_streamed=True)
                assert (found.text, found.reason, found.error) == ("Hello you", "stop", None)
                assert Completion.objects.get().settlement == Completion.Settlement.REPORTED


@pytest.mark.parametrize("kind", KINDS)
def test_json_may_begin_with_a_byte_order_mark(api, upstream, kind):
    serve(upstream, kind)
    upstream.will(reply(BOM + body_of(WHOLE[kind])))
    assert told(api, "chat", is_streamed=False).text == "Hello you"


@pytest.mark.parametrize("end", [b'data: {"choices":[{"index":0,"delta":{"content":"yo', b"data: [DO", b"da"])
def test_what_is_left_at_the_end_is_no_end(api, alice, large, upstream, end):
    upstream.will(stream(ROLE, words("Hello "), end))
    *_, last = ask_streamed(api).streaming_content
    assert b'"error"' in last


# --- The end is never invented --------------------------------------------------------------------------------------


def call(index: int, arguments: Any = "{}", **members: Any) -> Fields:
    return {"index": index, "id": f"c{index}", "type": "function", "function": {"name": "f", "arguments": arguments}, **members}


def called(*calls: Fields, **members: Any) -> bytes:
    return chunk({"tool_calls": list(calls)}, **members)


CUT = {
    "stream": stream(ROLE, called(call(0, '{"path":"a')), DONE),
    "stream of an old call": stream(ROLE, chunk({"function_call": {"name": "f", "arguments": '{"a'}}), DONE),
    "second call": stream(ROLE, called(call(0, '{"a":1}'), call(1, '{"b"')), DONE),
    "whole": whole(message={"content": None, "tool_calls": [call(0, '{"path":"a')]}, finish_reason=None),
    "an event that is an error": stream(ROLE, words("Hello "), b"event: error\ndata: timed out\n\n", DONE),
    "another error": stream(ROLE, words("Hello "), b'event: error\ndata: {"msg":"timed out"}\n\n', DONE),
    "Groq's": stream(ROLE, words("Hello "), chunk(choices=[], x_groq={"error": "over_capacity"}), DONE),
    "text that is none": stream(ROLE, words("Hello "), chunk({"content": 5}), FINISH, DONE),
    "a refusal that is no text": stream(ROLE, words("Hello "), chunk({"refusal": {"a": 1}}), FINISH, DONE),
    "a call without a name": stream(ROLE, called(call(0, function={"arguments": "{}"})), FINISH, DONE),
    "whole, a call without a name": whole(message={"content": None, "tool_calls": [call(0, function={"arguments": "{}"})]}),
    "whole, a refusal that is no text": whole(message={"content": "Hello", "refusal": 5}),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CUT)
def test_arguments_that_were_cut_are_a_broken_reply(api, alice, large, upstream, language, case):
    upstream.will(CUT[case])
    found = told(api, language, is_streamed=not case.startswith("whole"))
    assert found.error
    assert found.status != 500
    assert found.reason is None
    assert not Hold.objects.filter(state=Hold.State.HELD).exists()


# --- The normal form ------------------------------------------------------------------------------------------------

ONE_CALL, TWO_CALLS = [("f", "{}")], [("f", '{"a":1}'), ("f", '{"a":2}')]
ONE_ID = [call(0, '{"a":1}', id="c"), call(1, '{"a":2}', id="c")]
NO_IDS = [call(0, '{"a":1}', id=""), call(1, '{"a":2}', id=None)]
# id -> (deltas, finish reason, calls, reason)
DELTAS: dict[str, tuple[list[Fields], str | None, list[tuple[str, str]], str]] = {
    "an empty role later": ([{"content": "a"}, {"role": "", "content": "b"}], "stop", [], "stop"),
    "a role of null later": ([{"content": "a"}, {"content": "b", "role": None}], "stop", [], "stop"),
    "the role model": ([{"role": "model", "content": "a"}, {"role": "model", "content": "b"}], "stop", [], "stop"),
    "arguments are empty": ([{"tool_calls": [call(0, "")]}], "tool_calls", ONE_CALL, "tool_calls"),
    "arguments are null": ([{"tool_calls": [call(0, None)]}], "tool_calls", ONE_CALL, "tool_calls"),
    "arguments are the text null": ([{"tool_calls": [call(0, "null")]}], "tool_calls", ONE_CALL, "tool_calls"),
    "arguments are white space": ([{"tool_calls": [call(0, " ")]}], "tool_calls", ONE_CALL, "tool_calls"),
    "no arguments": ([{"tool_calls": [call(0, function={"name": "f"})]}], "tool_calls", ONE_CALL, "tool_calls"),
    "arguments are an object": ([{"tool_calls": [call(0, {"a": 1})]}], "tool_calls", [("f", '{"a":1}')], "tool_calls"),
    "calls end with end_turn": ([{"tool_calls": [call(0)]}], "end_turn", ONE_CALL, "tool_calls"),
    "calls end with stop": ([{"tool_calls": [call(0)]}], "stop", ONE_CALL, "tool_calls"),
    "calls end with null": ([{"tool_calls": [call(0)]}], None, ONE_CALL, "tool_calls"),
    "two calls have one id": ([{"tool_calls": ONE_ID}], "stop", TWO_CALLS, "tool_calls"),
    "two calls have no id": ([{"tool_calls": NO_IDS}], "stop", TWO_CALLS, "tool_calls"),
    "an unknown type": ([{"tool_calls": [call(0, type="tool")]}], "stop", ONE_CALL, "tool_calls"),
    "nulls": ([{"content": "a", "tool_calls": None}, {"content": "b", "tool_calls": None}], "stop", [], "stop"),
    "thoughts that are no text": ([{"content": "a", "reasoning_content": {"x": 1}}], "stop", [], "stop"),
}  # fmt: skip


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
def test_calls_and_roles_are_brought_to_one_form(api, large, upstream, is_streamed, subtests):
    for name, (deltas, theirs, calls, reason) in DELTAS.items():
        message: Fields = {"role": deltas[0].get("role"), "content": "".join(each.get("content", "") for each in deltas)}
        message |= {"tool_calls": [{**each} for delta in deltas for each in delta.get("tool_calls", [])]} if calls else {}
        for language in LANGUAGES:
            with subtests.test(name, language=language), undone():
                end = [] if theirs is None else [chunk(finish_reason=theirs)]
                streamed = stream(*map(chunk, deltas), *end, usage(), DONE)
                upstream.will(streamed if is_streamed else whole(message=message, finish_reason=theirs))
                found = told(api, language, is_streamed=is_streamed)
                assert (found.text, found.calls, found.reason) == (message["content"], calls, reason)
                assert all(found.ids)
                assert len(set(found.ids)) == len(calls)


def test_a_call_that_was_cut_off_has_no_arguments_added(api, large, upstream):
    upstream.will(whole(message={"content": None, "tool_calls": [call(0, "")]}, finish_reason="length"))
    assert told(api, "chat", is_streamed=False).calls == [("f", "")]


# --- Finish reasons -------------------------------------------------------------------------------------------------

FINISH_REASONS = {
    "stop": ("stop", "STOP", "eos", "EOS", "end_turn", "stop_sequence", "end", None, ""),
    "length": ("length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded", "max_output_tokens"),
    "content_filter": ("content_filter", "sensitive", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "refusal"),
    "error": (
        *("error", "network_error", "insufficient_system_resource", "abort"),
        "function_call_filter: MALFORMED_FUNCTION_CALL",
    ),
}


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
def test_finish_reasons_of_openais_format(api, large, upstream, is_streamed, subtests):
    for ours, words_of_providers in FINISH_REASONS.items():
        for theirs in words_of_providers:
            for language in LANGUAGES:
                with subtests.test(f"{theirs} in {language}"), undone():
                    end = chunk(finish_reason=theirs)
                    upstream.will(stream(words("Hi"), end, usage(), DONE) if is_streamed else whole("Hi", finish_reason=theirs))
                    found = told(api, language, is_streamed=is_streamed)
                    assert found.reason == (None if ours == "error" else ours)
                    assert bool(found.error) == (ours == "error")
                    assert "x-gateway-finish-reason" not in (found.headers or {})


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
def test_an_unknown_finish_reason_is_stop_and_named_and_counted(api, upstream, kind):
    serve(upstream, kind)
    scripts = {
        "openai": (whole(finish_reason="Odd"), stream(words("Hi"), chunk(finish_reason="Odd"), DONE)),
        "anthropic": (claude.whole(stop_reason="Odd"), stream(claude.start(), claude.text("Hi"), claude.message_delta("Odd"))),
        "gemini": (gemini.whole("Hi", finish="Odd"), gemini.streamed(gemini.text_response("Hi", finish="Odd"))),
    }  # fmt: skip
    before = oddities("finish_reason", f"of-{kind}")
    upstream.will(*scripts[kind])
    found = told(api, "chat", is_streamed=False)
    assert (found.reason, found.headers["x-gateway-finish-reason"]) == ("stop", "Odd")
    assert told(api, "chat", is_streamed=True).reason == "stop"
    assert oddities("finish_reason", f"of-{kind}") == before + 2


# --- A stream begins with its first text ----------------------------------------------------------------------------

NOTHING_SAID = {
    "role": ROLE,
    "role and usage": ROLE + usage({"prompt_tokens": 9, "completion_tokens": 0}),
    "role alone": chunk({"role": "assistant"}),
    "empty texts": chunk({"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": []}),
    "white space before a tag": chunk({"content": "\n"}),
}
BREAKS: dict[str, list[Any]] = {
    "reset": [0.05, RESET],
    "end": [],
    "error": [event({"error": {"message": "overloaded"}})],
    "done": [b"data: {}\n\n"],
}


@pytest.mark.parametrize("said", NOTHING_SAID)
@pytest.mark.parametrize("broken", BREAKS)
def test_a_break_before_the_first_text_is_given_to_the_next_route(api, alice, large, upstream, spare, said, broken):
    add(large, spare)
    upstream.will(stream(NOTHING_SAID[said], *BREAKS[broken]))
    spare.will(stream(*EVENTS["openai"], DONE))
    found = told(api, "chat", is_streamed=True)
    assert (found.text, found.reason, found.error) == ("Hello you", "stop", None)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=9 * 3_000 + 2 * 15_000)


@pytest.mark.parametrize("kind", ["openai-responses", "anthropic", "gemini"])
def test_a_break_before_the_first_text_of_other_formats_is_given_to_the_next_route(api, upstream, spare, kind):
    serve(upstream, kind)
    add(LanguageModel.objects.get(pk="acme/large"), spare)
    begun = {
        "openai-responses": responses.begun(),
        "anthropic": claude.start() + claude.block_start(0, {"type": "text", "text": ""}),
        "gemini": event(gemini.response(usage={"promptTokenCount": 9})),
    }
    upstream.will(stream(begun[kind], 0.05, RESET))
    spare.will(stream(*EVENTS["openai"], DONE))
    assert told(api, "chat", is_streamed=True).text == "Hello you"


def test_while_a_model_thinks_the_role_comes_with_the_first_heartbeat(api, large, upstream, settings):
    """A proxy in between would end a connection on which nothing comes."""
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    upstream.will(stream(ROLE, 0.2, words("Hi"), FINISH, DONE))
    first = next(iter(ask_streamed(api).streaming_content))
    assert b'"role":"assistant"' in first
    assert b"Hi" not in first


# --- Content codings ------------------------------------------------------------------------------------------------


def bare(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "deflate without a header": ("deflate", bare),
    "two members": ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "padding": ("gzip", lambda data: gzip.compress(data) + b"\0\0"),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_compressed_reply_is_read(api, large, upstream, coding):
    name, compress = CODINGS[coding]
    upstream.will(reply(compress(body_of(whole())), content_encoding=name))
    assert told(api, "chat", is_streamed=False).text == "Hello you"
    assert upstream.requests[0].headers["accept-encoding"] == "identity"
    raw = compress(b"".join([*EVENTS["openai"], DONE]))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {name}\r\n".encode()
    pieces = [raw[:1], raw[1:30], 0.02, raw[30:]]
    upstream.will([head + b"\r\n", *pieces, CLOSE])
    assert told(api, "chat", is_streamed=True).text == "Hello you"


def test_the_words_of_a_compressed_refusal_are_read(api, large, upstream):
    body = json.dumps({"error": {"message": "temperature is odd"}}).encode()
    upstream.will(reply(gzip.compress(body), status=400, content_encoding="gzip"))
    found = told(api, "chat", is_streamed=False)
    assert found.status == 400
    assert "temperature is odd" in found.error["message"]


@pytest.mark.parametrize("coding", [("br", b"\x0b\x02\x80"), ("gzip", b"no gzip"), ("gzip", gzip.compress(b"{}" * 99)[:-9])])
def test_a_reply_that_cannot_be_decompressed_is_a_502(api, alice, large, upstream, coding):
    name, raw = coding
    upstream.will(reply(raw, content_encoding=name))
    assert told(api, "chat", is_streamed=False).status == 502


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_what_is_in_a_compressed_reply_is_bounded(api, alice, large, upstream, is_streamed, settings):
    settings.UPSTREAM_REPLY_BYTES_MAX = settings.UPSTREAM_EVENT_BYTES_MAX = 100_000
    bomb = gzip.compress(b"data: " + b" " * 100_000_000)
    upstream.will(reply(bomb, content_type="text/event-stream", content_encoding="gzip"))
    assert told(api, "chat", is_streamed=is_streamed).status == 502


def test_a_large_compressed_body_is_whole(api, large, upstream):
    text = "".join(chr(97 + (place * place) % 26) for place in range(300_000)) * 9
    upstream.will(reply(gzip.compress(body_of(whole(text))), content_encoding="gzip"))
    assert told(api, "chat", is_streamed=False).text == text


# --- The other form -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_events_for_a_whole_request_and_json_for_a_stream(api, upstream, kind, subtests):
    serve(upstream, kind)
    events = b"".join(EVENTS[kind])
    for language in LANGUAGES:
        for is_streamed, script in ((False, stream(events)), (False, reply(events)), (True, WHOLE[kind])):
            with subtests.test(f"{language}, {is_streamed}"), undone():
                upstream.will(script)
                found = told(api, language, is_streamed=is_streamed)
                assert (found.text, found.reason, found.error) == ("Hello you", "stop", None)
                assert Completion.objects.get().settlement == Completion.Settlement.REPORTED


def test_json_for_a_stream_may_come_after_blank_lines(api, large, upstream):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n\n"
    upstream.will([head, 0.05, b"\n\n", 0.05, body_of(whole()), CLOSE])
    assert told(api, "chat", is_streamed=True).text == "Hello you"


def test_json_for_a_stream_that_is_cut_is_not_asked_for_again(api, alice, large, upstream):
    """It was generated, so the provider would charge for each."""
    upstream.will([b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + body_of(whole())[:50], 0.05, CLOSE])
    assert told(api, "chat", is_streamed=True).status == 502
    assert len(upstream.requests) == 1
    assert_released(alice)


# Deltas of a stream for a whole request -> its text and calls.
OTHER_FORM: dict[str, tuple[list[bytes], str, list[tuple[str, str]]]] = {
    "nulls": ([chunk({"content": each, "tool_calls": None, "refusal": None}) for each in ("Hello ", "you")], "Hello you", []),
    "lists": ([chunk({"content": "a", "x": [1]}), chunk({"x": [{"index": 0}]}), chunk({"x": [{"index": 0}]})], "a", []),
    "a message": ([chunk(choices=[{"index": 0, "message": {"content": "Hello you"}}])], "Hello you", []),
    "a message at the end": ([words("Hi"), chunk(choices=[{"index": 0, "message": {"content": "Hi"}}])], "Hi", []),
    "a name that comes late": (
        [called(call(0, function={"arguments": '{"a"'})), called({"index": 0, "function": {"name": "f", "arguments": ":1}"}})],
        "",
        [("f", '{"a":1}')],
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_odd_deltas_are_put_together(api, large, upstream, is_streamed, subtests):
    for case, (deltas, text, calls) in OTHER_FORM.items():
        for language in LANGUAGES:
            with subtests.test(f"{case}, {language}"), undone():
                upstream.will(stream(*deltas, FINISH, usage(), DONE))
                found = told(api, language, is_streamed=is_streamed)
                assert (found.text, found.calls, found.error) == (text, calls, None)


def test_a_list_of_geminis_responses_is_a_stream(api, upstream):
    serve(upstream, "gemini")
    upstream.will(reply(json.dumps(gemini.HELLO).encode()))
    assert told(api, "chat", is_streamed=True).text == "Hello you"
    assert told(api, "chat", is_streamed=False).text == "Hello you"


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_calls_and_thoughts_in_the_other_form(api, large, upstream, is_streamed):
    thought = {"role": "assistant", "content": None, "reasoning_content": "Hm. Yes."}
    calls = [call(0, '{"a":1}'), call(1, '{"b":2}')]
    pieces: list[Fields] = [
        {"role": "assistant", "reasoning_content": "Hm. "},
        {"reasoning_content": "Yes."},
        {"tool_calls": [call(0, '{"a"')]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {"tool_calls": [calls[1]]},
    ]
    streamed = stream(*[chunk(piece) for piece in pieces], chunk(finish_reason="tool_calls"), usage(), DONE)
    upstream.will(whole(message={**thought, "tool_calls": calls}, finish_reason="tool_calls") if is_streamed else streamed)
    found = told(api, "chat", is_streamed=is_streamed)
    assert (found.calls, found.reason) == ([("f", '{"a":1}'), ("f", '{"b":2}')], "tool_calls")
    assert found.ids == ["c0", "c1"]


def test_an_error_in_the_other_form_is_an_error(api, alice, large, upstream):
    upstream.will(stream(event({"error": {"message": "overloaded", "code": 503}})))
    assert told(api, "chat", is_streamed=False).status == 503
    assert_released(alice)
