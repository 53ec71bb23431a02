"""The Anthropic adapter against a real server on loopback: requests, replies, refusals, failures and charges."""

import json
import logging

import pytest

from completions.models import Completion, Price
from tests import factories
from tests.chat import assert_error, prompt_bytes, reasoning
from tests.completions.providers.anthropic.scripts import (
    PING,
    STOP,
    block_delta,
    block_start,
    error,
    event,
    message,
    message_delta,
    refusal,
    start,
    streamed,
    text,
    text_block,
    thinking_block,
    thoughts,
    tool,
    tool_use_block,
    whole,
)
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import (
    MESSAGES,
    PROMPT_ESTIMATE,
    ask,
    ask_streamed,
    assert_charged,
    assert_released,
    begin,
    disconnect,
    events,
    parsed,
)
from tests.completions.rows import text as all_text
from tests.upstream import CLOSE, HANG, KEY, KEY_ENV, RESET, at_once, reply, stream

pytestmark = pytest.mark.usefixtures("claude")

# 4 read anew, 100 from a cache, 20 into one, 7 generated.
REPORTED = {"prompt": 124, "cached": 100, "completion": 7, "nanos": 4 * 3_000 + 100 * 300 + 20 * 3_750 + 7 * 15_000}


def partly(completion):
    """Return the charge for the reported prompt and this many completion tokens."""
    return {**REPORTED, "completion": completion, "nanos": REPORTED["nanos"] + (completion - 7) * 15_000}


@pytest.fixture
def claude(upstream, db):
    """A model at the scripted upstream: 3,000 nanodollars per prompt token, 300 cached, 3,750 written to a cache, 15,000 per
    completion token."""
    base_url = upstream.url.removesuffix("/v1")
    provider = factories.make_provider("claude", kind="anthropic", base_url=base_url, api_key_env=KEY_ENV)
    model = factories.make_model(
        "acme/large", provider=provider, input="3.00", output="15.00", cached_input="0.30", upstream_model="claude-haiku-4-5"
    )
    factories.change_prices(Price.objects.filter(model=model), cache_write_nanos=3_750_000_000)
    upstream.will(whole())
    return model


def choices(received):
    """Return the choices of a stream's events, without the [DONE]."""
    assert received.pop() == "[DONE]"
    return [choice for each in received for choice in each["choices"]]


# --- Requests ----------------------------------------------------------------------------------------------------


