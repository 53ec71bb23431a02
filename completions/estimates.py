"""Estimates before a reply: what a request may cost at most, and how many tokens it may have. Pure.

Costs are in nanodollars, rounded up once. Imports ``chat`` and ``pricing``.
"""

import math

from billing import money
from completions.chat import ChatRequest, Offer
from completions.pricing.rates import STANDARD, HeldRates
from completions.pricing.usage import Usage
from gateway_project import errors

BYTES_PER_TOKEN = 4  # for estimates; it makes them rather low for most text, in the client's favour
IMAGE_TOKENS = 85  # for tokens per minute: what the makers of models count for the smallest image
USEFUL_TOKENS = 1_024  # without max_tokens, a request must be able to generate as many, or what its budget buys if that is less
LEAST_TOKENS = 16  # likewise: OpenAI's Responses refuse a lower maximum (https://github.com/earendil-works/pi/issues/6265)
# Without max_tokens, a request holds at most an eighth of the available money, so that a small account can run several at once.
BUDGET_SHARES = 8


def max_prompt_tokens(request: ChatRequest, offer: Offer) -> int:
    """Return a bound that the prompt cannot exceed. No text has more tokens than bytes, which ``request.prompt`` counts.

    Images, sounds and documents are compressed: an image counts the most tokens that its provider bills for one, beside the
    context window, because some models are billed for more than they read of it; a sound or a document counts the whole window.
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


def is_above_what_is_read(prompt_tokens: int, request: ChatRequest, offer: Offer) -> bool:
    """Return whether a report has more tokens of the prompt than any request can cause.

    Each input, and each reading after a search, may fill the context window. The pages of a file have no bound.
    """
    contents, inputs = request.contents, request.inputs
    readings = inputs.number if inputs else 1 + request.web_searches_max
    window = offer.context_window + contents.images * offer.image_tokens_max
    return not contents.file_at and prompt_tokens > readings * window


def estimate_prompt_tokens(request: ChatRequest, offer: Offer) -> int:
    """Return the tokens to charge for the prompt when no provider counts them: the likely ones of its text.

    Those of files, sounds and images cannot be estimated, and must not be free: they count what the hold assumed.
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
    """Return the likely tokens of a text, for when no provider counted them."""
    return math.ceil(text_bytes / BYTES_PER_TOKEN)


def worst_case_nanos(request: ChatRequest, offer: Offer, max_tokens: int) -> int:
    """Return the maximum cost of the request when each of its choices generates ``max_tokens``."""
    prompt_unrounded, held = max_prompt_cost_unrounded(request, offer)
    return money.round_up(prompt_unrounded + request.choices * max_tokens * held.output_nanos, offer.price.basis_points)


def affordable_tokens(request: ChatRequest, offer: Offer, budget_nanos: int) -> int:
    """Return the tokens of each choice that the budget pays for beside the prompt; -1 when it does not pay for the prompt."""
    # Computed before rounding, so that the result is the largest number of tokens with a worst case within the budget.
    prompt_unrounded, held = max_prompt_cost_unrounded(request, offer)
    if offer.price.basis_points == 0:
        return 2**31 - 1
    left = budget_nanos * money.TOKENS_PER_PRICE * money.WHOLE // offer.price.basis_points - prompt_unrounded
    if left < 0:
        return -1
    if held.output_nanos == 0:
        return 2**31 - 1
    return left // (request.choices * held.output_nanos)


def likely_nanos(request: ChatRequest, offer: Offer, max_tokens: int) -> int:
    """Return what the request likely costs if each of its choices generates ``max_tokens``, without a cache or a search."""
    usage = Usage(estimate_prompt_tokens(request, offer), request.choices * max_tokens, tier=request.tier)
    return offer.price.cost_nanos(usage, request.contents.images)


def max_prompt_cost_unrounded(request: ChatRequest, offer: Offer) -> tuple[int, HeldRates]:
    """Return the maximum cost of the prompt, with searches, in nanodollars times TOKENS_PER_PRICE; and the dearest rates."""
    tokens = max_prompt_tokens(request, offer)
    tier = request.tier or (STANDARD if request.names_standard_tier else None)
    held = offer.price.held(tier, tokens, has_hour_cache=request.wants_hour_cache)
    others_nanos = request.contents.images * held.image_nanos + request.web_searches_max * held.web_search_nanos
    return tokens * held.input_nanos + others_nanos * money.TOKENS_PER_PRICE, held


def require_possible_max_tokens(request: ChatRequest, offer: Offer) -> None:
    """Raises InvalidRequest when the client asks for more tokens than the model can generate."""
    max_tokens = request.max_tokens_of(offer)
    if max_tokens is not None and max_tokens > offer.max_output_tokens:
        name = request.max_tokens_name
        raise errors.InvalidRequest(
            f"{name} is {max_tokens}, but {offer.model_id} generates at most {offer.max_output_tokens} tokens.", param=name
        )


def min_payable_tokens(request: ChatRequest, offer: Offer, budget_nanos: int) -> int:
    """Return the tokens that must be payable to admit the request. ``budget_nanos`` leaves out the holds of other requests."""
    if (max_tokens := request.max_tokens_of(offer)) is not None:
        return max_tokens
    affordable = affordable_tokens(request, offer, budget_nanos)
    return min(max(min(USEFUL_TOKENS, affordable), LEAST_TOKENS), offer.max_output_tokens)


def choose_max_tokens(request: ChatRequest, offer: Offer, available_nanos: int, min_tokens: int) -> int:
    """Return the tokens that the hold pays for and the provider is told, of which ``min_tokens`` are known to be payable."""
    if (max_tokens := request.max_tokens_of(offer)) is not None:
        return max_tokens
    share_tokens = affordable_tokens(request, offer, available_nanos // BUDGET_SHARES)
    return max(min_tokens, min(share_tokens, offer.max_output_tokens))


def max_tokens_within_hold(request: ChatRequest, offer: Offer, held_nanos: int) -> int:
    """Return the tokens of a fallback that a hold sized for another offer pays for; 0 or less when it pays for none."""
    possible_tokens = min(affordable_tokens(request, offer, held_nanos), offer.max_output_tokens)
    if (max_tokens := request.max_tokens_of(offer)) is not None:
        return max_tokens if max_tokens <= possible_tokens else 0
    return possible_tokens if possible_tokens >= min(LEAST_TOKENS, offer.max_output_tokens) else 0
