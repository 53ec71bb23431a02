"""The adapter of OpenAI's Responses against a real server on loopback: requests, replies, refusals, failures and charges."""

import json
from typing import Any

import pytest

from tests import factories
from tests.cases import undone
from tests.chat import reasoning
from tests.completions import rows
from tests.completions.content_parts import IMAGE, PDF, SOUND
from tests.completions.providers.openai.responses import scripts
from tests.completions.rows import MESSAGES, assert_charged, assert_released, events, text
from tests.upstream import CLOSE, KEY, KEY_ENV, ROLE, event, refusal, stream, words

MODEL = "openai/gpt"
FUNCTION = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
TOOL = {"type": "function", "function": FUNCTION}
GRAMMAR = {"syntax": "lark", "definition": "start: /a/"}
GRAMMARLESS, ALLOWED = {"type": "grammar"}, {"type": "allowed_tools"}
CUSTOM = {"type": "custom", "custom": {"name": "say", "format": {"type": "grammar", "grammar": GRAMMAR}}}
HELLO = scripts.message("Hello you")
THOUGHT = scripts.reasoning(1, "Hm.", "Well.")


@pytest.fixture(autouse=True)
def gpt(upstream, db):
    """A model at the scripted upstream: 3,000 nanodollars per prompt token (300 cached), 15,000 per completion token."""
    upstream.will(scripts.whole(HELLO))
    provider = factories.make_provider("openai", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    prices = {"input": "3.00", "output": "15.00", "cached_input": "0.30"}
    model = factories.make_model(
        MODEL, provider=provider, upstream_model="gpt-5.5", function_calling=True, image_support=True, **prices
    )
    factories.change_prices(model.prices, flex_input_nanos=10**9, flex_output_nanos=2 * 10**9)
    model.routes.update(api="responses")
    return model


def ask(api, **fields):
    return rows.ask(api, **{"model": MODEL, **fields})


def ask_streamed(api, **fields):
    return ask(api, stream=True, **fields)


def charged(alice, settlement="reported", *, prompt=9, cached=4, completion=7, nanos=5 * 3_000 + 4 * 300 + 7 * 15_000):
    assert_charged(alice, settlement, prompt=prompt, cached=cached, completion=completion, nanos=nanos, model=MODEL)


# --- Requests ----------------------------------------------------------------------------------------------------


def test_request_has_the_api_and_the_key(api, upstream):
    system = {"role": "system", "content": "Be brief."}
    assert ask(api, messages=[system, *MESSAGES], max_tokens=17, temperature=0, user="u").status_code == 200
    [asked] = upstream.requests
    assert (asked.path, asked.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    assert asked.body == {
        "model": "gpt-5.5",
        "input": [
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hello, please."}]},
        ],
        "max_output_tokens": 17,
        "temperature": 0,
        "user": "u",
        "store": False,
        "stream": False,
    }


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"reasoning_effort": "high"}, {"reasoning": {"effort": "high", "summary": "auto"}}),
        ({"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}),
        ({"reasoning": {"effort": "low", "exclude": True}}, {"reasoning": {"effort": "low"}}),
        ({"reasoning_effort": "low"}, {"include": ["reasoning.encrypted_content"]}),
        (
            {"logprobs": True, "top_logprobs": 2, "reasoning_effort": "none"},
            {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        ),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True},
                }
            },
            {"text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": True}}},
        ),
        ({"tools": [TOOL]}, {"tools": [{"type": "function", **FUNCTION, "strict": False}]}),
        ({"tools": [CUSTOM]}, {"tools": [{"type": "custom", "name": "say", "format": {"type": "grammar", **GRAMMAR}}]}),
        ({"tools": [TOOL], "tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}},
            {"tool_choice": {"type": "function", "name": "look"}},
        ),
        (
            {
                "tools": [TOOL],
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]},
                },
            },
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}},
        ),
        ({"max_tokens": 1}, {"max_output_tokens": 16}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"store": False}, {"store": False}),
    ],
)
def test_fields_are_sent_in_the_words_of_responses(api, upstream, given, sent):
    reply = ask(api, **given)
    assert reply.status_code == 200, reply.content
    assert "x-gateway-ignored-fields" not in reply
    assert {name: upstream.requests[0].body[name] for name in sent} == sent