def test_request_has_the_provider_format_and_key(api, alice, upstream):
    system = {"role": "system", "content": "Be brief."}
    fields = {"max_tokens": 17, "stop": "END", "temperature": 1.5, "seed": 7, "service_tier": "scale", "user": "u-1"}
    assert ask(api, messages=[system, *MESSAGES], **fields).status_code == 200
    [asked] = upstream.requests
    assert asked.path == "/v1/messages"
    assert (asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in asked.headers
    assert asked.body == {
        "model": "claude-haiku-4-5",
        "max_tokens": 17,
        "stream": False,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": MESSAGES[0]["content"]}]}],
        "temperature": 1,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u-1"},
    }


def test_limit_that_the_hold_pays_for_is_sent_without_max_tokens(api, alice, upstream):
    ask(api)
    cap = upstream.requests[0].body["max_tokens"]
    assert cap == 4096
    # As if the whole prompt were written to a cache.
    assert alice.holds.get().amount_nanos == prompt_bytes(MESSAGES) * 3_750 + cap * 15_000


def test_stream_is_requested(api, upstream):
    upstream.will(streamed())
    events(ask_streamed(api, stream_options={"include_usage": True}))
    [asked] = upstream.requests
    assert asked.body["stream"] is True
    assert asked.headers["accept"] == "text/event-stream"
    assert "stream_options" not in asked.body


def test_no_key_is_sent_to_an_upstream_without_one(api, upstream):
    provider = factories.make_provider("open", kind="anthropic", base_url=upstream.url.removesuffix("v1"))
    factories.make_model("acme/open", provider=provider)
    assert ask(api, model="acme/open").status_code == 200
    assert "x-api-key" not in upstream.requests[0].headers
    assert upstream.requests[0].path == "/v1/messages"


def test_unsupported_request_is_refused_before_anything_happens(api, alice, upstream):
    assert_error(ask(api, logprobs=True), 400, "invalid_request_error", "logprobs")
    assert_error(ask(api, stop=["\n"], stream=True), 400, "invalid_request_error", "stop")
    system = [{"role": "system", "content": "Be brief."}]
    assert_error(ask(api, messages=system), 400, "invalid_request_error", "messages")
    assert upstream.requests == []
    assert not Completion.objects.exists()
    assert not alice.holds.exists()


def test_model_is_listed_as_available(api):
    [listed] = [model for model in api.get("/v1/models").json()["data"] if model["id"] == "acme/large"]
    assert listed["available"] is True
    assert listed["pricing"]["input_cache_write"] == "0.00000375"


# --- Whole replies -----------------------------------------------------------------------------------------------


def test_whole_reply_becomes_a_chat_completion_and_is_charged(api, alice, upstream):
    blocks = [
        thinking_block("Let me see."),
        text_block("It is "),
        text_block("sunny."),
        tool_use_block("toolu_1", "weather", city="Köln"),
    ]
    upstream.will(whole(*blocks, stop_reason="tool_use"))
    answer = ask(api).json()
    [detail] = answer["choices"][0]["message"]["reasoning_details"]
    assert detail.pop("signature").startswith("sealed.")
    function = {"name": "weather", "arguments": '{"city":"Köln"}'}
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "acme/large"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "It is sunny.",
                "refusal": None,
                **reasoning("Let me see.", "anthropic-claude-v1"),
                "tool_calls": [{"id": "toolu_1", "type": "function", "function": function}],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ]
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (124, 7, 131)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 100
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 3
    assert_charged(alice, "reported", **REPORTED)


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": -4, "output_tokens": 7}, {"input_tokens": 4}])
def test_whole_reply_without_valid_usage_is_estimated(api, alice, upstream, usage):
    upstream.will(whole(text_block("x" * 8), thinking_block("y" * 4), usage=usage))
    assert ask(api).json()["usage"]["total_tokens"] == PROMPT_ESTIMATE + 3
    assert_charged(alice, "estimated", prompt=5, completion=3, nanos=5 * 3_000 + 3 * 15_000)


def test_explicit_zero_usage_costs_nothing(api, alice, upstream):
    upstream.will(whole(usage={"input_tokens": 0, "output_tokens": 0}))
    ask(api)
    assert_charged(alice, "reported", prompt=0, completion=0, nanos=0)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"null", b'{"type":"message"}', b'{"choices":[{"message":{"content":"x"}}]}', b"[" * 90_000],
    ids=["empty", "html", "null", "no content", "another format", "too deep"],
)
def test_unusable_whole_reply_costs_nothing(api, alice, upstream, body):
    upstream.will(reply(body))
    assert_error(ask(api), 502, "upstream_error")
    assert_released(alice)


def test_truncated_whole_reply_costs_nothing(api, alice, upstream):
    upstream.will([b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + json.dumps(message()).encode(), RESET])
    assert_error(ask(api), 502, "upstream_error")
    assert_released(alice)


# --- Streams -----------------------------------------------------------------------------------------------------


