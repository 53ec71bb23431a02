"""How many tokens may a request generate: what its caller asked for, or what its money sensibly buys. Pure."""

from completions.chat import ChatRequest, Offer
from completions.pricing import cost
from gateway_project import errors

SENSIBLE_TOKENS = 1_024  # without max_tokens, the least worth generating as long as it can be paid
SHARE_OF_BUDGET = 8  # ... and one request may lock an eighth of the money, so that small accounts can run several


def require_possible_max_tokens(request: ChatRequest, offer: Offer) -> None:
    """Raises InvalidRequest when the caller asks for more than the model can generate."""
    if request.max_tokens is not None and request.max_tokens > offer.max_output_tokens:
        name = request.max_tokens_field
        raise errors.InvalidRequest(
            f"{name} is {request.max_tokens}, but {offer.model_id} generates at most {offer.max_output_tokens} tokens.",
            param=name,
        )


def min_payable_tokens(request: ChatRequest, offer: Offer, budget_nanos: int) -> int:
    """What must be payable for the request to be let in at all. ``budget_nanos`` is the money behind all holds."""
    if request.max_tokens is not None:
        return request.max_tokens
    affordable = cost.affordable_tokens(request, offer, budget_nanos)
    return max(min(SENSIBLE_TOKENS, offer.max_output_tokens, affordable), 1)


def choose_max_tokens(request: ChatRequest, offer: Offer, available_nanos: int, least: int) -> int:
    """What the hold pays for and the upstream is told, when ``least`` tokens are payable out of what is available."""
    if request.max_tokens is not None:
        return request.max_tokens
    share = cost.affordable_tokens(request, offer, available_nanos // SHARE_OF_BUDGET)
    return max(least, min(share, offer.max_output_tokens))


def max_tokens_within_hold(request: ChatRequest, offer: Offer, held_nanos: int) -> int:
    """What of this offer a hold pays for that was sized by another one; 0 or less when it does not pay for it."""
    affordable = cost.affordable_tokens(request, offer, held_nanos)
    if request.max_tokens is not None:
        return request.max_tokens if request.max_tokens <= min(affordable, offer.max_output_tokens) else 0
    return min(affordable, offer.max_output_tokens)