def test_every_kind_of_message_is_an_item(api, upstream):
    call = {"id": "c" * 70, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    custom = {"id": "d", "type": "custom", "custom": {"name": "say", "input": "a"}}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "See."}, IMAGE, PDF]},
        {"role": "assistant", "content": "Well", "refusal": "No.", "tool_calls": [call, custom]},
        {"role": "tool", "tool_call_id": "c" * 70, "content": "x"},
        {"role": "tool", "tool_call_id": "d", "content": [{"type": "text", "text": "y"}]},
    ]
    assert ask(api, messages=history, tools=[TOOL, CUSTOM]).status_code == 200
    user, said, refused, called, called_custom, result, custom_result = upstream.requests[0].body["input"]
    assert user["content"] == [
        {"type": "input_text", "text": "See."},
        {"type": "input_image", "image_url": IMAGE["image_url"]["url"], "detail": "auto"},
        {"type": "input_file", "file_data": PDF["file"]["file_data"], "filename": PDF["file"].get("filename", "file.pdf")},
    ]
    assert said == {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well"}]}
    assert refused["content"] == [{"type": "refusal", "refusal": "No."}]
    assert called == {"type": "function_call", "call_id": called["call_id"], "name": "look", "arguments": "{}"}
    assert result == {"type": "function_call_output", "call_id": called["call_id"], "output": "x"}
    assert len(called["call_id"]) <= 64
    assert called_custom == {"type": "custom_tool_call", "call_id": "d", "name": "say", "input": "a"}
    assert custom_result["type"] == "custom_tool_call_output"
    assert custom_result["output"] == [{"type": "input_text", "text": "y"}]


def test_what_this_api_has_not_is_named(api, upstream):
    message = {**MESSAGES[0], "name": "Ann"}
    reply = ask(api, messages=[message], seed=1, logit_bias={}, store=True, metadata={"a": "b"}, top_k=3)
    assert reply.headers["x-gateway-ignored-fields"] == "seed, logit_bias, metadata, top_k, messages.name, store"
    assert not {"seed", "logit_bias", "metadata", "top_k", "name"} & set(json.dumps(upstream.requests[0].body).split('"'))


def test_what_is_so_anyway_is_not_asked_for(api, upstream):
    """Models that reason refuse a temperature. Agents send 1, which is what every model has."""
    assert "x-gateway-ignored-fields" not in ask(api, temperature=1, top_p=1.0)
    assert not {"temperature", "top_p"} & set(upstream.requests[0].body)


def test_unsupported_request_is_refused_before_anything_happens(api, alice, upstream, subtests):
    user = MESSAGES[0]
    called = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    for fields, param in (
        ({"n": 2}, "n"),
        ({"stop": "x"}, "stop"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"messages": [{**user, "content": [SOUND]}]}, "messages[0].content[0].type"),
        ({"messages": [user, called]}, "messages[1].function_call"),
        ({"messages": [user, {"role": "function", "name": "f", "content": "x"}]}, "messages[1].role"),
        ({"tools": [{"type": "custom"}]}, "tools[0].custom"),
        ({"tools": [{"type": "custom", "custom": {"name": "a b"}}]}, "tools[0].custom.name"),
        ({"tools": [{"type": "custom", "custom": {"name": "a", "format": 1}}]}, "tools[0].custom.format"),
        ({"tools": [{"type": "custom", "custom": {"name": "a", "format": GRAMMARLESS}}]}, "tools[0].custom.format.grammar"),
        ({"tools": [TOOL], "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"tools": [TOOL], "tool_choice": {"type": "custom"}}, "tool_choice.custom"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools"),
        ({"tools": [TOOL], "tool_choice": {**ALLOWED, "allowed_tools": {"tools": [5]}}}, "tool_choice.allowed_tools.tools[0]"),
        (
            {"tools": [TOOL], "tool_choice": {**ALLOWED, "allowed_tools": {"tools": [{"type": "allowed_tools"}]}}},
            "tool_choice.allowed_tools.tools[0].type",
        ),
    ):
        with subtests.test(param):
            answer = ask(api, **fields)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert upstream.requests == []
    assert not alice.holds.exists()


# --- Replies -----------------------------------------------------------------------------------------------------

CALL, CUSTOM_CALL = scripts.call("c", "look", {"a": 1}), scripts.custom_call("d", "say", "a b")


def test_a_whole_reply_is_passed_on_and_charged(api, alice, upstream):
    upstream.will(scripts.whole(THOUGHT, HELLO, CALL, CUSTOM_CALL))
    answer = ask(api, tools=[TOOL, CUSTOM]).json()
    [choice] = answer["choices"]
    message = choice["message"]
    text_detail, hidden = message.pop("reasoning_details")
    shown = {
        name: value for name, value in reasoning("Hm.\n\nWell.", "openai-responses-v1").items() if name != "reasoning_details"
    }
    assert message == {
        "role": "assistant",
        "content": "Hello you",
        "refusal": None,
        **shown,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}},
            {"id": "d", "type": "custom", "custom": {"name": "say", "input": "a b"}},
        ],
    }
    assert (text_detail["text"], hidden["type"]) == ("Hm.\n\nWell.", "reasoning.encrypted")
    assert hidden["data"].startswith("sealed.")
    assert choice["finish_reason"] == "tool_calls"
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 5
    charged(alice)


