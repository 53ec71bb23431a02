"""Which models and routes can serve a request, what is held for its parts, and what an image costs."""

import json
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from hypothesis import given
from hypothesis import strategies as st

from billing import money
from billing.models import Hold
from completions import tasks
from completions.charging import checkpoints
from completions.chat import ChatRequest, Contents, PriceList, Usage
from completions.models import Completion, Price, Route
from completions.pricing import cost
from tests import factories
from tests.chat import assert_error, everything_written
from tests.completions.offers import make_offer
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, disconnect, events
from tests.conftest import client_for
from tests.upstream import CLOSE, DONE, FINISH, HANG, KEY_ENV, ROLE, refusal, stream, streamed, whole, words

URL = "data:image/png;base64,iVBORw0KGgo="
TEXT = {"type": "text", "text": "What is it?"}
IMAGE = {"type": "image_url", "image_url": {"url": URL}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
PDF = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}
FIND = {"type": "function", "function": {"name": "find"}}


def showing(*parts):
    return [{"role": "user", "content": [TEXT, *parts]}]


@pytest.fixture(autouse=True)
def _large(large):
    """A model that reads only text, unless a test uses ``seeing``."""


@pytest.fixture
def seeing(large):
    large.image_support = True
    large.save()


def route(large, kind, upstream, priority):
    """Another route to the same model: the scripted upstream behind another adapter."""
    base_url = upstream.url if kind == "openai" else upstream.url.removesuffix("/v1")
    provider = factories.make_provider(f"by-{kind}", kind=kind, base_url=base_url, api_key_env=KEY_ENV)
    Route.objects.create(model=large, provider=provider, upstream_model=f"{kind}-2026", priority=priority)


def another(model_id, large, **fields):
    """A model at the same provider, under the same name there."""
    return factories.make_model(model_id, provider=large.routes.get().provider, upstream_model=model_id, **fields)


def asked_models(upstream):
    return [asked.body.get("model") or asked.path for asked in upstream.requests]


def assert_refused(reply, param, upstream, before):
    error = assert_error(reply, 400, "invalid_request_error", param)
    assert upstream.requests == []
    assert everything_written() == before
    return error["message"]


# --- Capabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_an_image_is_refused_for_a_model_that_reads_only_text(api, upstream, is_stream):
    before = everything_written()
    messages = [{"role": "user", "content": "Hello"}, *showing(IMAGE)]
    reply, part = ask(api, messages=messages, stream=is_stream), "messages[1].content[1].image_url"
    assert assert_refused(reply, part, upstream, before) == f"{part} is an image, which acme/large does not read."


@pytest.mark.parametrize(("name", "tools"), [("tools", [FIND]), ("functions", [{"name": "find"}])])
def test_tools_are_refused_for_a_model_that_does_not_call_functions(api, upstream, name, tools):
    before = everything_written()
    message = assert_refused(ask(api, **{name: tools}), name, upstream, before)
    assert message == f"{name} is not supported by acme/large: it does not call functions."


def test_a_supported_request_reaches_the_model(api, upstream, large, seeing):
    large.function_calling = True
    large.save()
    assert ask(api, messages=showing(IMAGE), tools=[FIND]).status_code == 200
    assert len(upstream.requests) == 1


def test_earlier_tool_calls_are_accepted_for_a_model_that_makes_none(api, upstream):
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        *showing(),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "one"},
    ]
    assert ask(api, messages=messages).status_code == 200


def test_more_tokens_than_the_model_generates_are_refused_before_admission(api, upstream):
    before = everything_written()
    assert_refused(ask(api, max_tokens=4_097), "max_tokens", upstream, before)


# --- Fallbacks and routes -------------------------------------------------------------------------------------------


