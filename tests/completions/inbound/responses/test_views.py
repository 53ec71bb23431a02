"""POST /v1/responses over HTTP: replies, streams, errors, headers, charges, and what reaches a provider."""

import json
import re
from typing import Any

import pytest

from completions.models import Completion
from gateway_project.text import compact_json
from tests import chat, factories
from tests.completions import rows
from tests.completions.content_parts import IMAGE_URL
from tests.completions.inbound.responses.requests import PATH, TOOL, events, parsed
from tests.completions.rows import assert_charged, assert_released
from tests.conftest import client_for
from tests.upstream import DONE, ROLE, chunk, event, refusal, stream, streamed, usage, whole, words


def ask(api: Any, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return api.post(PATH, {"model": "acme/large", "input": "Hello", **fields}, headers=headers)


# --- Replies ----------------------------------------------------------------------------------------------------------


def test_a_whole_reply_is_a_response_and_is_charged(api, alice, large, upstream):
    upstream.will(whole("Hello you"))
    reply = ask(api, instructions="Be brief.", max_output_tokens=100, metadata={"team": "x"}, store=False)
    body = reply.json()
    completion = Completion.objects.get()
    name = completion.pk.removeprefix("chatcmpl-")
    text = {"type": "output_text", "text": "Hello you", "annotations": [], "logprobs": []}
    item = {"id": f"msg_{name}_0", "type": "message", "status": "completed", "role": "assistant", "content": [text]}
    assert body == {
        "id": completion.pk,
        "object": "response",
        "created_at": int(completion.created_at.timestamp()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "acme/large",
        "output": [item],
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 11,
            "cost": 0.000057,
        },
        "background": False,
        "completed_at": None,
        "frequency_penalty": None,
        "presence_penalty": None,
        "instructions": "Be brief.",
        "max_output_tokens": 100,
        "max_tool_calls": None,
        "metadata": {"team": "x"},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "truncation": "disabled",
        "user": None,
    }
    assert (reply["x-gateway-provider"], reply["x-gateway-cost"]) == ("scripted", "0.000057")
    [sent] = upstream.requests
    assert sent.body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert (sent.body["max_tokens"], sent.body["metadata"]) == (100, {"team": "x"})
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_stream_has_every_event_in_order_and_ends_with_the_usage(api, alice, large, upstream):
    """litellm#28899: events had no sequence_number. ``parsed`` asserts it of every event."""
    upstream.will(streamed("Hello ", "you"))
    found = events(ask(api, stream=True, metadata={"team": "x"}))
    assert [each["type"].removeprefix("response.") for each in found] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    created, in_progress, *_, done, completed = found
    assert (created["response"]["status"], created["response"]["output"], created["response"]["usage"]) == (
        "in_progress",
        [],
        None,
    )
    assert created["response"] == in_progress["response"]
    last = completed["response"]
    assert {**created["response"], **{name: last[name] for name in ("status", "output", "usage")}} == last
    assert last["output"] == [done["item"]]
    assert (last["metadata"], last["store"], last["usage"]["cost"]) == ({"team": "x"}, True, 0.000057)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_reply_that_is_cut_is_incomplete(api, large, upstream, is_streamed):
    cut = stream(ROLE, words("Hel"), chunk(finish_reason="length"), usage(), DONE)
    upstream.will(cut if is_streamed else whole("Hel", finish_reason="length"))
    reply = ask(api, stream=is_streamed)
    if is_streamed:
        *_, done, last = events(reply)
        assert (done["item"]["status"], last["type"]) == ("incomplete", "response.incomplete")
    body = last["response"] if is_streamed else reply.json()
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert body["output"][0]["status"] == "incomplete"
    assert body["usage"]["total_tokens"] == 11


def test_an_error_in_a_stream_is_an_event_and_the_response_failed(api, alice, large, upstream):
    upstream.will(stream(ROLE, words("Hel"), event({"error": {"message": "gone"}})))
    *_, error, failed = events(ask(api, stream=True))
    assert (error["type"], error["code"], error["error"]["code"]) == ("error", "upstream_error", "upstream_error")
    assert error["message"] == error["error"]["message"]
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": "server_error", "message": error["message"]}
    [item] = failed["response"]["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hel")
    assert Completion.objects.get().settlement == "partial"


def test_text_that_is_cut_inside_an_emoji_is_relayed(api, alice, large, upstream):
    halves = [b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % half for half in (rb"\ud83d", rb"\ude00")]
    upstream.will(stream(ROLE, *halves, chunk(finish_reason="stop"), usage(), DONE))
    last = events(ask(api, stream=True))[-1]
    assert last["response"]["output"][0]["content"][0]["text"] == "😀"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_repetition_gets_the_same_reply(api, alice, large, upstream):
    upstream.will(whole("Hello you"))
    key = {"Idempotency-Key": "a"}
    first, again = ask(api, headers=key), ask(api, headers=key)
    assert (again["Idempotent-Replayed"], again.content) == ("true", first.content)
    assert len(upstream.requests) == 1
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_stream_that_is_left_is_paid_and_repeated_to_its_end(api, alice, large, upstream):
    upstream.will(streamed("Hello ", "you"))
    left = ask(api, stream=True, headers={"Idempotency-Key": "a"})
    next(iter(left.streaming_content))
    rows.disconnect(left)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    again = ask(api, stream=True, headers={"Idempotency-Key": "a"})
    assert again["Idempotent-Replayed"] == "true"
    assert parsed(again.content)[-1]["response"]["output"][0]["content"][0]["text"] == "Hello you"


def test_a_fallback_model_answers(api, large, upstream, echo_model):
    upstream.will(refusal(500))
    body = ask(api, models=["demo/echo"]).json()
    assert (body["model"], body["output"][0]["content"][0]["text"]) == ("demo/echo", "Hello")


def test_a_large_request_is_sent_again(api, large, upstream):
    upstream.will(refusal(500), whole())
    items = [{"role": "user", "content": "x" * 20_000}]
    reply = ask(api, input=items, instructions="y" * 5_000)
    assert reply.json()["instructions"] == "y" * 5_000
    assert [sent.body["messages"][1:] for sent in upstream.requests] == [items] * 2


def test_fields_that_are_not_sent_are_named_as_the_caller_calls_them(api, large, upstream):
    upstream.will(whole())
    items = [
        {"role": "user", "content": "Hello"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"role": "assistant", "content": "Hi", "phase": "commentary"},
    ]
    reply = ask(api, input=items, reasoning={"effort": "low", "summary": "detailed"}, include=["reasoning.encrypted_content"])
    assert reply["x-gateway-ignored-fields"] == "reasoning.summary, input.encrypted_content, input.phase"


def test_what_happened_is_known_under_the_id_of_the_response(api, large, upstream):
    upstream.will(whole())
    body = ask(api).json()
    assert api.get(f"/v1/completions/{body['id']}").json()["usage"]["cost"] == body["usage"]["cost"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_user_and_tags_are_kept_with_the_completion(api, large, upstream, is_streamed):
    upstream.will(streamed() if is_streamed else whole())
    assert ask(api, user="u-1", metadata={"team": "search"}, stream=is_streamed).getvalue()
    assert Completion.objects.values_list("end_user", "tags").get() == ("u-1", {"team": "search"})


# --- Errors and headers -------------------------------------------------------------------------------------------------


def test_a_refused_field_is_named_and_nothing_is_held(api, alice, large, upstream):
    for fields, param in (
        ({"store": "yes"}, "store"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"max_output_tokens": 10**9}, "max_output_tokens"),
        ({"text": {"verbosity": "x"}}, "text.verbosity"),
        ({"max_tokens": 9}, "max_tokens"),  # what chat calls max_output_tokens
    ):
        error = chat.assert_error(ask(api, **fields), 400, "invalid_request_error", param)
        assert error["message"].startswith(f"{param} ")
    assert not Completion.objects.exists()
    assert upstream.requests == []


def test_what_a_model_cannot_do_is_named_by_the_callers_field(api, large):
    items = [{"role": "user", "content": [{"type": "input_image", "image_url": IMAGE_URL}]}]
    chat.assert_error(ask(api, input=items), 400, "invalid_request_error", "input[0].content[0].image_url")
    chat.assert_error(ask(api, tools=[TOOL]), 400, "invalid_request_error", "tools")


def test_a_model_works_at_the_computer_of_the_caller(api, large, upstream):
    large.function_calling = large.image_support = True
    large.save()
    click = {"type": "click", "button": "left", "x": 1, "y": 2}
    function = {"name": "computer", "arguments": json.dumps({"actions": [click]})}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    upstream.will(whole(message=message, finish_reason="tool_calls"), whole("Done."))
    asked = {"role": "user", "content": "Click."}
    [call] = ask(api, tools=[{"type": "computer"}], input=[asked]).json()["output"]
    assert (call["type"], call["actions"], call["pending_safety_checks"]) == ("computer_call", [click], [])
    screenshot = {"type": "computer_screenshot", "image_url": IMAGE_URL}
    result = {"type": "computer_call_output", "call_id": call["call_id"], "output": screenshot}
    reply = ask(api, tools=[{"type": "computer"}], input=[asked, call, result])
    assert reply.json()["output"][0]["content"][0]["text"] == "Done."
    _, called, told, shown = upstream.requests[-1].body["messages"]
    assert called["tool_calls"][0]["function"]["arguments"] == compact_json.dumps_text({"actions": [click]})
    assert (told["role"], told["tool_call_id"]) == ("tool", "call_1")
    assert shown["content"][1]["image_url"]["url"] == IMAGE_URL


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"include": ["message.output_text.logprobs"]}, "include"), ({"top_logprobs": 2}, "top_logprobs")],
)
def test_probabilities_are_refused_and_ignored_by_the_field_that_asks_for_them(api, large, echo_model, fields, name):
    large.routes.get().provider.__class__.objects.filter(slug="scripted").update(kind="anthropic")
    chat.assert_error(ask(api, **fields), 400, "invalid_request_error", name)
    assert ask(api, model="demo/echo", **fields)["x-gateway-ignored-fields"] == name


