"""The worst case of a request and the cost of its usage, to the nanodollar. The cost is never above the worst case."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from hypothesis import given
from hypothesis import strategies as st

from billing import money
from billing.models import Hold
from completions import estimates, tasks
from completions.charging.recovery import checkpoints
from completions.chat import ChatRequest, Contents, RequestBody
from completions.models import Completion, Price
from completions.pricing.rates import RateSheet
from completions.pricing.usage import Usage
from tests import factories
from tests.chat import prompt_bytes
from tests.completions.content_parts import IMAGE, PDF, SOUND, make_sibling_model, question_with
from tests.completions.offers import make_offer, sheet_of
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import abandon, ask, ask_streamed, assert_charged, assert_released, begin, events
from tests.conftest import client_for
from tests.upstream import CLOSE, DONE, FINISH, HANG, ROLE, refusal, stream, streamed, usage, whole, words

PRICES = st.integers(0, money.price_nanos("1000"))  # up to $1,000 per million tokens


def request(size: int, content: str = "") -> ChatRequest:
    return ChatRequest(
        model="m",
        body=RequestBody({}),
        max_tokens=None,
        stream=False,
        include_usage=False,
        prompt_tokens_max=size,
        contents=Contents(text_bytes=len(content.encode())),
    )


def prices(input: str, output: str, **others: str) -> RateSheet:
    """Dollars per million tokens."""
    return RateSheet.of_values({"input": input, "output": output, **others})


sheets = st.builds(sheet_of, input=PRICES, output=PRICES, cached_input=PRICES, cache_write=PRICES)
sheets_with_images = st.builds(
    sheet_of, input=PRICES, output=PRICES, cached_input=PRICES, cache_write=PRICES, image=st.integers(0, money.nanos(100))
)


@st.composite
def usages(draw: st.DrawFn, prompt_max: int, completion_max: int) -> Usage:
    prompt_tokens = draw(st.integers(0, prompt_max))
    return Usage(prompt_tokens, draw(st.integers(0, completion_max)), cached_tokens=draw(st.integers(0, prompt_tokens)))


@st.composite
def mixed_requests(draw):
    """A valid request with text, images and perhaps a file."""
    text_bytes = draw(st.integers(0, 1_000_000))
    file_at = draw(st.sampled_from(["", "messages[0].content[0].file"]))
    return ChatRequest(
        model="m",
        body=RequestBody({}),
        max_tokens=None,
        stream=False,
        include_usage=False,
        prompt_tokens_max=draw(st.integers(44, 1_000)) + text_bytes,
        choices=draw(st.integers(1, 16)),
        contents=Contents(text_bytes, draw(st.integers(0, 5)), "", file_at),
    )


@st.composite
def mixed_usages(draw, request, offer, max_tokens):
    """Usage that a provider may report: at most a token per byte of text, and the model's maximum for each image."""
    contents = request.contents
    text_tokens = draw(st.integers(0, request.prompt_tokens_max))
    image_tokens = draw(st.integers(0, offer.image_tokens_max)) * contents.images
    file_tokens = draw(st.integers(0, offer.context_window)) if contents.file_at else 0
    prompt = min(text_tokens + file_tokens, offer.context_window) + image_tokens  # some are billed for more than they read
    cached = draw(st.integers(0, prompt))
    written = draw(st.integers(0, prompt - cached))
    return Usage(prompt, draw(st.integers(0, max_tokens * request.choices)), cached, written)


@given(
    st.data(),
    mixed_requests(),
    sheets_with_images,
    st.integers(1, 2_000_000),
    st.integers(0, 20_000),
    st.integers(1, 200_000),
)
def test_usage_within_its_limits_never_costs_more_than_the_hold(
    data, request, price, context_window, image_tokens_max, max_tokens
):
    offer = make_offer(price=price, context_window=context_window, image_tokens_max=image_tokens_max)
    usage = data.draw(mixed_usages(request, offer, max_tokens))
    held_nanos = estimates.worst_case_nanos(request, offer, max_tokens)
    assert 0 <= price.cost_nanos(usage, request.contents.images) <= held_nanos
    estimated = Usage(estimates.estimate_prompt_tokens(request, offer), max_tokens * request.choices)
    assert 0 <= price.cost_nanos(estimated, request.contents.images) <= held_nanos