def test_a_fallback_that_does_not_support_the_request_is_skipped(api, alice, large, seeing, upstream):
    another("acme/blind", large)
    another("acme/short", large, image_support=True, max_output_tokens=10)
    another("acme/good", large, image_support=True, input="1.00", output="2.00")
    upstream.will(refusal(404), whole())
    reply = ask(api, messages=showing(IMAGE), models=["acme/blind", "acme/short", "acme/good"], max_tokens=50)
    assert reply.json()["model"] == "acme/good"
    assert asked_models(upstream) == ["large-2026", "acme/good"]
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=9 * 1_000 + 2 * 2_000, model="acme/good")


def test_the_requested_model_must_support_the_request_itself(api, large, upstream):
    another("acme/good", large, image_support=True)
    before = everything_written()
    reply = ask(api, messages=showing(IMAGE), models=["acme/good"])
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


# Each is something that Anthropic's format has no word for.
BEYOND = [{"n": 2}, {"logprobs": True}, {"response_format": {"type": "json_object"}}]


@pytest.mark.parametrize("fields", BEYOND, ids=str)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_route_that_cannot_express_the_request_is_skipped(api, large, upstream, fields, is_stream):
    route(large, "anthropic", upstream, priority=0)
    upstream.will(streamed() if is_stream else whole())
    reply = ask(api, stream=is_stream, **fields)
    assert (reply.status_code, reply["x-gateway-provider"], reply["x-gateway-attempts"]) == (200, "scripted", "1")
    if is_stream:
        events(reply)
    assert asked_models(upstream) == ["large-2026"]
    assert Completion.objects.get().provider_id == "scripted"


def test_a_route_that_cannot_express_the_request_is_not_tried_when_others_fail(api, alice, large, upstream):
    route(large, "anthropic", upstream, priority=2)
    upstream.will(refusal(404))
    assert ask(api, logprobs=True).status_code == 502
    assert asked_models(upstream) == ["large-2026"]
    assert_released(alice)


def test_a_request_that_no_route_can_express_is_refused_with_the_first_routes_reason(api, large, upstream):
    Route.objects.all().delete()
    route(large, "gemini", upstream, priority=2)
    route(large, "anthropic", upstream, priority=1)
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


# --- Holds ----------------------------------------------------------------------------------------------------------

INPUT, OUTPUT = 3_000, 15_000  # nanodollars a token


def sent_bytes(**fields):
    """The size of the body that the test client sends."""
    return len(json.dumps({"model": "acme/large", **fields}, separators=(",", ":")))


@pytest.mark.usefixtures("seeing")
@pytest.mark.parametrize("images", [1, 2, 5])
def test_the_hold_covers_each_image_at_the_models_image_tokens(api, alice, upstream, large, images):
    large.image_tokens_max = 1_000
    large.save()
    messages = showing(*[IMAGE] * images)
    ask(api, messages=messages, max_tokens=10)
    tokens = sent_bytes(messages=messages, max_tokens=10) - images * len(URL) + images * 1_000
    assert alice.holds.get().amount_nanos == tokens * INPUT + 10 * OUTPUT


@pytest.mark.usefixtures("seeing")
def test_the_bytes_of_an_image_are_not_held_as_text(bob, upstream):
    factories.credit(bob, 5)
    photograph = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + "A" * 1_000_000}}
    assert ask(client_for(factories.make_key(bob)[1]), messages=showing(photograph), max_tokens=10).status_code == 200
    assert bob.holds.get().amount_nanos < money.nanos(5)


@pytest.mark.usefixtures("seeing")
def test_the_hold_covers_at_most_the_context_window(api, alice, upstream, large):
    large.context_window = 9_000
    large.save()
    ask(api, messages=showing(IMAGE, IMAGE), max_tokens=10)
    assert alice.holds.get().amount_nanos == 9_000 * INPUT + 10 * OUTPUT


