"""The Gemini adapter against a real server on loopback: requests, replies, refusals, failures and charges."""

import json
from typing import Any

import pytest

from tests import factories
from tests.chat import prompt_bytes, reasoning
from tests.completions import rows
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.providers.gemini.scripts import (
    HELLO,
    SIGNATURE,
    USAGE,
    answered,
    call,
    error,
    response,
    streamed,
    text_response,
    thought_part,
)
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import MESSAGES, assert_charged, assert_released, disconnect, events, text
from tests.upstream import CLOSE, HANG, KEY, KEY_ENV, RESET, at_once, reply, stream

MODEL = "google/flash"


@pytest.fixture(autouse=True)
def flash(upstream, db):
    """A model at the scripted upstream: 3,000 nanodollars per prompt token (300 cached), 15,000 per completion token."""
    upstream.will(gemini.whole("Hello you"))
    base_url = upstream.url.removesuffix("/v1")
    provider = factories.make_provider("google", kind="gemini", base_url=base_url, api_key_env=KEY_ENV)
    return factories.make_model(
        MODEL, provider=provider, input="3.00", output="15.00", cached_input="0.30", upstream_model="gemini-3.5-flash"
    )


def ask(api, **fields):
    return rows.ask(api, **{"model": MODEL, **fields})


def ask_streamed(api, **fields):
    return ask(api, stream=True, **fields)


def charged(alice, settlement, **usage):
    assert_charged(alice, settlement, **usage, model=MODEL)


# --- Requests ----------------------------------------------------------------------------------------------------


def test_request_has_the_provider_format_and_key(api, upstream):
    system = {"role": "system", "content": "Be brief."}
    assert ask(api, messages=[system, *MESSAGES], max_tokens=17, temperature=0, stop="\n").status_code == 200
    [asked] = upstream.requests
    assert asked.path == "/v1beta/models/gemini-3.5-flash:generateContent"
    assert asked.body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Say hello, please."}]}],
        "generationConfig": {"maxOutputTokens": 17, "temperature": 0, "stopSequences": ["\n"]},
    }
    assert asked.headers["x-goog-api-key"] == KEY
    assert "authorization" not in asked.headers
    assert "mgw_live_" not in json.dumps([asked.headers, asked.body])


def test_stream_is_requested_as_events(api, upstream):
    upstream.will(streamed(*HELLO))
    events(ask_streamed(api))
    [asked] = upstream.requests
    assert asked.path == "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse"
    assert asked.headers["accept"] == "text/event-stream"


def test_limit_that_the_hold_pays_for_is_sent_without_max_tokens(api, alice, upstream):
    ask(api)
    assert upstream.requests[0].body["generationConfig"] == {"maxOutputTokens": 4096}
    assert alice.holds.get().amount_nanos == prompt_bytes(MESSAGES) * 3_000 + 4096 * 15_000


def test_model_name_is_escaped_in_the_address(api, upstream, flash):
    flash.routes.update(upstream_model="tuned/x?key=1")
    ask(api)
    assert upstream.requests[0].path == "/v1beta/models/tuned%2Fx%3Fkey%3D1:generateContent"


def test_no_key_is_sent_to_an_upstream_without_one(api, upstream, flash):
    flash.routes.get().provider.__class__.objects.update(api_key_env="")
    assert ask(api).status_code == 200
    assert "x-goog-api-key" not in upstream.requests[0].headers


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"role": "system", "content": "Be brief."}]}, "messages"),
        ({"stop": list("abcdef")}, "stop"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"tools": [{"type": "google_search"}]}, "tools[0].type"),
    ],
)
def test_unsupported_request_is_refused_before_anything_happens(api, alice, upstream, fields, param):
    answer = ask(api, **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert upstream.requests == []
    assert not alice.holds.exists()
    assert not alice.completions.exists()


# --- Replies -----------------------------------------------------------------------------------------------------


def test_whole_reply_is_passed_on_and_charged(api, alice, upstream):
    usage = {
        "promptTokenCount": 9,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 14,
    }
    upstream.will(gemini.whole(parts=(thought_part("Hm."), {"text": "Hello "}, {"text": "you"}), usage=usage))
    answer = ask(api).json()
    assert answer["model"] == MODEL
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello you", "refusal": None, **reasoning("Hm.", "google-gemini-v1")},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3},
        "cost": 0.000_091_2,
    }
    charged(alice, "reported", prompt=9, cached=4, completion=5, nanos=5 * 3_000 + 4 * 300 + 5 * 15_000)


