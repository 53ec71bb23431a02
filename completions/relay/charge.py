"""What a reply is charged, however it ends:

    the upstream reported its usage                  that, exactly
    complete, but no usage                           an estimate of the prompt and of what was relayed
    broken off after the upstream began (2xx)        an estimate of the prompt and of what was relayed, no less than
                                                     the upstream had reported
    failed before that, or unreadable                nothing

Every exit of ``whole`` and ``stream`` calls ``settle`` or ``release``. The sweeper resolves the holds of a dead process.
"""

from dataclasses import replace

from completions.charging import settlement
from completions.chat import Usage
from completions.models import Completion
from completions.pricing import cost
from completions.relay.attempts import Dispatch

Settlement = Completion.Settlement


def settle(dispatch: Dispatch, usage: Usage, settled_by: Completion.Settlement, *, reply: bytes | None = None) -> None:
    """Charge ``usage`` at the admitted price of the offer that answered, and note the charge for the headers."""
    admitted = dispatch.admitted
    dispatch.charged_nanos = settlement.settle(
        admitted.completion,
        dispatch.served_by,
        usage,
        dispatch.call.offer.price,
        settled_by,
        has_idempotency_key=admitted.idempotency_key is not None,
        reply=reply,
    )


def release(dispatch: Dispatch) -> None:
    """Charge nothing."""
    settlement.release(dispatch.admitted.completion, dispatch.served_by)


def estimate(dispatch: Dispatch, relayed_bytes: int) -> Usage:
    """Return the usage of a reply with so many bytes of text, never more completion tokens than the hold pays for."""
    completion_tokens = min(cost.estimate_tokens(relayed_bytes), dispatch.admitted.request.choices * dispatch.call.max_tokens)
    return Usage(dispatch.admitted.completion.prompt_estimate, completion_tokens)


def at_least_reported(estimated: Usage, reported: Usage | None) -> Usage:
    """Return the usage of a stream that broke off: the larger of the estimate and the last report, for each count.

    Some upstreams report as they go, and then the last report is older than the last text.
    """
    if reported is None:
        return estimated
    return replace(
        reported,
        prompt_tokens=max(reported.prompt_tokens, estimated.prompt_tokens),
        completion_tokens=max(reported.completion_tokens, estimated.completion_tokens),
    )