@pytest.mark.usefixtures("seeing")
@pytest.mark.parametrize("part", [PDF, SOUND], ids=["document", "sound"])
@pytest.mark.parametrize("others", [[], [IMAGE]], ids=["alone", "beside an image"])
def test_the_hold_for_compressed_content_is_the_whole_context_window(api, alice, upstream, part, others):
    ask(api, messages=showing(part, *others), max_tokens=10)
    assert alice.holds.get().amount_nanos == 128_000 * INPUT + 10 * OUTPUT


@pytest.mark.usefixtures("seeing")
def test_the_hold_covers_the_price_of_each_image(api, alice, upstream, large):
    large.prices.update(image_nanos=7_000_000)
    messages = showing(IMAGE, IMAGE)
    ask(api, messages=messages, max_tokens=10)
    tokens = sent_bytes(messages=messages, max_tokens=10) - 2 * len(URL) + 2 * 6_000
    assert alice.holds.get().amount_nanos == tokens * INPUT + 10 * OUTPUT + 2 * 7_000_000


def test_the_estimate_is_at_most_the_context_window(api, alice, upstream, large):
    large.context_window, large.max_output_tokens = 100, 50
    large.save()
    upstream.will(whole("abcd", usage=None))
    ask(api, messages=[{"role": "user", "content": "x" * 4_000}], max_tokens=10)
    assert_charged(alice, "estimated", prompt=100, completion=1, nanos=100 * INPUT + OUTPUT)


# --- The cost of images ---------------------------------------------------------------------------------------------

EACH_NANOS = 7_000_001
# Eleven bytes of text are three tokens; an image that nobody counted is 85.
ESTIMATE = {"prompt": 3 + 2 * 85}


@pytest.fixture
def charging_for_images(large, seeing):
    large.prices.update(image_nanos=EACH_NANOS)


def estimated(completion):
    return {**ESTIMATE, "completion": completion, "nanos": ESTIMATE["prompt"] * INPUT + completion * OUTPUT + 2 * EACH_NANOS}


@pytest.mark.usefixtures("charging_for_images")
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_each_image_is_charged_in_addition_to_reported_usage(api, alice, upstream, is_stream):
    upstream.will(streamed() if is_stream else whole())
    reply = ask(api, messages=showing(IMAGE, IMAGE), stream=is_stream)
    if is_stream:
        events(reply)
    else:
        assert reply["x-gateway-cost"] == "0.014057002"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000 + 2 * EACH_NANOS)
    assert Completion.objects.get().images == 2


@pytest.mark.usefixtures("charging_for_images")
def test_each_image_is_charged_when_usage_is_estimated(api, alice, upstream):
    upstream.will(whole("abcdefgh", usage=None))
    ask(api, messages=showing(IMAGE, IMAGE))
    assert_charged(alice, "estimated", **estimated(2))


@pytest.mark.usefixtures("charging_for_images")
def test_each_image_is_charged_when_the_reply_breaks_off(api, alice, upstream):
    upstream.will(stream(ROLE, words("abcdefgh"), CLOSE))
    assert events(ask_streamed(api, messages=showing(IMAGE, IMAGE)))[-1]["error"]["code"] == "upstream_error"
    assert_charged(alice, "partial", **estimated(2))


@pytest.mark.usefixtures("charging_for_images")
def test_each_image_is_charged_when_the_process_dies(api, alice, upstream, large):
    upstream.will(stream(ROLE, words("abcdefgh"), HANG))
    reply = ask_streamed(api, messages=showing(IMAGE, IMAGE))
    next(iter(reply.streaming_content))
    checkpoints.write()
    Price.objects.create(model=large, input_nanos=1, output_nanos=1, image_nanos=1)  # for those who come from now on
    Completion.objects.update(checkpointed_at=Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1))
    assert tasks.release_expired_holds() == 1
    assert_charged(alice, "recovered", **estimated(Completion.objects.get().completion_tokens))
    disconnect(reply)
    assert Hold.objects.get().state == Hold.State.SETTLED