def test_a_stream_is_passed_on_and_charged(api, alice, upstream):
    upstream.will(scripts.streamed(THOUGHT, HELLO, CALL, CUSTOM_CALL))
    *chunks, done = events(ask_streamed(api, tools=[TOOL, CUSTOM]))
    assert done == "[DONE]"
    deltas = [choice["delta"] for each in chunks for choice in each["choices"]]
    assert "".join(delta.get("reasoning", "") for delta in deltas) == "Hm.\n\nWell."
    assert text(chunks) == "Hello you"
    calls: dict[int, Any] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls", [])):
        known = calls.setdefault(call["index"], [call.get("id"), call.get("type"), ""])
        known[2] += (call.get("function") or call.get("custom")).get("arguments" if known[1] == "function" else "input")
    assert list(calls.values()) == [["c", "function", '{"a":1}'], ["d", "custom", "a b"]]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    charged(alice)


def test_a_call_whose_arguments_come_at_its_end_alone_has_them(api, upstream):
    item = {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}}
    done = {**item, "type": "response.output_item.done", "item": CALL}
    upstream.will(stream(scripts.begun(), scripts.named(item), scripts.named(done), scripts.ended(CALL)))
    chunks = events(ask_streamed(api, tools=[TOOL]))[:-1]
    calls = [call for each in chunks for choice in each["choices"] for call in choice["delta"].get("tool_calls", [])]
    assert "".join(call["function"]["arguments"] for call in calls) == '{"a":1}'


@pytest.mark.parametrize("is_streamed", [False, True])
def test_why_a_reply_ended(api, upstream, is_streamed):
    for given, items, reason in (
        ({}, [HELLO], "stop"),
        ({}, [scripts.refusal("No.")], "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, [HELLO], "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, [HELLO], "content_filter"),
    ):
        with undone():
            upstream.will((scripts.streamed if is_streamed else scripts.whole)(*items, **given))
            reply = ask(api, stream=is_streamed)
            last = events(reply)[-2] if is_streamed else reply.json()
            assert last["choices"][0]["finish_reason"] == reason
            if not is_streamed and items != [HELLO]:
                message = last["choices"][0]["message"]
                assert (message["content"], message["refusal"]) == (None, "No.")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_probabilities_have_the_form_of_chat(api, upstream, is_streamed):
    token = {"token": "é", "logprob": -0.5, "top_logprobs": [{"token": "e", "logprob": -1.0}]}
    [part] = HELLO["content"]
    upstream.will((scripts.streamed if is_streamed else scripts.whole)({**HELLO, "content": [{**part, "logprobs": [token]}]}))
    reply = ask(api, stream=is_streamed, logprobs=True)
    replies = events(reply)[:-1] if is_streamed else [reply.json()]
    found = next(each["choices"][0]["logprobs"] for each in replies if each["choices"][0]["logprobs"])
    assert found["content"][0] == {
        "token": "é",
        "logprob": -0.5,
        "bytes": [195, 169],
        "top_logprobs": [{"token": "e", "logprob": -1.0, "bytes": [101]}],
    }


def test_a_tier_has_its_price_if_it_was_used(api, alice, upstream):
    upstream.will(scripts.whole(HELLO, service_tier="flex"))
    ask(api, service_tier="flex")
    charged(alice, nanos=9 * 1_000 + 7 * 2_000)


def test_a_tier_that_was_not_used_is_not_charged(api, alice, upstream):
    upstream.will(scripts.whole(HELLO, service_tier="default"))
    ask(api, service_tier="flex")
    charged(alice)


def test_more_than_the_hold_pays_for_is_not_charged(api, alice, upstream):
    """OpenAI generates 16 tokens at least."""
    upstream.will(scripts.whole(HELLO, usage={"input_tokens": 9, "output_tokens": 16}))
    ask(api, max_tokens=1)
    [hold] = alice.holds.all()
    assert hold.settled_nanos == hold.amount_nanos