@given(
    mixed_requests(),
    sheets_with_images,
    st.integers(1, 2_000_000),
    st.integers(0, 20_000),
    st.integers(0, money.nanos(100_000)),
)
def test_the_affordable_tokens_are_the_most_that_fit_the_budget(request, price, context_window, image_tokens_max, budget_nanos):
    offer = make_offer(price=price, context_window=context_window, image_tokens_max=image_tokens_max)
    affordable = estimates.affordable_tokens(request, offer, budget_nanos)
    if affordable < 0:
        assert estimates.worst_case_nanos(request, offer, 0) > budget_nanos
    else:
        assert estimates.worst_case_nanos(request, offer, affordable) <= budget_nanos
        assert not price.rate("output") or estimates.worst_case_nanos(request, offer, affordable + 1) > budget_nanos


@given(st.data(), sheets)
def test_more_tokens_never_cost_less(data, price):
    usage = data.draw(usages(prompt_max=1_000, completion_max=1_000))
    more = Usage(usage.prompt_tokens + 1, usage.completion_tokens + 1, cached_tokens=usage.cached_tokens)
    assert price.cost_nanos(more) >= price.cost_nanos(usage)


@given(st.data(), sheets)
def test_a_cost_is_exact_and_rounded_up_once(data, price):
    usage = data.draw(usages(prompt_max=1_000_000, completion_max=1_000_000))
    exact = (
        (usage.prompt_tokens - usage.cached_tokens) * price.rate("input")
        + usage.cached_tokens * price.rate("cached_input")
        + usage.completion_tokens * price.rate("output")
    )
    assert 0 <= price.cost_nanos(usage) * 1_000_000 - exact < 1_000_000


@pytest.mark.parametrize(
    ("price", "usage", "nanos"),
    [
        (prices("0.15", "0.60"), Usage(500, 200), 195_000),  # 75,000 and 120,000
        (prices("0.15", "0.60"), Usage(0, 0), 0),
        (prices("0.0375", "0.15"), Usage(1, 0), 38),  # 37.5, upwards
        (prices("0.0375", "0.15"), Usage(2, 0), 75),  # 75 exactly: rounded once, not for each token
        (prices("0.000001", "0"), Usage(1, 0), 1),  # a thousandth of a nanodollar
        (
            prices("0.15", "0.60", cached_input="0.075"),
            Usage(500, 200, cached_tokens=400),
            165_000,
        ),  # 15,000, 30,000 and 120,000
        (prices("0.15", "0.60", cached_input="0.00"), Usage(500, 0, cached_tokens=500), 0),
        (prices("3", "15"), Usage(1_000, 2_000, reasoning_tokens=1_900), 33_000_000),  # reasoning is part of the output
        (prices("0", "0"), Usage(1_000_000, 1_000_000), 0),
    ],
)
def test_worked_examples_of_cost(price, usage, nanos):
    assert price.cost_nanos(usage) == nanos


LONG = {"input_above_200000": "4", "output_above_200000": "18"}
BANDED = prices("2", "12", cached_input="0.20", flex_input="1", flex_output="6", **LONG)


def test_a_prompt_of_just_the_threshold_is_charged_as_a_short_one():
    assert BANDED.cost_nanos(Usage(200_000, 1, cached_tokens=1)) == 199_999 * 2_000 + 200 + 12_000


@pytest.mark.parametrize("usage", [Usage(200_001, 1), Usage(200_001, 1, cached_tokens=9), Usage(200_001, 1, tier="priority")])
def test_a_prompt_above_the_threshold_is_charged_whole_at_the_rates_of_its_length(usage):
    assert BANDED.cost_nanos(usage) == 200_001 * 4_000 + 18_000  # also what has no rate there, and a tier that has none


def test_a_tier_without_rates_for_long_prompts_charges_its_own():
    assert BANDED.cost_nanos(Usage(200_001, 1, tier="flex")) == 200_001 * 1_000 + 6_000


@pytest.mark.parametrize(
    ("price", "prompt_bytes", "max_tokens", "nanos"),
    [
        (prices("0.15", "0.60"), 500, 200, 195_000),
        (prices("0.15", "0.60", cached_input="0.075"), 500, 200, 195_000),
        (prices("0.15", "0.60", cached_input="0.30"), 500, 200, 270_000),  # the prompt is held at its dearest price
        (prices("3", "15", cache_write="3.75"), 1_000, 0, 3_750_000),
        (prices("0.0375", "0"), 1, 0, 38),
    ],
)
def test_worked_examples_of_the_worst_case(price, prompt_bytes, max_tokens, nanos):
    assert estimates.worst_case_nanos(request(prompt_bytes), make_offer(price=price), max_tokens) == nanos


def test_free_tokens_are_affordable_without_limit():
    assert estimates.affordable_tokens(request(1_000), make_offer(price=prices("0", "0")), 0) == 2**31 - 1


