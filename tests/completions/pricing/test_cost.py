"""The worst case of a request and the cost of its usage: to the nanodollar, the cost never above the worst case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import money
from completions.chat import ChatRequest, Contents, PriceList, Usage
from completions.pricing import cost
from tests.completions.offers import make_offer

PRICES = st.integers(0, money.price_nanos("1000"))  # up to $1,000 per million tokens
TOKENS = st.integers(0, 10_000_000)


def request(body_bytes: int, content: str = "") -> ChatRequest:
    return ChatRequest(
        model="m",
        messages=[{"role": "user", "content": content}],
        max_tokens=None,
        stream=False,
        include_usage=False,
        fields={},
        body_bytes=body_bytes,
        contents=Contents(text_bytes=len(content.encode())),
    )


def prices(input: str, output: str, cached_input: str | None = None, cache_write: str | None = None) -> PriceList:
    """Dollars per million tokens."""
    return PriceList(*(money.price_nanos(dollars) for dollars in (input, output, cached_input or input, cache_write or input)))


price_lists = st.builds(PriceList, PRICES, PRICES, PRICES, PRICES)


@st.composite
def usages(draw: st.DrawFn, prompt_max: int, completion_max: int) -> Usage:
    prompt_tokens = draw(st.integers(0, prompt_max))
    return Usage(prompt_tokens, draw(st.integers(0, completion_max)), cached_tokens=draw(st.integers(0, prompt_tokens)))


@given(st.data(), price_lists, TOKENS, TOKENS)
def test_usage_within_max_tokens_never_costs_more_than_the_worst_case(data, price, body_bytes, max_tokens):
    usage = data.draw(usages(prompt_max=body_bytes, completion_max=max_tokens))
    assert (
        0
        <= cost.usage_cost_nanos(usage, price)
        <= cost.worst_case_nanos(request(body_bytes), make_offer(price=price), max_tokens)
    )


@given(price_lists, st.integers(0, 100_000), st.integers(0, money.nanos(100_000)))
def test_affordable_tokens_are_the_most_that_the_budget_pays_for(price, body_bytes, budget_nanos):
    affordable = cost.affordable_tokens(request(body_bytes), make_offer(price=price), budget_nanos)
    if affordable < 0:
        assert cost.worst_case_nanos(request(body_bytes), make_offer(price=price), 0) > budget_nanos
    else:
        assert cost.worst_case_nanos(request(body_bytes), make_offer(price=price), affordable) <= budget_nanos
        if price.output_nanos:
            assert cost.worst_case_nanos(request(body_bytes), make_offer(price=price), affordable + 1) > budget_nanos


@given(st.data(), price_lists)
def test_more_tokens_never_cost_less(data, price):
    usage = data.draw(usages(prompt_max=1_000, completion_max=1_000))
    more = Usage(usage.prompt_tokens + 1, usage.completion_tokens + 1, cached_tokens=usage.cached_tokens)
    assert cost.usage_cost_nanos(more, price) >= cost.usage_cost_nanos(usage, price)


@given(st.data(), price_lists)
def test_a_cost_is_exact_and_rounded_up_once(data, price):
    usage = data.draw(usages(prompt_max=1_000_000, completion_max=1_000_000))
    exact = (
        (usage.prompt_tokens - usage.cached_tokens) * price.input_nanos
        + usage.cached_tokens * price.cached_input_nanos
        + usage.completion_tokens * price.output_nanos
    )
    assert 0 <= cost.usage_cost_nanos(usage, price) * 1_000_000 - exact < 1_000_000


@pytest.mark.parametrize(
    ("price", "usage", "nanos"),
    [
        (prices("0.15", "0.60"), Usage(500, 200), 195_000),  # 75,000 and 120,000
        (prices("0.15", "0.60"), Usage(0, 0), 0),
        (prices("0.0375", "0.15"), Usage(1, 0), 38),  # 37.5, upwards
        (prices("0.0375", "0.15"), Usage(2, 0), 75),  # 75 exactly: rounded once, not for each token
        (prices("0.000001", "0"), Usage(1, 0), 1),  # a thousandth of a nanodollar
        (prices("0.15", "0.60", "0.075"), Usage(500, 200, cached_tokens=400), 165_000),  # 15,000, 30,000 and 120,000
        (prices("0.15", "0.60", "0.00"), Usage(500, 0, cached_tokens=500), 0),
        (prices("3", "15"), Usage(1_000, 2_000, reasoning_tokens=1_900), 33_000_000),  # reasoning is part of the output
        (prices("0", "0"), Usage(1_000_000, 1_000_000), 0),
    ],
)
def test_worked_examples_of_cost(price, usage, nanos):
    assert cost.usage_cost_nanos(usage, price) == nanos


@pytest.mark.parametrize(
    ("price", "body_bytes", "max_tokens", "nanos"),
    [
        (prices("0.15", "0.60"), 500, 200, 195_000),
        (prices("0.15", "0.60", cached_input="0.075"), 500, 200, 195_000),
        (prices("0.15", "0.60", cached_input="0.30"), 500, 200, 270_000),  # whichever way of reading the prompt is dearest
        (prices("3", "15", cache_write="3.75"), 1_000, 0, 3_750_000),
        (prices("0.0375", "0"), 1, 0, 38),
    ],
)
def test_worked_examples_of_the_worst_case(price, body_bytes, max_tokens, nanos):
    assert cost.worst_case_nanos(request(body_bytes), make_offer(price=price), max_tokens) == nanos


def test_free_tokens_are_affordable_without_limit():
    assert cost.affordable_tokens(request(1_000), make_offer(price=prices("0", "0")), 0) == 2**31 - 1


def test_a_debt_affords_nothing():
    assert cost.affordable_tokens(request(0), make_offer(price=prices("1", "1")), -1) < 0


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éé", 1), ("\N{GRINNING FACE}" * 2, 2)]
)
def test_a_prompt_is_estimated_at_four_bytes_a_token(text, tokens):
    assert cost.estimate_prompt_tokens(request(1_000, text)) == tokens
