"""How many tokens a request may generate: the client's ``max_tokens``, or what its money reasonably buys. Pure."""

from completions.chat import ChatRequest, Offer
from completions.estimates import cost
from gateway_project import errors

USEFUL_TOKENS = 1_024  # without max_tokens, a request must be able to generate as many, or what its budget buys if that is less
# Without max_tokens, a request holds at most an eighth of the available money, so that a small account can run several at once.
BUDGET_SHARES = 8


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
    affordable_tokens = cost.affordable_tokens(request, offer, budget_nanos)
    return max(min(USEFUL_TOKENS, offer.max_output_tokens, affordable_tokens), 1)


def choose_max_tokens(request: ChatRequest, offer: Offer, available_nanos: int, min_tokens: int) -> int:
    """Return the tokens that the hold pays for and the upstream is told, of which ``min_tokens`` are known to be payable."""
    if (max_tokens := request.max_tokens_of(offer)) is not None:
        return max_tokens
    share_tokens = cost.affordable_tokens(request, offer, available_nanos // BUDGET_SHARES)
    return max(min_tokens, min(share_tokens, offer.max_output_tokens))


def max_tokens_within_hold(request: ChatRequest, offer: Offer, held_nanos: int) -> int:
    """Return the tokens of a fallback that a hold sized for another offer pays for; 0 or less when it pays for none."""
    affordable_tokens = cost.affordable_tokens(request, offer, held_nanos)
    if (max_tokens := request.max_tokens_of(offer)) is not None:
        return max_tokens if max_tokens <= min(affordable_tokens, offer.max_output_tokens) else 0
    return min(affordable_tokens, offer.max_output_tokens)