def test_a_debt_affords_nothing():
    assert estimates.affordable_tokens(request(0), make_offer(price=prices("1", "1")), -1) < 0


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éé", 1), ("\N{GRINNING FACE}" * 2, 2)]
)
def test_a_prompt_is_estimated_at_four_bytes_a_token(text, tokens):
    assert estimates.estimate_prompt_tokens(request(1_000, text), make_offer()) == tokens


# --- Holds -----------------------------------------------------------------------------------------------------------

INPUT, OUTPUT = 3_000, 15_000  # nanodollars a token


@pytest.mark.usefixtures("reading_images")
@pytest.mark.parametrize("images", [1, 2, 5])
def test_the_hold_covers_each_image_at_the_models_image_tokens(api, alice, upstream, large, images):
    large.image_tokens_max = 1_000
    large.save()
    messages = question_with(*[IMAGE] * images)
    ask(api, messages=messages, max_tokens=10)
    tokens = prompt_bytes(messages) + images * 1_000
    assert alice.holds.get().amount_nanos == tokens * INPUT + 10 * OUTPUT


@pytest.mark.usefixtures("reading_images")
def test_the_bytes_of_an_image_are_not_held_as_text(bob, upstream):
    factories.credit(bob, 5)
    photograph = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + "A" * 1_000_000}}
    assert ask(client_for(factories.make_key(bob)[1]), messages=question_with(photograph), max_tokens=10).status_code == 200
    assert bob.holds.get().amount_nanos < money.nanos(5)


@pytest.mark.usefixtures("reading_images")
def test_the_hold_covers_text_up_to_the_context_window_and_each_image_beside_it(api, alice, upstream, large):
    """gpt-4o-mini is billed for 48,169 tokens of an image of which it reads 1,445: three images are more than its window."""
    large.context_window, large.max_output_tokens, large.image_tokens_max = 100, 50, 48_169
    large.save()
    messages = [{"role": "system", "content": "x" * 4_000}, *question_with(IMAGE, IMAGE, IMAGE)]
    ask(api, messages=messages, max_tokens=10)
    assert alice.holds.get().amount_nanos == (100 + 3 * 48_169) * INPUT + 10 * OUTPUT


@pytest.mark.usefixtures("reading_images")
@pytest.mark.parametrize("part", [PDF, SOUND], ids=["document", "sound"])
@pytest.mark.parametrize("images", [0, 1], ids=["alone", "beside an image"])
def test_the_hold_for_compressed_content_is_the_whole_context_window(api, alice, upstream, part, images):
    ask(api, messages=question_with(part, *[IMAGE] * images), max_tokens=10)
    assert alice.holds.get().amount_nanos == (128_000 + images * 6_000) * INPUT + 10 * OUTPUT


@pytest.mark.usefixtures("reading_images")
def test_the_hold_covers_the_price_of_each_image(api, alice, upstream, large):
    factories.change_prices(large.prices, image_nanos=7_000_000)
    messages = question_with(IMAGE, IMAGE)
    ask(api, messages=messages, max_tokens=10)
    tokens = prompt_bytes(messages) + 2 * 6_000
    assert alice.holds.get().amount_nanos == tokens * INPUT + 10 * OUTPUT + 2 * 7_000_000


def test_the_estimated_prompt_is_at_most_the_context_window(api, alice, upstream, large):
    large.context_window, large.max_output_tokens = 100, 50
    large.save()
    upstream.will(whole("abcd", usage=None))
    ask(api, messages=[{"role": "user", "content": "x" * 4_000}], max_tokens=10)
    assert_charged(alice, "estimated", prompt=100, completion=1, nanos=100 * INPUT + OUTPUT)


@pytest.mark.usefixtures("reading_images")
@pytest.mark.parametrize("part", [PDF, SOUND], ids=["document", "sound"])
def test_a_file_is_estimated_at_what_the_hold_assumed(api, alice, upstream, part):
    upstream.will(stream(ROLE, words("abcdefgh"), CLOSE))
    events(ask_streamed(api, messages=question_with(part), max_tokens=10))
    assert_charged(alice, "partial", prompt=128_000, completion=2, nanos=128_000 * INPUT + 2 * OUTPUT)


@pytest.mark.usefixtures("reading_images")
def test_fifty_images_are_estimated_at_what_the_hold_assumed(api, alice, upstream, large):
    large.image_tokens_max = 2_000
    large.save()
    upstream.will(stream(ROLE, words("abcdefgh"), CLOSE))
    events(ask_streamed(api, messages=question_with(*[IMAGE] * 50), max_tokens=10))
    assert_charged(alice, "partial", prompt=100_003, completion=2, nanos=100_003 * INPUT + 2 * OUTPUT)


