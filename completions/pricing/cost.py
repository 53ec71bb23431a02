"""What a request may cost at most, and what its usage costs. Pure; in nanodollars, rounded up once."""

import math
from dataclasses import replace

import msgspec
from msgspec import structs

from billing import money
from completions.chat import ChatRequest, Offer, PriceList, Usage

BYTES_PER_TOKEN = 4  # for estimates; it makes them rather low for most text, in the client's favour
IMAGE_TOKENS = 85  # for tokens per minute: what the makers of models count for the smallest image


def max_prompt_tokens(request: ChatRequest, offer: Offer) -> int:
    """Return a bound that the prompt cannot exceed. No text has more tokens than bytes.

    ``completions.request.prompt`` counts the bytes and adds an allowance for the chat template. Images, sounds and documents
    are compressed, so a few bytes may become many tokens: an image counts the most tokens that its provider bills for one,
    however many bytes it has; a sound or a document counts the whole context window. Images count beside the context window,
    because some models are billed for more tokens than they read of an image.

    A provider that searches the web reads the prompt again after each search, with what it found: all readings count.
    """
    contents = request.contents
    if request.inputs:  # each of them may fill the context window
        return request.prompt_tokens_max
    image_tokens = contents.images * offer.image_tokens_max
    if request.web_searches_max:
        return (1 + request.web_searches_max) * (offer.context_window + image_tokens)
    preamble_tokens = offer.preamble_tokens_max if request.has_preamble else 0
    text_tokens = offer.context_window if contents.file_at else request.prompt_tokens_max + preamble_tokens
    return min(text_tokens, offer.context_window) + image_tokens


def estimate_prompt_tokens(request: ChatRequest, offer: Offer) -> int:
    """Return the tokens to charge for the prompt when no upstream counts them: the likely ones of its text, and the most that
    its files, sounds and images can be.

    Their tokens cannot be estimated, and must not be free. So they count what the hold assumed.
    """
    if request.contents.file_at:
        return max_prompt_tokens(request, offer) // (1 + request.web_searches_max)  # of one reading
    image_tokens = request.contents.images * offer.image_tokens_max
    return min(estimate_tokens(request.contents.text_bytes) + image_tokens, max_prompt_tokens(request, offer))


def countable_prompt_tokens(request: ChatRequest, offer: Offer) -> int:
    """Return the tokens that count for the prompt against tokens per minute, until its usage is known: a low estimate."""
    likely_tokens = estimate_tokens(request.contents.text_bytes) + request.contents.images * IMAGE_TOKENS
    return min(likely_tokens, max_prompt_tokens(request, offer))


def estimate_tokens(text_bytes: int) -> int:
    """Return the likely tokens of a text, for when no upstream counted them."""
    return math.ceil(text_bytes / BYTES_PER_TOKEN)


def worst_case_nanos(request: ChatRequest, offer: Offer, max_tokens: int) -> int:
    """Return the most that the request can cost when each of its choices generates ``max_tokens``."""
    price = _held_price(request, offer) if request.tier else offer.price
    return money.round_up(_max_prompt_cost_unrounded(request, offer) + request.choices * max_tokens * price.output_nanos)


def affordable_tokens(request: ChatRequest, offer: Offer, budget_nanos: int) -> int:
    """Return the tokens of each choice that the budget pays for beside the prompt; -1 when it does not pay for the prompt."""
    # Computed before rounding, so that the result is the largest number of tokens with a worst case within the budget.
    left = budget_nanos * money.TOKENS_PER_PRICE - _max_prompt_cost_unrounded(request, offer)
    if left < 0:
        return -1
    price = _held_price(request, offer) if request.tier else offer.price
    if price.output_nanos == 0:
        return 2**31 - 1
    return left // (request.choices * price.output_nanos)


def _max_prompt_cost_unrounded(request: ChatRequest, offer: Offer) -> int:
    """Return the most that the prompt can cost, with the searches, in nanodollars times TOKENS_PER_PRICE."""
    price = _held_price(request, offer) if request.tier else offer.price
    dearest_nanos = max(price.input_nanos, price.cached_input_nanos, price.cache_write_nanos)
    if request.wants_hour_cache and price.cache_write_1h_nanos > dearest_nanos:
        dearest_nanos = price.cache_write_1h_nanos
    others_nanos = request.contents.images * price.image_nanos
    if request.web_searches_max:
        others_nanos += request.web_searches_max * (price.web_search_nanos or 0)
    return max_prompt_tokens(request, offer) * dearest_nanos + others_nanos * money.TOKENS_PER_PRICE


def _held_price(request: ChatRequest, offer: Offer) -> PriceList:
    """Return the dearest of the prices of the tier that is asked for and of those without one: a provider may use either."""
    price, tier = offer.price, offer.price.of_tier(request.tier) or offer.price
    return replace(
        tier,
        input_nanos=max(price.input_nanos, tier.input_nanos),
        output_nanos=max(price.output_nanos, tier.output_nanos),
        cached_input_nanos=max(price.cached_input_nanos, tier.cached_input_nanos),
        cache_write_nanos=max(price.cache_write_nanos, tier.cache_write_nanos),
    )


class CostPart(msgspec.Struct, frozen=True):
    """What one kind of token costs, or images, or searches: a number of them, the price of ``per`` of them, in nanodollars."""

    kind: str
    number: int
    price_nanos: int
    per: int = money.TOKENS_PER_PRICE

    @property
    def unrounded(self) -> int:
        """In nanodollars times TOKENS_PER_PRICE."""
        return self.number * self.price_nanos * (money.TOKENS_PER_PRICE // self.per)


def usage_parts(usage: Usage, price: PriceList, images: int = 0) -> list[CostPart]:
    """Return what the usage costs, by kind, before the one rounding."""
    if usage.tier and (tier := price.of_tier(usage.tier)):
        parts = usage_parts(structs.replace(usage, tier=""), tier, images)
        return [structs.replace(part, kind=f"{part.kind}, {usage.tier} tier") for part in parts]
    uncached_tokens = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
    brief_tokens = usage.cache_write_tokens - usage.cache_write_1h_tokens
    parts = [
        CostPart("input tokens", uncached_tokens, price.input_nanos),
        CostPart("cached input tokens", usage.cached_tokens, price.cached_input_nanos),
        CostPart("input tokens written to the cache", brief_tokens, price.cache_write_nanos),
        CostPart("input tokens cached for one hour", usage.cache_write_1h_tokens, price.cache_write_1h_nanos),
        CostPart("output tokens", usage.completion_tokens, price.output_nanos),
        CostPart("images", images, price.image_nanos, per=1),
    ]
    if usage.web_searches:
        parts.append(CostPart("web searches", usage.web_searches, price.web_search_nanos or 0, per=1))
    return parts


def usage_cost_nanos(usage: Usage, price: PriceList, images: int = 0) -> int:
    """Return what the usage costs exactly, rounded up to the next nanodollar."""
    return parts_cost_nanos(usage_parts(usage, price, images))


def parts_cost_nanos(parts: list[CostPart]) -> int:
    """Return what the parts cost together, rounded up once."""
    # The sum of what is ``unrounded``, without a call for each part: every completion counts this twice.
    return money.round_up(sum([part.number * part.price_nanos * (money.TOKENS_PER_PRICE // part.per) for part in parts]))