def test_stream_is_passed_on_in_chunks_and_charged(api, alice, upstream):
    upstream.will(streamed(*HELLO))
    *chunks, done = events(ask_streamed(api, stream_options={"include_usage": True}))
    assert done == "[DONE]"
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) == 1
    assert [(choice["delta"], choice["finish_reason"]) for chunk in chunks for choice in chunk["choices"]] == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "Hello "}, None),
        ({"content": "you"}, None),
        ({}, "stop"),
    ]
    assert [chunk["usage"] and chunk["usage"]["total_tokens"] for chunk in chunks] == [None, None, None, None, 11]
    charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_tool_call_has_its_signature(api, upstream, flash):
    flash.function_calling = True
    flash.save()
    tools = [{"type": "function", "function": {"name": "find"}}]
    found = response(call("find", {"q": "é"}, SIGNATURE), finish="STOP", usage=USAGE)
    upstream.will(answered(found), streamed(found))
    [whole] = ask(api, tools=tools).json()["choices"]
    streamed_choices = [choice for chunk in events(ask_streamed(api, tools=tools))[:-1] for choice in chunk["choices"]]
    assert upstream.requests[1].body["tools"] == [{"functionDeclarations": [{"name": "find"}]}]
    assert (whole["finish_reason"], streamed_choices[-1]["finish_reason"]) == ("tool_calls", "tool_calls")
    [first], [second] = whole["message"]["tool_calls"], streamed_choices[1]["delta"]["tool_calls"]
    assert second.pop("index") == 0
    for made in (first, second):
        assert made.pop("id").startswith("call_")
        assert made == {
            "type": "function",
            "function": {"name": "find", "arguments": '{"q":"é"}'},
            "extra_content": {"google": {"thought_signature": SIGNATURE}},
        }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_blocked_prompt_is_an_empty_reply_and_is_charged(api, alice, upstream, stream):
    blocked = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        "modelVersion": "gemini-3.5-flash",
    }
    upstream.will(streamed(blocked) if stream else answered(blocked))
    answer = ask(api, stream=stream)
    if stream:
        received = events(answer)
        assert (text(received), received[-2]["choices"][0]["finish_reason"], received[-1]) == ("", "content_filter", "[DONE]")
    else:
        [choice] = answer.json()["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("", "content_filter")
    charged(alice, "reported", prompt=9, completion=0, nanos=27_000)


def test_last_usage_replaces_earlier_ones(api, alice, upstream):
    early = {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10}
    upstream.will(
        streamed(text_response("Hello ", usage=early), text_response("you", usage=early), response(finish="STOP", usage=USAGE))
    )
    events(ask_streamed(api))
    charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"promptTokenCount": -9, "candidatesTokenCount": 2}, {"promptTokenCount": "nine"}, {"promptTokenCount": 10**12}],
    ids=["none", "empty", "negative", "text", "absurd"],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_usage_is_estimated_when_none_is_valid(api, alice, upstream, usage, stream):
    answer = response(thought_part("Hm, hm."), {"text": "Hello you"}, finish="STOP", usage=usage)
    upstream.will(streamed(answer) if stream else answered(answer))
    reply = ask(api, stream=stream)
    assert reply.status_code == 200
    if stream:
        events(reply)
    charged(alice, "estimated", prompt=5, completion=4, nanos=5 * 3_000 + 4 * 15_000)


