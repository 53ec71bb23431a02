"""POST /v1/messages and /v1/messages/count_tokens over HTTP: errors, headers, charges, and what reaches a provider."""

import json
import re
from typing import Any

import pytest

from completions.models import Completion
from keys.models import ApiKey
from tests import chat, factories
from tests.completions import rows
from tests.completions.inbound.messages.requests import HELLO, PATH, ask, assert_error, events
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.rows import assert_charged, assert_released
from tests.conftest import client_for
from tests.upstream import DONE, FINISH, KEY_ENV, ROLE, chunk, event, refusal, stream, streamed, usage, whole, words

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "EqoBCkgIARABGAIiQL"}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}


# --- Replies ----------------------------------------------------------------------------------------------------------


def test_a_whole_reply_is_a_message_and_is_charged(api, alice, large, upstream):
    upstream.will(whole("Hello you"))
    reply = ask(api, system="Be brief.", stop_sequences=["###"])
    body = reply.json()
    assert body.pop("id") == Completion.objects.get().pk
    assert body == {
        "type": "message",
        "role": "assistant",
        "model": "acme/large",
        "content": [{"type": "text", "text": "Hello you"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 9,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 2,
            "output_tokens_details": {"thinking_tokens": 0},
            "cost": 0.000057,
        },
    }
    assert reply["request-id"] == reply["x-request-id"]
    [sent] = upstream.requests
    assert sent.body["messages"] == [{"role": "system", "content": "Be brief."}, *HELLO]
    assert (sent.body["stop"], sent.body["max_tokens"]) == (["###"], 100)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_stream_begins_once_with_the_prompt_and_ends_with_the_usage(api, alice, large, upstream):
    upstream.will(streamed("Hello ", "you"))
    begun, *blocks, delta, stop = events(ask(api, stream=True))
    assert begun["type"] == "message_start"
    assert begun["message"]["content"] == []
    assert begun["message"]["stop_reason"] is None
    assert begun["message"]["usage"]["input_tokens"] > 0
    assert [block["type"] for block in blocks] == ["content_block_start", *["content_block_delta"] * 2, "content_block_stop"]
    assert delta["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert (delta["usage"]["input_tokens"], delta["usage"]["output_tokens"], delta["usage"]["cost"]) == (9, 2, 0.000057)
    assert stop == {"type": "message_stop"}
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_an_error_in_a_stream_is_an_event(api, large, upstream):
    upstream.will(stream(ROLE, words("Hel"), event({"error": {"message": "gone"}})))
    reply = ask(api, stream=True)
    *_, last = events(reply)
    assert last["type"] == "error"
    assert last["error"]["type"] == "api_error"
    assert last["request_id"] == reply["request-id"]


def test_text_that_is_cut_inside_an_emoji_is_relayed(api, alice, large, upstream):
    halves = [b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % half for half in (rb"\ud83d", rb"\ude00")]
    upstream.will(stream(ROLE, *halves, FINISH, usage(), DONE))
    said = [block["delta"]["text"] for block in events(ask(api, stream=True)) if block["type"] == "content_block_delta"]
    assert said == ["\ud83d", "\ude00"]
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_repetition_gets_the_same_reply_and_another_language_does_not(api, alice, large, upstream):
    upstream.will(whole("Hello you"))
    key = {"Idempotency-Key": "a"}
    first, again = ask(api, headers=key), ask(api, headers=key)
    assert (again["Idempotent-Replayed"], again.content) == ("true", first.content)
    fields = {"model": "acme/large", "max_tokens": 100, "messages": HELLO}
    other = api.post("/v1/chat/completions", fields, headers=key)
    assert (other.status_code, other.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert len(upstream.requests) == 1
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_repeated_stream_has_the_same_events(api, large, upstream):
    upstream.will(streamed("Hello ", "you"))
    first = events(ask(api, stream=True, headers={"Idempotency-Key": "a"}))
    again = ask(api, stream=True, headers={"Idempotency-Key": "a"})
    assert again["Idempotent-Replayed"] == "true"
    assert [json.loads(frame.partition("\ndata: ")[2]) for frame in again.content.decode().split("\n\n") if frame] == first


def test_a_stream_that_is_left_is_paid_and_repeated_to_its_end(api, alice, large, upstream):
    upstream.will(streamed("Hello ", "you"))
    left = ask(api, stream=True, headers={"Idempotency-Key": "a"})
    next(iter(left.streaming_content))
    rows.disconnect(left)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    again = ask(api, stream=True, headers={"Idempotency-Key": "a"}).content
    assert again.count(b"event: message_start") == again.count(b"event: message_stop") == 1
    assert b'"text":"you"' in again


def test_a_fallback_model_answers(api, large, upstream, echo_model):
    upstream.will(refusal(500))
    reply = ask(api, models=["demo/echo"])
    assert (reply.json()["model"], reply.json()["content"][0]["text"]) == ("demo/echo", "Hello")


def test_fields_that_are_not_sent_are_named_as_the_caller_calls_them(api, large, upstream):
    upstream.will(whole())
    turns = [
        *HELLO,
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x", "is_error": True}]},
    ]
    reply = ask(
        api, messages=turns, top_k=5, thinking={"type": "adaptive", "display": "omitted"}, headers={"anthropic-beta": "x-1"}
    )
    assert reply["x-gateway-ignored-fields"] == "top_k, thinking.display, messages.is_error, anthropic-beta.x-1"


# --- Names of tools that most providers refuse, because they are too long ----------------------------------------------

LONG = "mcp__plugin_" + "a" * 80
LONG_TOOLS = [{"name": f"{LONG}{end}", "input_schema": {"type": "object"}} for end in "bc"]
LONG_TURNS: list[dict[str, Any]] = [
    *HELLO,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": f"{LONG}c", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "no"}]},
]


def calling_the_last(is_streamed: bool) -> Any:
    """Return what an upstream does that calls the last tool of each request."""

    def answer(asked: Any) -> Any:
        function = {"name": asked.body["tools"][-1]["function"]["name"], "arguments": "{}"}
        calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
        if not is_streamed:
            return whole(message={"role": "assistant", "content": None, "tool_calls": calls}, finish_reason="tool_calls")
        return stream(ROLE, chunk({"tool_calls": calls}), chunk(finish_reason="tool_calls"), usage(), DONE)

    return answer


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_long_name_of_a_tool_is_shortened_for_the_provider_and_whole_for_the_caller(api, large, upstream, is_streamed):
    large.function_calling = True
    large.save()
    upstream.will_answer(calling_the_last(is_streamed))
    choice = {"type": "tool", "name": f"{LONG}c"}
    reply = ask(api, messages=LONG_TURNS, tools=LONG_TOOLS, tool_choice=choice, stream=is_streamed)
    if is_streamed:
        [block] = [each["content_block"] for each in events(reply) if each["type"] == "content_block_start"]
    else:
        [block] = reply.json()["content"]
    assert (block["type"], block["name"]) == ("tool_use", f"{LONG}c")
    sent = upstream.requests[0].body
    first, second = (tool["function"]["name"] for tool in sent["tools"])
    assert (len(first), len(second), first == second) == (64, 64, False)
    assert sent["messages"][1]["tool_calls"][0]["function"]["name"] == second
    assert sent["tool_choice"]["function"]["name"] == second


def test_anthropic_gets_a_long_name_as_it_came_and_the_hold_counts_all_of_it(api, large, sonnet, upstream):
    large.function_calling = True
    large.save()
    upstream.will(claude.whole(claude.tool_use_block("call_1", f"{LONG}c"), stop_reason="tool_use"))
    fields: Any = {"messages": LONG_TURNS, "tools": LONG_TOOLS}
    [block] = ask(api, model="acme/sonnet", **fields).json()["content"]
    assert block["name"] == f"{LONG}c"
    assert upstream.requests[0].body.items() >= fields.items()
    held = ask(api, f"{PATH}/quote", **fields).json()["prompt_tokens_max"]
    short = json.loads(json.dumps(fields).replace(LONG, LONG[:63]))
    assert held - ask(api, f"{PATH}/quote", **short).json()["prompt_tokens_max"] == 3 * (len(LONG) - 63)


def test_a_name_that_no_provider_takes_is_refused(api, large):
    large.function_calling = True
    large.save()
    wrong = [{"name": "a" * 129, "input_schema": {"type": "object"}}]
    assert_error(ask(api, tools=wrong), 400, "invalid_request_error", "tools[0].name must have 1 to 128 letters")


# --- A provider that speaks Messages ------------------------------------------------------------------------------------


def test_a_request_reaches_anthropic_as_it_came(api, alice, sonnet, upstream):
    upstream.will(claude.whole())
    mark = {"cache_control": {"type": "ephemeral"}}
    fields: Any = {
        "system": [{"type": "text", "text": "Be brief.", **mark}],
        "messages": [
            *HELLO,
            {"role": "assistant", "content": [THINKING, REDACTED, {"type": "tool_use", "id": "t", "name": "add", "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True, **mark}],
            },
        ],
        "tools": [{"name": "add", "input_schema": {"type": "object"}, "eager_input_streaming": True, **mark}],
        "thinking": {"type": "enabled", "budget_tokens": 1_024, "display": "summarized"},
        "max_tokens": 2_000,
        "top_p": 0.95,
        "metadata": {"user_id": "u"},
    }
    beta = "interleaved-thinking-2025-05-14"
    reply = ask(api, model="acme/sonnet", headers={"anthropic-beta": f"{beta},context-1m-2025-08-07"}, **fields)
    assert reply.status_code == 200
    [sent] = upstream.requests
    assert sent.body == {**fields, "model": "claude-sonnet-4-5", "stream": False}
    assert sent.headers["anthropic-beta"] == beta
    assert reply["x-gateway-ignored-fields"] == "anthropic-beta.context-1m-2025-08-07"
    assert reply.json()["usage"]["cache_read_input_tokens"] == 100
    nanos = 4 * 3_000 + 100 * 300 + 20 * 3_000 + 7 * 15_000
    assert_charged(alice, "reported", prompt=124, cached=100, completion=7, nanos=nanos, model="acme/sonnet")


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
def test_the_user_id_is_kept_with_the_completion(api, large, upstream, fields):
    upstream.will(streamed() if fields else whole())
    assert ask(api, metadata={"user_id": "u-1"}, **fields).getvalue()
    assert Completion.objects.values_list("end_user", "tags").get() == ("u-1", None)


def test_a_reply_of_anthropic_comes_as_it_was_said(api, sonnet, upstream):
    content = [THINKING, REDACTED, claude.text_block("Hi")]
    upstream.will(claude.whole(*content, stop_reason="pause_turn"))
    body = ask(api, model="acme/sonnet").json()
    assert (body["content"], body["stop_reason"], body["model"]) == (content, "pause_turn", "acme/sonnet")
    assert body["id"] == Completion.objects.get().pk
    assert body["usage"]["cache_creation"] == claude.USAGE["cache_creation"]


def test_a_stream_of_anthropic_comes_as_it_was_said(api, alice, sonnet, upstream):
    redacted = claude.block_start(1, REDACTED) + claude.block_stop(1)
    said = [claude.thoughts("H", "m."), redacted, claude.text("Hello ", "you", index=2)]
    upstream.will(stream(claude.start(), *said, claude.message_delta("stop_sequence"), claude.STOP))
    begun, *blocks, delta, stop = events(ask(api, model="acme/sonnet", stream=True))
    assert b"".join(claude.event(block) for block in blocks) == b"".join(said)
    assert (begun["type"], stop["type"]) == ("message_start", "message_stop")
    assert begun["message"]["usage"]["input_tokens"] == 4
    assert begun["message"]["id"] == Completion.objects.get().pk
    assert delta["delta"]["stop_reason"] == "stop_sequence"
    nanos = 4 * 3_000 + 100 * 300 + 20 * 3_000 + 7 * 15_000
    assert_charged(alice, "reported", prompt=124, cached=100, completion=7, nanos=nanos, model="acme/sonnet")


def test_chat_completions_get_it_sealed(api, sonnet, upstream):
    upstream.will(
        stream(claude.start(), claude.thoughts("Hm."), claude.text("Hi", index=1), claude.message_delta(), claude.STOP)
    )
    reply = rows.ask_streamed(api, model="acme/sonnet")
    received = b"".join(reply.streaming_content)
    assert b"EqoBCkgIARABGAIiQL" not in received
    assert received.count(b'"signature":"sealed.') == 1


def test_a_large_request_is_sent_again_as_it_came(api, sonnet, upstream):
    upstream.will(claude.refusal(500, "api_error"), claude.whole())
    messages = [{"role": "user", "content": [{"type": "text", "text": "x" * 20_000}]}]
    assert ask(api, model="acme/sonnet", messages=messages).status_code == 200
    assert [sent.body["messages"] for sent in upstream.requests] == [messages] * 2


# --- Errors and headers -------------------------------------------------------------------------------------------------


def test_a_refused_field_is_named_and_nothing_is_held(api, alice, large, upstream):
    assert_error(ask(api, temperature=3), 400, "invalid_request_error", "temperature must be")
    assert_error(ask(api, container="x"), 400, "invalid_request_error", "container is not supported")
    assert_error(ask(api, stop=["x"]), 400, "invalid_request_error", "stop is not supported")  # what chat calls stop_sequences
    assert not Completion.objects.exists()
    assert upstream.requests == []


def test_what_a_model_cannot_do_is_named_by_the_callers_field(api, large):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "x"}, image]}]
    assert_error(ask(api, messages=messages), 400, "invalid_request_error", "messages[0].content[1].source is an image")


def test_other_errors_have_their_types(api, bob, large, upstream):
    assert_error(ask(client_for(None)), 401, "authentication_error")
    assert_error(ask(client_for("sk-nobody")), 401, "authentication_error")
    assert_error(ask(client_for(factories.make_key(factories.make_account("Poor"))[1])), 402, "billing_error")
    assert_error(ask(api, model="acme/none"), 404, "not_found_error")
    assert_error(api.get(PATH), 405, "invalid_request_error")
    assert_error(api.generic("POST", PATH, b"{", content_type="application/json"), 400, "invalid_request_error")


@pytest.mark.parametrize(
    ("status", "told", "kind"), [(400, 400, "invalid_request_error"), (500, 502, "api_error"), (429, 529, "overloaded_error")]
)
def test_a_provider_that_fails_costs_nothing(api, alice, large, upstream, status, told, kind):
    upstream.will(refusal(status))
    assert_error(ask(api), told, kind)
    assert_released(alice)


def test_the_key_may_come_as_x_api_key(alice, large, upstream):
    upstream.will(whole())
    secret = factories.make_key(alice)[1]
    assert ask(client_for(None), headers={"x-api-key": secret}).status_code == 200
    assert_error(ask(client_for("sk-nobody"), headers={"x-api-key": secret}), 401, "authentication_error")


def test_replies_have_the_rate_limits_of_anthropic(alice, large, upstream):
    upstream.will(whole())
    reply = ask(client_for(factories.make_key(alice, requests_per_minute=5, tokens_per_minute=1_000)[1]))
    assert reply["anthropic-ratelimit-requests-limit"] == "5"
    assert reply["anthropic-ratelimit-requests-remaining"] == "4"
    assert reply["anthropic-ratelimit-tokens-limit"] == "1000"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", reply["anthropic-ratelimit-tokens-reset"])


def test_the_query_of_beta_clients_is_ignored(api, large, upstream):
    upstream.will(whole())
    assert ask(api, f"{PATH}?beta=true").status_code == 200


# --- Counting tokens ------------------------------------------------------------------------------------------------------


def count(api: Any, **fields: Any) -> Any:
    return api.post(f"{PATH}/count_tokens", {"model": "demo/echo", "messages": HELLO, **fields})


def test_no_prompt_is_counted_for_a_model_that_makes_embeddings(api):
    factories.make_model("demo/embed", kind="embedding", output="0", max_output_tokens=1)
    message = "model is demo/embed, which makes embeddings: send it to /v1/embeddings"
    assert_error(count(api, model="demo/embed"), 400, "invalid_request_error", message)


def test_tokens_of_everything_are_counted_and_nothing_is_asked_or_held(api, echo_model):
    plain = count(api)
    assert plain.json() == {"input_tokens": 2}
    assert plain["request-id"].startswith("req_")
    tool = {"name": "add", "input_schema": {"type": "object"}}
    assert count(api, system="x" * 400).json() == {"input_tokens": 102}
    assert count(api, tools=[tool]).json()["input_tokens"] > 10
    assert not Completion.objects.exists()


def test_counting_refuses_what_a_request_would_be_refused_for(api, alice, echo_model):
    assert_error(count(api, model="acme/none"), 404, "not_found_error")
    assert_error(count(api, container="x"), 400, "invalid_request_error", "container is not supported")
    assert_error(count(client_for(None)), 401, "authentication_error")
    ApiKey.objects.filter(account=alice).update(allowed_models=["acme/other"])
    assert_error(count(api), 404, "not_found_error")


@pytest.mark.parametrize("path", [PATH, f"{PATH}/count_tokens"])
@pytest.mark.parametrize("name", ["tools", "stop_sequences"])
def test_an_object_instead_of_an_empty_list_is_refused_by_name(api, alice, echo_model, path, name):
    asked = {"model": "demo/echo", "max_tokens": 10, "messages": HELLO, name: {}}
    assert_error(api.post(path, asked), 400, "invalid_request_error", f"{name} must be an array")
    assert not alice.holds.exists()


def test_a_large_prompt_is_counted(api, echo_model):
    assert count(api, system="x" * 400_000).json() == {"input_tokens": 100_002}


# --- What coding agents and their SDKs rely on ------------------------------------------------------------------------


def test_more_tokens_than_the_model_generates_are_its_maximum_and_a_header_says_so(api, alice, upstream):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/large", provider=provider, max_output_tokens=500, upstream_model="large-2026")
    reply = ask(api, max_tokens=32_000)
    assert reply.status_code == 200
    assert reply["x-gateway-max-tokens"] == "500"
    assert upstream.requests[0].body["max_tokens"] == 500
    exact = ask(api, max_tokens=500)
    assert "x-gateway-max-tokens" not in exact
    assert exact["x-gateway-max-cost"] == reply["x-gateway-max-cost"], "the hold is that of the maximum"


def test_a_fallback_gets_its_own_maximum(api, upstream):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/large", provider=provider, max_output_tokens=500, upstream_model="large-2026")
    factories.make_model("acme/small", provider=provider, max_output_tokens=100, upstream_model="small-2026")
    upstream.will(refusal(404), whole("Hello you"))
    reply = ask(api, max_tokens=32_000, models=["acme/small"])
    assert (reply["x-gateway-attempts"], reply["x-gateway-max-tokens"]) == ("2", "100")
    assert [request.body["max_tokens"] for request in upstream.requests] == [500, 100]


def test_in_other_languages_more_tokens_than_the_model_generates_are_refused(api, upstream):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/large", provider=provider, max_output_tokens=500, upstream_model="large-2026")
    body = {"model": "acme/large", "messages": HELLO, "max_tokens": 501}
    chat.assert_error(api.post(chat.PATH, body, format="json"), 400, "invalid_request_error", "max_tokens")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_thread_is_refused_in_the_words_at_which_the_sdk_goes_on_without(api, large, upstream, path):
    body = {"model": "acme/large", "max_tokens": 9, "messages": HELLO, "thread": {"type": "create"}}
    reply = api.post(path, body, format="json")
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("thread is not supported")
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert upstream.requests == []


def test_an_edit_of_the_conversation_is_refused_in_the_words_at_which_claude_code_goes_on_without(api, large, upstream):
    keep = {"type": "clear_thinking_20251015", "keep": "all"}
    clear = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 40}}
    refused = ask(api, context_management={"edits": [keep, clear]})
    message = refused.json()["error"]["message"]
    assert refused.status_code == 400
    assert re.match(r"\S{1,128} does not support the \W?clear_tool_uses_20250919\W? context management strategy", message)
    assert message.startswith("context_management.edits[1] ")
    assert ask(api, context_management={"edits": [keep]}).status_code == 200
    assert len(upstream.requests) == 1


def test_an_error_about_a_fallback_begins_with_its_field(api, large):
    assert_error(ask(api, models=["acme/large", "acme/none"]), 404, "not_found_error", "models[1]: the model 'acme/none'")