@pytest.mark.usefixtures("reading_images")
def test_the_report_of_a_prompt_replaces_its_estimate(api, alice, upstream):
    upstream.will(stream(ROLE, words("abcdefgh"), usage({"prompt_tokens": 900, "completion_tokens": 0}), CLOSE))
    events(ask_streamed(api, messages=question_with(PDF), max_tokens=10))
    assert_charged(alice, "partial", prompt=900, completion=2, nanos=900 * INPUT + 2 * OUTPUT)


@pytest.mark.usefixtures("reading_images")
def test_a_file_counts_against_tokens_per_minute_by_its_text_until_its_usage_is_known(alice, upstream):
    limited = client_for(factories.make_key(alice, tokens_per_minute=1_000)[1])
    assert ask(limited, messages=question_with(PDF), max_tokens=10).status_code == 200


# --- The cost of images ---------------------------------------------------------------------------------------------

EACH_NANOS = 7_000_001
# Eleven bytes of text are estimated at three tokens, and each image counts what the hold assumed.
ESTIMATE = {"prompt": 3 + 2 * 6_000}


@pytest.fixture
def image_price(large, reading_images):
    factories.change_prices(large.prices, image_nanos=EACH_NANOS)


def estimated(completion):
    return {**ESTIMATE, "completion": completion, "nanos": ESTIMATE["prompt"] * INPUT + completion * OUTPUT + 2 * EACH_NANOS}


@pytest.mark.usefixtures("image_price")
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_each_image_is_charged_in_addition_to_reported_usage(api, alice, upstream, is_stream):
    upstream.will(streamed() if is_stream else whole())
    reply = ask(api, messages=question_with(IMAGE, IMAGE), stream=is_stream)
    if is_stream:
        events(reply)
    else:
        assert reply["x-gateway-cost"] == "0.014057002"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000 + 2 * EACH_NANOS)
    assert Completion.objects.get().images == 2


@pytest.mark.usefixtures("image_price")
def test_each_image_is_charged_when_usage_is_estimated(api, alice, upstream):
    upstream.will(whole("abcdefgh", usage=None))
    ask(api, messages=question_with(IMAGE, IMAGE))
    assert_charged(alice, "estimated", **estimated(2))


@pytest.mark.usefixtures("image_price")
def test_each_image_is_charged_when_the_reply_breaks_off(api, alice, upstream):
    upstream.will(stream(ROLE, words("abcdefgh"), CLOSE))
    assert events(ask_streamed(api, messages=question_with(IMAGE, IMAGE)))[-1]["error"]["code"] == "upstream_error"
    assert_charged(alice, "partial", **estimated(2))


@pytest.mark.usefixtures("image_price")
def test_each_image_is_charged_when_the_process_dies(api, alice, upstream, large):
    let_providers_cancel()
    upstream.will(stream(ROLE, words("abcdefgh"), HANG))
    reply = ask_streamed(api, messages=question_with(IMAGE, IMAGE))
    begin(reply, "abcdefgh")
    checkpoints.write()
    Price.objects.create(
        model=large, rates=factories.rates_of(input_nanos=1, output_nanos=1, image_nanos=1)
    )  # of later completions
    Completion.objects.update(checkpointed_at=Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1))
    assert tasks.release_expired_holds() == 1
    assert_charged(alice, "recovered", **estimated(Completion.objects.get().completion_tokens))
    abandon(reply)
    assert Hold.objects.get().state == Hold.State.SETTLED


@pytest.mark.usefixtures("image_price")
def test_an_image_is_free_when_the_upstream_did_not_reply(api, alice, upstream):
    upstream.will(refusal(404))
    assert ask(api, messages=question_with(IMAGE)).status_code == 502
    assert_released(alice)


@pytest.mark.usefixtures("image_price")
def test_an_image_costs_the_price_of_the_model_that_replies(api, alice, large, upstream):
    sibling = make_sibling_model("acme/good", large, image_support=True, input="1.00", output="2.00")
    factories.change_prices(sibling.prices, image_nanos=5)
    upstream.will(refusal(404), stream(ROLE, FINISH, DONE))
    events(ask_streamed(api, messages=question_with(IMAGE, IMAGE), models=["acme/good"]))
    nanos = ESTIMATE["prompt"] * 1_000 + 2 * 5
    assert_charged(alice, "estimated", prompt=ESTIMATE["prompt"], completion=0, nanos=nanos, model="acme/good")