def test_an_error_about_a_fallback_begins_with_its_field(api, large):
    error = chat.assert_error(ask(api, models=["acme/large", "acme/none"]), 404, "model_not_found", "models[1]")
    assert error["message"].startswith("models[1]: the model 'acme/none'")


def test_what_the_money_affords_is_told_in_the_callers_words(bob, large):
    factories.credit(bob, 1)
    reply = ask(client_for(factories.make_key(bob)[1]), max_output_tokens=4_000)
    assert re.search(
        r"It affords max_output_tokens up to \d+\.", chat.assert_error(reply, 402, "insufficient_quota")["message"]
    )


def test_other_errors_are_those_of_all_endpoints(api, large):
    chat.assert_error(ask(client_for(None)), 401, "invalid_api_key")
    chat.assert_error(ask(api, model="acme/none"), 404, "model_not_found", "model")
    chat.assert_error(api.get(PATH), 405, "invalid_request_error")
    chat.assert_error(api.generic("POST", PATH, b"{", content_type="application/json"), 400, "invalid_request_error")


@pytest.mark.parametrize(("status", "told"), [(400, 400), (500, 502), (429, 503)])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_provider_that_fails_costs_nothing(api, alice, large, upstream, status, told, is_streamed):
    upstream.will(refusal(status))
    assert ask(api, stream=is_streamed).status_code == told
    assert_released(alice)


def test_replies_have_the_rate_limits(alice, large, upstream):
    upstream.will(whole())
    reply = ask(client_for(factories.make_key(alice, requests_per_minute=5, tokens_per_minute=1_000)[1]))
    assert (reply["x-ratelimit-limit-requests"], reply["x-ratelimit-remaining-requests"]) == ("5", "4")
