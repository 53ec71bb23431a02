"""What a request may cost at most, and what it did cost. Pure; nanodollars, rounded once, upwards."""

import math

from billing import money
from completions.chat import ChatRequest, PriceList, Usage

BYTES_PER_TOKEN = 4  # for estimates, and on the low side of what tokenizers make of most text: in the caller's favour


def prompt_tokens_max(request: ChatRequest) -> int:
    """No prompt has more tokens than bytes; the JSON around the text pays for what a chat template adds."""
    return request.body_bytes


def prompt_tokens_estimate(request: ChatRequest) -> int:
    return estimate(request.text_bytes)


def estimate(text_bytes: int) -> int:
    """Tokens in so many bytes of text, when nobody counted them."""
    return math.ceil(text_bytes / BYTES_PER_TOKEN)


def worst_case(request: ChatRequest, price: PriceList, max_tokens: int) -> int:
    """The most that the request can cost when it generates ``max_tokens``."""
    return money.round_up(_dearest_prompt(request, price) + max_tokens * price.output_nanos)


def affordable_tokens(request: ChatRequest, price: PriceList, budget_nanos: int) -> int:
    """How many generated tokens the budget pays for beside the prompt; negative when it does not pay for the prompt."""
    # Before any rounding, so that it is the largest cap whose worst case fits.
    left = budget_nanos * money.TOKENS_PER_PRICE - _dearest_prompt(request, price)
    if left < 0:
        return -1
    if price.output_nanos == 0:
        return 2**31 - 1
    return left // price.output_nanos


def _dearest_prompt(request: ChatRequest, price: PriceList) -> int:
    """Nanodollars times a million: what the prompt costs at most, not rounded yet."""
    return prompt_tokens_max(request) * max(price.input_nanos, price.cached_input_nanos, price.cache_write_nanos)


def cost(usage: Usage, price: PriceList) -> int:
    """What this usage costs, exactly, rounded up to the next nanodollar."""
    uncached_tokens = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
    return money.round_up(
        uncached_tokens * price.input_nanos
        + usage.cached_tokens * price.cached_input_nanos
        + usage.cache_write_tokens * price.cache_write_nanos
        + usage.completion_tokens * price.output_nanos
    )