def test_explicit_zero_usage_costs_nothing(api, alice, upstream):
    upstream.will(gemini.whole("Hello you", usage={"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}))
    ask(api)
    charged(alice, "reported", prompt=0, completion=0, nanos=0)


# --- Refusals ----------------------------------------------------------------------------------------------------

REFUSALS: list[Any] = [
    (error(400, "INVALID_ARGUMENT"), 400, "invalid_request_error"),
    ([error(400, "INVALID_ARGUMENT")], 400, "invalid_request_error"),
    (gemini.BAD_KEY, 502, "upstream_error"),
    ([gemini.BAD_KEY], 502, "upstream_error"),
    (error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), 502, "upstream_error"),
    (error(401, "UNAUTHENTICATED"), 502, "upstream_error"),
    (error(403, "PERMISSION_DENIED"), 502, "upstream_error"),
    (error(404, "NOT_FOUND"), 502, "upstream_error"),
    (error(429, "RESOURCE_EXHAUSTED"), 503, "upstream_error"),
    (error(500, "INTERNAL"), 502, "upstream_error"),
    (error(503, "UNAVAILABLE"), 503, "upstream_error"),
    (error(504, "DEADLINE_EXCEEDED"), 504, "upstream_error"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("theirs", "ours", "code"),
    REFUSALS,
    ids=["400", "400 in a list", "key", "key in a list", "place", *(str(row[0]["error"]["code"]) for row in REFUSALS[5:])],
)
def test_refusal_is_translated_and_costs_nothing(api, alice, upstream, theirs, ours, code, stream):
    first = theirs[0] if isinstance(theirs, list) else theirs
    upstream.will(answered(theirs, status=first["error"]["code"]))
    answer = ask(api, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (ours, code)
    assert ("a reason" in answer.json()["error"]["message"]) == (ours == 400)
    assert "API key" not in answer.json()["error"]["message"]
    assert_released(alice)


@pytest.mark.parametrize(
    ("headers", "delay", "retry_after"),
    [({}, "37s", "37"), ({}, "36.9s", "37"), ({}, "3600s", None), ({"retry_after": "5"}, "37s", "5"), ({}, "soon", None)],
)
def test_short_retry_delay_is_passed_on(api, alice, upstream, headers, delay, retry_after):
    upstream.will(answered(gemini.exhausted(delay), status=429, **headers))
    answer = ask(api)
    assert (answer.status_code, answer.get("Retry-After")) == (503, retry_after)
    assert_released(alice)


# --- Failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"<html>", b"", b"null", b"[]", b'{"candidates":[]}', b'{"candidates":[{"content":[1]}]}'])
def test_unusable_whole_reply_costs_nothing(api, alice, upstream, body):
    upstream.will(reply(body))
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_released(alice)


@pytest.mark.parametrize("first", [b"<html>", b"", b"data: hello\n\n", b"data: [1]\n\n", b"data: \xff\n\n"])
def test_unusable_stream_is_an_error_status_and_costs_nothing(api, alice, upstream, first):
    upstream.will(stream(first))
    answer = ask_streamed(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_released(alice)


@pytest.mark.parametrize(("status", "ours"), [(503, 503), (429, 503), (500, 502), (400, 400), ("x", 502)])
def test_error_as_first_event_is_an_error_status_and_costs_nothing(api, alice, upstream, status, ours):
    upstream.will(streamed(error(status, "WHATEVER")))
    answer = ask_streamed(api)
    assert answer.status_code == ours
    assert_released(alice)


@pytest.mark.parametrize(
    "end",
    [[RESET], [CLOSE], [], [error(503, "UNAVAILABLE", "The model is overloaded.")], [b"data: {\n\n"]],
    ids=["reset", "left", "no finish reason", "error", "nonsense"],
)
def test_broken_stream_ends_in_an_error_and_costs_what_was_relayed(api, alice, upstream, end):
    upstream.will(streamed(response(thought_part("Hm, hm.")), text_response("Hello you"), 0.05, *end))
    said_by_us = events(ask_streamed(api))
    assert text(said_by_us) == "Hello you"
    assert said_by_us[-1]["error"]["code"] == "upstream_error"
    assert "[DONE]" not in said_by_us
    charged(alice, "partial", prompt=5, completion=4, nanos=5 * 3_000 + 4 * 15_000)


def test_broken_stream_costs_at_least_the_reported_usage(api, alice, upstream):
    early = {"promptTokenCount": 40, "candidatesTokenCount": 30, "totalTokenCount": 70}
    upstream.will(streamed(text_response("Hello", usage=early), 0.05, RESET))
    assert events(ask_streamed(api))[-1]["error"]["code"] == "upstream_error"
    charged(alice, "partial", prompt=40, completion=30, nanos=40 * 3_000 + 30 * 15_000)


def test_silent_stream_ends_in_an_error(api, alice, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS = settings.UPSTREAM_IDLE_SECONDS = 0.1
    upstream.will(at_once(streamed(text_response("Hello you"), HANG)))
    assert events(ask_streamed(api))[-1]["error"]["code"] == "upstream_error"
    assert upstream.sees_disconnect()
    charged(alice, "partial", prompt=5, completion=3, nanos=5 * 3_000 + 3 * 15_000)


@pytest.mark.parametrize("end", [[0.05, RESET], [b"data: {\n\n"], [error(500, "INTERNAL")]], ids=["reset", "nonsense", "error"])
def test_failure_after_the_finish_reason_is_ignored(api, alice, upstream, end):
    upstream.will(streamed(*HELLO, *end))
    said_by_us = events(ask_streamed(api))
    assert (text(said_by_us), said_by_us[-2]["choices"][0]["finish_reason"], said_by_us[-1]) == ("Hello you", "stop", "[DONE]")
    charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_silence_after_the_finish_reason_is_ignored(api, alice, upstream, settings):
    settings.STREAM_HEARTBEAT_SECONDS = settings.UPSTREAM_IDLE_SECONDS = 0.1
    upstream.will(at_once(streamed(*HELLO, HANG)))
    assert events(ask_streamed(api))[-1] == "[DONE]"
    assert upstream.sees_disconnect()
    charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_disconnect_frees_the_upstream_and_charges_what_was_relayed(api, alice, upstream):
    let_providers_cancel()
    upstream.will(streamed(text_response("Hello you", usage={"promptTokenCount": 9, "totalTokenCount": 9}), HANG))
    answer = ask_streamed(api)
    next(answer.streaming_content)
    disconnect(answer)
    assert upstream.sees_disconnect()
    charged(alice, "partial", prompt=9, completion=3, nanos=9 * 3_000 + 3 * 15_000)


def test_endless_event_is_bounded(api, alice, upstream, settings):
    settings.UPSTREAM_EVENT_BYTES_MAX = 1_000
    upstream.will(streamed(text_response("Hello you"), 0.05, b"data: " + b"x" * 3_000))
    assert events(ask_streamed(api))[-1]["error"]["code"] == "upstream_error"
    charged(alice, "partial", prompt=5, completion=3, nanos=5 * 3_000 + 3 * 15_000)


def test_api_key_is_in_no_message_and_no_log(api, upstream, caplog):
    message = f"Bad key {KEY}"
    for script, fields in [
        (answered(error(400, "INVALID_ARGUMENT", message), status=400), {}),
        (streamed(text_response("a"), 0.05, error(400, "INVALID_ARGUMENT", message)), {"stream": True}),
    ]:
        upstream.will(script)
        answer = ask(api, **fields)
        shown = str(events(answer)) if answer.streaming else answer.content.decode()
        assert "Bad key" in shown
        assert KEY not in shown
    assert KEY not in caplog.text


# --- Ids of calls ------------------------------------------------------------------------------------------------


def with_ids(*ids: Any) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": "get", "args": {"n": n}, "id": each}} for n, each in enumerate(ids)]


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["gemini-3.5-flash", "gemini-flash-latest", "gemini-2.5-flash"])
def test_gemini_gets_its_own_ids_back_with_the_results_in_the_order_of_its_calls(api, upstream, flash, model, is_stream):
    flash.routes.update(upstream_model=model)
    flash.function_calling = True
    flash.save()
    first, second, third = with_ids("fc-1", "fc/2", "fc-1")
    parts = (first, second, third, call("get", {"n": 3}))
    script = (
        streamed(response(first, second), response(*parts[2:], finish="STOP", usage=USAGE))
        if is_stream
        else gemini.whole(parts=parts)
    )
    upstream.will(script, gemini.whole("Done"))
    if is_stream:
        deltas = [event["choices"][0]["delta"] for event in events(ask_streamed(api))[:-1] if event["choices"]]
        calls = [
            {name: piece[name] for name in ("id", "type", "function")}
            for delta in deltas
            for piece in delta.get("tool_calls", ())
        ]
    else:
        calls = ask(api).json()["choices"][0]["message"]["tool_calls"]
    assert len({each["id"] for each in calls}) == 4
    results = [{"role": "tool", "tool_call_id": each["id"], "content": str(n)} for n, each in enumerate(calls)]
    messages = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": calls}, *reversed(results)]
    assert ask(api, messages=messages).status_code == 200
    said, answered = upstream.requests[-1].body["contents"][1:]
    own = [None] * 4 if "2.5" in model else ["fc-1", "fc/2", None, None]
    assert [part["functionCall"].get("id") for part in said["parts"]] == own
    assert [part["functionResponse"].get("id") for part in answered["parts"]] == own
    assert [part["functionResponse"]["response"]["output"] for part in answered["parts"]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("given", [None, "", 7, {}])
def test_call_without_an_id_of_gemini_gets_one_of_ours(api, upstream, given):
    upstream.will(gemini.whole(parts=tuple(with_ids(given))))
    [called] = ask(api).json()["choices"][0]["message"]["tool_calls"]
    assert called["id"].startswith("call_")