# --- Failures ----------------------------------------------------------------------------------------------------

FAILURES = {
    "rate limit": (scripts.failed("rate_limit_exceeded"), 503),
    "server": (scripts.failed("server_error"), 502),
    "prompt": (scripts.failed("invalid_prompt"), 400),
    "image": (scripts.failed("invalid_image_url"), 400),
    "policy": (scripts.failed("bio_policy"), 400),
    "key": (scripts.failed("invalid_api_key"), 502),
    "event": (scripts.error_event("server_is_overloaded"), 503),
    "event without a code": (scripts.error_event(None), 502),
    "event of chat": (event({"error": {"message": "no", "type": "invalid_request_error"}}), 400),
    "no event": (b"data: [1]\n\n", 502),
}


@pytest.mark.parametrize(("last", "status"), FAILURES.values(), ids=FAILURES.keys())
def test_a_stream_that_fails_before_it_begins_has_a_status(api, alice, upstream, last, status):
    upstream.will(stream(scripts.begun(), last))
    reply = ask_streamed(api)
    assert reply.status_code == status, reply.content
    assert_released(alice)


def test_a_stream_that_breaks_in_the_middle_is_charged_by_its_text(api, alice, upstream):
    for last in (scripts.failed("server_error"), CLOSE, scripts.error_event("server_error")):
        with undone():
            upstream.will(stream(scripts.begun(), scripts.said(0, HELLO), 0.02, last))
            *_, error = rows.parsed(b"".join(ask_streamed(api).streaming_content))
            assert list(error) == ["error"]
            assert alice.completions.get().settlement == "partial"


# How much the usage of a failure reports, and what is charged: no less than the text that had arrived.
FAILED_COUNTS = {
    "more than the text": ({"input_tokens": 9, "output_tokens": 70}, (9, 70)),
    "less": ({"input_tokens": 9, "output_tokens": 1}, (9, 3)),
    "no numbers": ({"input_tokens": None}, (rows.PROMPT_ESTIMATE, 3)),
    "none": (None, (rows.PROMPT_ESTIMATE, 3)),
}


@pytest.mark.parametrize("is_chat", [False, True], ids=["responses", "chat"])
@pytest.mark.parametrize(("usage", "counts"), FAILED_COUNTS.values(), ids=FAILED_COUNTS.keys())
def test_a_failure_is_charged_what_its_usage_reports(api, alice, upstream, gpt, is_chat, usage, counts):
    prompt, completion = counts
    if is_chat:
        gpt.routes.update(api="chat")
        error = {"error": {"message": "no", "code": 502}, "choices": 5, "usage": usage}
        upstream.will(stream(ROLE, words("Hello you"), 0.02, event(error)))
    else:
        upstream.will(stream(scripts.begun(), scripts.said(0, HELLO), 0.02, scripts.failed("server_error", usage=usage)))
    assert b"error" in ask_streamed(api).getvalue()
    nanos = prompt * 3_000 + completion * 15_000
    charged(alice, "partial", prompt=prompt, cached=0, completion=completion, nanos=nanos)


def test_a_failure_before_any_text_costs_nothing_whatever_it_reports(api, alice, upstream):
    upstream.will(stream(scripts.begun(), scripts.failed("server_error", usage=scripts.USAGE)))
    assert ask_streamed(api).status_code == 502
    assert_released(alice)


@pytest.mark.parametrize(
    "body",
    [
        {"status": "failed", "error": {"code": "server_error", "message": "x"}},
        {"status": "queued"},
        {"output": [{"type": "message"}]},
        {"output": None},
    ],
    ids=str,
)
def test_a_whole_reply_that_is_none_costs_nothing(api, alice, upstream, body):
    upstream.will(scripts.whole(HELLO, **{"status": "completed", **body}))
    assert ask(api).status_code == 502
    assert_released(alice)


def test_a_refusal_is_told(api, alice, upstream):
    upstream.will(scripts.refused(400, "Unsupported value.", "unsupported_value"))
    answer = ask(api)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "The model's provider refused the request: Unsupported value."
    upstream.will(refusal(401))
    assert ask(api).status_code == 502


def test_an_item_that_chat_has_no_words_for_is_left_out(api, upstream):
    search = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
    streamed = stream(scripts.begun(), scripts.said(1, HELLO), scripts.ended(search, HELLO))
    for script, is_streamed in ((scripts.whole(search, HELLO), False), (streamed, True)):
        with undone():
            upstream.will(script)
            reply = ask(api, stream=is_streamed)
            assert b"Hel" in reply.getvalue()