def test_stream_becomes_our_chunks(api, alice, upstream):
    blocks = (
        thoughts("Let me ", "see.") + text("It is ", "sunny.", index=1) + tool("toolu_1", "weather", '{"a":', "1}", index=2)
    )
    upstream.will(stream(start(), PING, blocks, message_delta("tool_use"), STOP))
    received = events(ask_streamed(api))
    assert len({(each["id"], each["created"], each["model"], each["object"]) for each in received[:-1]}) == 1
    assert not any("usage" in each for each in received[:-1])
    opening = {"index": 0, "id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    deltas = [(choice["delta"], choice["finish_reason"]) for choice in choices(received)]
    signed = deltas[3][0]["reasoning_details"][0]
    assert {**signed, "signature": signed["signature"][:7]} == {
        "type": "reasoning.text",
        "signature": "sealed.",
        "format": "anthropic-claude-v1",
        "index": 0,
    }
    assert deltas == [
        ({"role": "assistant", "content": ""}, None),
        (reasoning("Let me ", "anthropic-claude-v1"), None),
        (reasoning("see.", "anthropic-claude-v1"), None),
        ({"reasoning_details": [signed]}, None),
        ({"content": "It is "}, None),
        ({"content": "sunny."}, None),
        ({"tool_calls": [opening]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}, None),
        ({}, "tool_calls"),
    ]
    assert_charged(alice, "reported", **REPORTED)


def test_usage_is_sent_at_the_end_when_requested(api, upstream):
    upstream.will(streamed())
    *chunks, last, done = events(ask_streamed(api, stream_options={"include_usage": True}))
    assert done == "[DONE]"
    assert (last["choices"], last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == ([], 124, 7)
    assert [each["usage"] for each in chunks] == [None] * 4


SPELT = start() + PING + text("Hello ", '"type":"error" é漢😀 \\ \n', "you") + message_delta() + STOP
SPELLINGS = {
    "at once": [SPELT],
    "a byte at a time": [bytes([byte]) for byte in SPELT],
    "with CRLF": [SPELT.replace(b"\n", b"\r\n")],
    "without names": [b"".join(line + b"\n" for line in SPELT.split(b"\n") if not line.startswith(b"event:"))],
    "without the last blank line": [SPELT.removesuffix(b"\n\n")],
    "without its last event": [SPELT.removesuffix(STOP)],
    "with more after the end": [SPELT, text("never"), message_delta("max_tokens", {"output_tokens": 1}), STOP],
    "broken after the reason": [SPELT.removesuffix(STOP), 0.05, RESET],
    "an error after the reason": [SPELT.removesuffix(STOP), event(error("api_error"))],
    "ended twice": [SPELT.replace(STOP, message_delta() + STOP + STOP)],
    "with events to come": [SPELT.replace(PING, event({"type": "message_news", "news": [1]}) + PING + b": ping\n\n")],
}


@pytest.mark.parametrize("steps", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_stream_is_read_in_every_valid_framing(api, alice, upstream, steps):
    upstream.will(stream(*steps))
    received = events(ask_streamed(api))
    assert all_text(received) == 'Hello "type":"error" é漢😀 \\ \nyou'
    assert [choice["finish_reason"] for choice in choices(received) if choice["finish_reason"]] == ["stop"]
    assert_charged(alice, "reported", **REPORTED)


def test_deltas_are_passed_on_as_they_arrive(api, alice, upstream):
    let_providers_cancel()
    upstream.will(stream(start(), block_start(0, text_block("")), 0.05, block_delta(0, "text_delta", text="Hello "), HANG))
    answer = ask_streamed(api)
    raw, _ = begin(answer, "Hello ")  # chunks arrive although the upstream is silent afterwards
    assert [choice["delta"] for each in parsed(raw) for choice in each["choices"]] == [
        {"role": "assistant", "content": ""},
        {"content": "Hello "},
    ]
    disconnect(answer)
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **partly(2))


def test_disconnect_during_thinking_charges_the_prompt_and_the_thinking(api, alice, upstream):
    let_providers_cancel()
    upstream.will(
        stream(start() + block_start(0, thinking_block("")) + block_delta(0, "thinking_delta", thinking="y" * 20), HANG)
    )
    disconnect(ask_streamed(api))
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **partly(5))


def test_disconnect_after_the_last_count_charges_the_reported_usage(api, alice, upstream):
    let_providers_cancel()
    upstream.will(stream(start() + text("Hello ") + message_delta(), HANG))
    disconnect(ask_streamed(api))
    assert_charged(alice, "reported", **REPORTED)


def test_completion_is_estimated_without_a_last_count(api, alice, upstream):
    upstream.will(stream(start(), text("x" * 17), message_delta(usage=None), STOP))
    assert events(ask_streamed(api))[-1] == "[DONE]"
    assert_charged(alice, "reported", **partly(5))


@pytest.mark.parametrize("usage", [{}, {"input_tokens": -1, "output_tokens": 1}, {"input_tokens": 10**10, "output_tokens": 1}])
def test_usage_is_estimated_without_a_valid_count_of_the_prompt(api, alice, upstream, usage):
    upstream.will(stream(start(usage), text("x" * 17), message_delta(), STOP))
    assert events(ask_streamed(api))[-1] == "[DONE]"
    assert_charged(alice, "estimated", prompt=5, completion=5, nanos=5 * 3_000 + 5 * 15_000)


def test_usage_beyond_the_hold_costs_the_hold(api, alice, upstream):
    upstream.will(stream(start(), text("x"), message_delta(usage={"output_tokens": 1_000_000}), STOP))
    events(ask_streamed(api))
    hold = alice.holds.get()
    assert hold.settled_nanos == hold.amount_nanos


def test_stop_reason_refusal_becomes_content_filter(api, alice, upstream):
    upstream.will(stream(start(), message_delta("refusal"), STOP))
    received = events(ask_streamed(api))
    assert [choice["finish_reason"] for choice in choices(received)] == [None, "content_filter"]
    assert_charged(alice, "reported", **REPORTED)


# --- Failing streams ---------------------------------------------------------------------------------------------

ERRORS = [
    ("overloaded_error", 503, "overloaded"),
    ("rate_limit_error", 503, "overloaded"),
    ("timeout_error", 504, "in time"),
    ("api_error", 502, "failed"),
    ("authentication_error", 502, "failed"),
    ("billing_error", 502, "failed"),
    ("news", 502, "failed"),
]


@pytest.mark.parametrize("before", [b"", start(), start() + PING, start() + block_start(0, text_block(""))], ids=range(4))
@pytest.mark.parametrize(("kind", "status", "words"), ERRORS, ids=[row[0] for row in ERRORS])
def test_error_before_the_first_text_is_an_error_status_and_costs_nothing(api, alice, upstream, before, kind, status, words):
    upstream.will(stream(before + event(error(kind, "secret words"))))
    failure = assert_error(ask_streamed(api), status, "upstream_error")
    assert words in failure["message"]
    assert "secret" not in failure["message"]
    assert_released(alice)


def test_refusal_within_the_stream_gives_its_reason(api, alice, upstream):
    upstream.will(stream(event(error("invalid_request_error", "too many images."))))
    assert "too many images." in assert_error(ask_streamed(api), 400, "invalid_request_error")["message"]
    assert_released(alice)


@pytest.mark.parametrize(("kind", "status", "words"), ERRORS, ids=[row[0] for row in ERRORS])
def test_error_in_the_middle_is_one_event_and_costs_what_was_relayed(api, alice, upstream, kind, status, words):
    upstream.will(stream(start(), text("Hello "), event(error(kind))))
    *chunks, last = events(ask_streamed(api))
    assert all_text(chunks) == "Hello "
    assert last["error"]["code"] == "upstream_error"
    assert words in last["error"]["message"]
    assert list(last) == ["error"]
    assert_charged(alice, "partial", **partly(2))


BREAKS = {
    "ended": [],
    "closed": [CLOSE],
    "reset": [0.05, RESET],
    "no JSON": [b"data: {\n\n"],
    "no event": [b"data: 7\n\n"],
    "no delta": [event({"type": "content_block_delta", "index": 0})],
    "ended without a reason": [message_delta(None), STOP],
}


@pytest.mark.parametrize("steps", BREAKS.values(), ids=BREAKS.keys())
def test_broken_stream_ends_in_an_error_and_costs_what_was_relayed(api, alice, upstream, steps):
    upstream.will(stream(start(), text("x" * 28), *steps))
    *chunks, last = events(ask_streamed(api))
    assert all_text(chunks) == "x" * 28
    assert last["error"]["code"] == "upstream_error"
    assert_charged(alice, "partial", **partly(7))


def test_endless_event_is_bounded(api, alice, upstream, settings):
    settings.UPSTREAM_EVENT_BYTES_MAX = 5_000
    upstream.will(stream(start() + text("Hello "), 0.05, b"data: " + b"x" * 10_000, HANG))
    assert events(ask_streamed(api))[-1]["error"]["code"] == "upstream_error"
    assert upstream.sees_disconnect()
    assert_charged(alice, "partial", **partly(2))


@pytest.mark.parametrize(
    "first",
    [b"", b"<html>", STOP, start(), start() + PING, b"data: [DONE]\n\n", b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'],
    ids=["empty", "html", "end", "start", "ping", "done", "another format"],
)
def test_unusable_stream_is_an_error_status_and_costs_nothing(api, alice, upstream, first):
    upstream.will(stream(first))
    assert_error(ask_streamed(api), 502, "upstream_error")
    assert_released(alice)


def test_silence_after_the_first_event_costs_nothing(api, alice, upstream, settings):
    settings.UPSTREAM_IDLE_SECONDS = settings.STREAM_HEARTBEAT_SECONDS = 0.1
    upstream.will(at_once(stream(start(), HANG)))
    assert_error(ask_streamed(api), 504, "upstream_error")
    assert upstream.sees_disconnect()
    assert_released(alice)


# --- Refusals ----------------------------------------------------------------------------------------------------

REFUSALS = [
    (400, "invalid_request_error", 400, "invalid_request_error"),
    (413, "request_too_large", 400, "invalid_request_error"),
    (401, "authentication_error", 502, "upstream_error"),
    (402, "billing_error", 502, "upstream_error"),
    (403, "permission_error", 502, "upstream_error"),
    (404, "not_found_error", 502, "upstream_error"),
    (429, "rate_limit_error", 503, "upstream_error"),
    (500, "api_error", 502, "upstream_error"),
    (504, "timeout_error", 504, "upstream_error"),
    (529, "overloaded_error", 503, "upstream_error"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("theirs", "kind", "ours", "code"), REFUSALS, ids=[row[1] for row in REFUSALS])
def test_refusal_is_translated_and_costs_nothing(api, alice, upstream, theirs, kind, ours, code, stream):
    upstream.will(refusal(theirs, kind, "a reason.", retry_after="7"))
    answer = ask(api, stream=stream)
    failure = assert_error(answer, ours, code)
    assert ("a reason." in failure["message"]) == (ours == 400)
    assert answer.get("Retry-After") == ("7" if ours == 503 else None)
    assert len(upstream.requests) == 1
    assert_released(alice)


@pytest.mark.parametrize(
    "reason",
    [
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        "This organization has been disabled.",
    ],
    ids=["credit", "limit", "disabled"],
)
def test_failure_of_our_account_is_not_reported_as_the_callers(api, alice, upstream, caplog, reason):
    for script in (
        refusal(400, "invalid_request_error", reason),
        reply(json.dumps(error("invalid_request_error", reason)).encode()),
    ):
        upstream.will(script)
        failure = assert_error(ask(api), 502, "upstream_error")
        assert failure["message"] == "The model's provider failed. Try again later."
    assert reason[:20] in caplog.text  # for the operator


def test_api_key_is_in_no_message_and_no_log(api, upstream, caplog):
    caplog.set_level(logging.DEBUG)
    for kind in ("invalid_request_error", "authentication_error"):
        broken = stream(start(), text("x"), event(error(kind, f"key {KEY}.")))
        for script, fields in [(refusal(400, kind, f"key {KEY}."), {}), (broken, {"stream": True})]:
            upstream.will(script)
            answer = ask(api, **fields)
            shown = str(events(answer)) if answer.streaming else answer.content.decode()
            assert KEY[:12] not in shown
    assert KEY[:12] not in caplog.text
