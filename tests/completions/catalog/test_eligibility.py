"""Which models and routes can serve a request."""

import pytest

from completions.models import Completion, Route
from tests import factories
from tests.chat import assert_error, everything_written
from tests.completions.content_parts import IMAGE, make_sibling_model, question_with
from tests.completions.rows import ask, assert_charged, assert_released, events
from tests.upstream import KEY_ENV, refusal, streamed, whole

FIND = {"type": "function", "function": {"name": "find"}}


@pytest.fixture(autouse=True)
def _large(large):
    """The model of every test reads only text, unless the test uses ``reading_images``."""


def add_route(large, kind, upstream, priority):
    """Another route to the same model: the scripted upstream behind another adapter."""
    base_url = upstream.url if kind == "openai" else upstream.url.removesuffix("/v1")
    provider = factories.make_provider(f"by-{kind}", kind=kind, base_url=base_url, api_key_env=KEY_ENV)
    Route.objects.create(model=large, provider=provider, upstream_model=f"{kind}-2026", priority=priority)


def asked_models(upstream):
    return [request.body.get("model") or request.path for request in upstream.requests]


def assert_refused(reply, param, upstream, before):
    error = assert_error(reply, 400, "invalid_request_error", param)
    assert upstream.requests == []
    assert everything_written() == before
    return error["message"]


# --- Capabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_an_image_is_refused_for_a_model_that_reads_only_text(api, upstream, is_stream):
    before = everything_written()
    messages = [{"role": "user", "content": "Hello"}, *question_with(IMAGE)]
    reply, part = ask(api, messages=messages, stream=is_stream), "messages[1].content[1].image_url"
    assert assert_refused(reply, part, upstream, before) == f"{part} is an image, which acme/large does not read."


@pytest.mark.parametrize(("name", "tools"), [("tools", [FIND]), ("functions", [{"name": "find"}])])
def test_tools_are_refused_for_a_model_that_does_not_call_functions(api, upstream, name, tools):
    before = everything_written()
    message = assert_refused(ask(api, **{name: tools}), name, upstream, before)
    assert message == f"{name} is not supported by acme/large: it does not call functions."


def test_a_supported_request_reaches_the_model(api, upstream, large, reading_images):
    large.function_calling = True
    large.save()
    assert ask(api, messages=question_with(IMAGE), tools=[FIND]).status_code == 200
    assert len(upstream.requests) == 1


def test_earlier_tool_calls_are_accepted_for_a_model_that_makes_none(api, upstream):
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        *question_with(),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "one"},
    ]
    assert ask(api, messages=messages).status_code == 200


def test_more_tokens_than_the_model_generates_are_refused_before_admission(api, upstream):
    before = everything_written()
    assert_refused(ask(api, max_tokens=4_097), "max_tokens", upstream, before)


# --- Fallbacks and routes -------------------------------------------------------------------------------------------


def test_a_fallback_that_does_not_support_the_request_is_skipped(api, alice, large, reading_images, upstream):
    make_sibling_model("acme/blind", large)
    make_sibling_model("acme/short", large, image_support=True, max_output_tokens=10)
    make_sibling_model("acme/good", large, image_support=True, input="1.00", output="2.00")
    upstream.will(refusal(404), whole())
    reply = ask(api, messages=question_with(IMAGE), models=["acme/blind", "acme/short", "acme/good"], max_tokens=50)
    assert reply.json()["model"] == "acme/good"
    assert asked_models(upstream) == ["large-2026", "acme/good"]
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=9 * 1_000 + 2 * 2_000, model="acme/good")


def test_the_requested_model_must_support_the_request_itself(api, large, upstream):
    make_sibling_model("acme/good", large, image_support=True)
    before = everything_written()
    reply = ask(api, messages=question_with(IMAGE), models=["acme/good"])
    assert_refused(reply, "messages[0].content[1].image_url", upstream, before)


def test_an_unknown_fallback_is_refused_by_its_index(api, upstream):
    before = everything_written()
    assert_error(ask(api, models=["acme/large", "acme/none"]), 404, "model_not_found", "models[1]")
    assert everything_written() == before


@pytest.mark.parametrize(
    ("models", "param", "why"),
    [
        ("acme/large", "models", "must be an array of at most 5 model ids"),
        (["acme/large"] * 6, "models", "must be an array of at most 5 model ids"),
        ([1], "models[0]", "must be a string"),
        (["acme/large", ""], "models[1]", "must have 1 to 200 characters"),
    ],
)
def test_fallbacks_are_a_short_list_of_ids(api, upstream, models, param, why):
    before = everything_written()
    assert assert_refused(ask(api, models=models), param, upstream, before).startswith(f"{param} {why}")


# Anthropic's format can express none of these.
INEXPRESSIBLE = [{"n": 2}, {"logprobs": True}, {"response_format": {"type": "json_object"}}]


@pytest.mark.parametrize("fields", INEXPRESSIBLE, ids=str)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_route_that_cannot_express_the_request_is_skipped(api, large, upstream, fields, is_stream):
    add_route(large, "anthropic", upstream, priority=0)
    upstream.will(streamed() if is_stream else whole())
    reply = ask(api, stream=is_stream, **fields)
    assert (reply.status_code, reply["x-gateway-provider"], reply["x-gateway-attempts"]) == (200, "scripted", "1")
    if is_stream:
        events(reply)
    assert asked_models(upstream) == ["large-2026"]
    assert Completion.objects.get().provider_id == "scripted"


def test_a_route_that_cannot_express_the_request_is_not_tried_when_others_fail(api, alice, large, upstream):
    add_route(large, "anthropic", upstream, priority=2)
    upstream.will(refusal(404))
    assert ask(api, logprobs=True).status_code == 502
    assert asked_models(upstream) == ["large-2026"]
    assert_released(alice)


def test_a_request_that_no_route_can_express_is_refused_with_the_first_routes_reason(api, large, upstream):
    Route.objects.all().delete()
    add_route(large, "gemini", upstream, priority=2)
    add_route(large, "anthropic", upstream, priority=1)
    before = everything_written()
    message = assert_refused(
        ask(api, stop=[" "] * 6), "stop", upstream, before
    )  # too blank for the one, too many for the other
    assert message == "stop must have more than white space in it for this model."


def test_a_fallback_without_an_eligible_route_is_skipped(api, large, upstream):
    provider = factories.make_provider("claude", kind="anthropic", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/claude", provider=provider)
    upstream.will(refusal(404))
    assert ask(api, logprobs=True, models=["acme/claude"]).status_code == 502
    assert asked_models(upstream) == ["large-2026"]