@pytest.mark.usefixtures("charging_for_images")
def test_an_image_is_free_when_the_upstream_did_not_answer(api, alice, upstream):
    upstream.will(refusal(404))
    assert ask(api, messages=showing(IMAGE)).status_code == 502
    assert_released(alice)


@pytest.mark.usefixtures("charging_for_images")
def test_an_image_costs_the_price_of_the_model_that_answers(api, alice, large, upstream):
    another("acme/good", large, image_support=True, input="1.00", output="2.00").prices.update(image_nanos=5)
    upstream.will(refusal(404), stream(ROLE, FINISH, DONE))
    events(ask_streamed(api, messages=showing(IMAGE, IMAGE), models=["acme/good"]))
    nanos = ESTIMATE["prompt"] * 1_000 + 2 * 5
    assert_charged(alice, "estimated", prompt=ESTIMATE["prompt"], completion=0, nanos=nanos, model="acme/good")


# --- Properties, for any price --------------------------------------------------------------------------------------

NANOS = st.integers(0, money.price_nanos("1000"))
PRICES = st.builds(PriceList, NANOS, NANOS, NANOS, NANOS, st.integers(0, money.nanos(100)))


@st.composite
def requests(draw):
    """A valid request, with the size of its body."""
    image_sizes = draw(st.lists(st.integers(30, 1_000_000), max_size=5))
    text_bytes = draw(st.integers(0, 1_000_000))
    file_at = draw(st.sampled_from(["", "messages[0].content[0].file"]))
    return ChatRequest(
        model="m",
        messages=[],
        max_tokens=None,
        stream=False,
        include_usage=False,
        fields={},
        body_bytes=draw(st.integers(50, 1_000)) + text_bytes + sum(image_sizes),
        choices=draw(st.integers(1, 16)),
        contents=Contents(text_bytes, len(image_sizes), "", file_at, sum(image_sizes)),
    )


@st.composite
def usages(draw, request, offer, max_tokens):
    """Usage that a provider may report: at most a token per byte of text, and the model's maximum per image."""
    contents = request.contents
    text_tokens = draw(st.integers(0, request.body_bytes - contents.image_bytes))
    image_tokens = draw(st.integers(0, offer.image_tokens_max)) * contents.images
    file_tokens = draw(st.integers(0, offer.context_window)) if contents.file_at else 0
    prompt = min(text_tokens + image_tokens + file_tokens, offer.context_window)
    cached = draw(st.integers(0, prompt))
    written = draw(st.integers(0, prompt - cached))
    return Usage(prompt, draw(st.integers(0, max_tokens * request.choices)), cached, written)


@given(st.data(), requests(), PRICES, st.integers(1, 2_000_000), st.integers(0, 20_000), st.integers(1, 200_000))
def test_usage_within_its_limits_never_costs_more_than_the_hold(
    data, request, price, context_window, image_tokens_max, max_tokens
):
    offer = make_offer(price=price, context_window=context_window, image_tokens_max=image_tokens_max)
    usage = data.draw(usages(request, offer, max_tokens))
    held_nanos = cost.worst_case_nanos(request, offer, max_tokens)
    assert 0 <= cost.usage_cost_nanos(usage, price, request.contents.images) <= held_nanos


@given(requests(), PRICES, st.integers(1, 2_000_000), st.integers(0, 20_000), st.integers(0, money.nanos(100_000)))
def test_the_affordable_tokens_are_the_most_that_fit_the_budget(request, price, context_window, image_tokens_max, budget_nanos):
    offer = make_offer(price=price, context_window=context_window, image_tokens_max=image_tokens_max)
    affordable = cost.affordable_tokens(request, offer, budget_nanos)
    if affordable < 0:
        assert cost.worst_case_nanos(request, offer, 0) > budget_nanos
    else:
        assert cost.worst_case_nanos(request, offer, affordable) <= budget_nanos
        assert not price.output_nanos or cost.worst_case_nanos(request, offer, affordable + 1) > budget_nanos
