"""What a reply is charged, however it ends:

    the upstream reported its usage                  that, exactly
    complete, but no usage                           an estimate of the prompt and of what was relayed
    broken off after the upstream began (2xx)        an estimate of the prompt and of what was relayed, no less than
                                                     the upstream had reported
      by the gateway, at a deadline, while the       all that the hold pays for, if the upstream reported no
      model reasoned, or before a whole reply came   reasoning: it will charge for tokens that nobody saw
    not begun at the total deadline                  the same
    closed because the client left (``cancels``)     an estimate of the prompt and of what was relayed
    given up because the stream did not begin in     what the upstream reports in the end, if it does; else nothing
    time, and no other upstream answered
    failed before that, or unreadable                nothing

A client that leaves changes nothing in this: what the provider will charge is paid, so its reply is read to its end. The
estimate of a prompt includes at what the hold assumed what cannot be measured: files, sounds and images.

Every exit of ``whole`` and ``stream`` calls ``settle`` or ``release``. The sweeper resolves the holds of a dead process.
"""

from dataclasses import replace

from completions.charging import idempotency, settlement, stored_responses
from completions.chat import Usage
from completions.models import Completion
from completions.pricing import cost
from completions.providers.base import ProviderFailed
from completions.relay import new_accounts
from completions.relay.attempts import Dispatch
from gateway_project import errors

Settlement = Completion.Settlement


def expected_nanos(dispatch: Dispatch, usage: Usage) -> int:
    """Return what ``settle`` will charge for a usage, if nothing goes wrong, so that the reply that is stored can tell it."""
    admitted = dispatch.admitted
    return admitted.charge_nanos(cost.usage_cost_nanos(usage, dispatch.call.offer.price, admitted.completion.images))


def settle(dispatch: Dispatch, usage: Usage, settled_by: Completion.Settlement, *, reply: bytes | None = None) -> None:
    """Charge ``usage`` at the admitted price of the offer that answered, and note the charge for the headers."""
    admitted, response = dispatch.admitted, dispatch.response
    if response is not None:
        response = stored_responses.write_ahead(response, admitted.completion.id, admitted.completion.account_id)
    if reply is not None and not idempotency.is_storable(reply):
        dispatch.stores_reply = False
    dispatch.charged_nanos = settlement.settle(
        admitted.completion,
        dispatch.served_by,
        usage,
        dispatch.call.offer.price,
        settled_by,
        has_idempotency_key=admitted.idempotency_key is not None and not (dispatch.has_replied and reply is not None),
        reply=reply,
        stores_reply=dispatch.stores_reply,
        unpaid_nanos=dispatch.unpaid_nanos,
        response=response,
    )
    if admitted.is_new_account and dispatch.charged_nanos:
        new_accounts.record_paid(admitted.completion.account_id)


def settle_broken_off(dispatch: Dispatch, failure: ProviderFailed, reported: Usage | None, relayed_bytes: int) -> None:
    """Charge a reply that its upstream had begun, and that ``failure`` ended."""
    dispatch.drop_late()
    estimated = estimate(dispatch, relayed_bytes + failure.unread_bytes)
    if _is_at_work_unseen(dispatch, failure) and not (reported and reported.reasoning_tokens):
        estimated = replace(estimated, completion_tokens=dispatch.completion_tokens_max)
    settle(dispatch, at_least_reported(estimated, reported), Settlement.PARTIAL)


def _is_at_work_unseen(dispatch: Dispatch, failure: ProviderFailed) -> bool:
    """Return whether the upstream was generating what nobody saw: reasoning, or a whole reply that a deadline ended."""
    is_whole = not dispatch.admitted.request.stream and isinstance(failure.error, errors.UpstreamTimeout)
    return failure.is_cut_off and (dispatch.reasons or is_whole)


def release(dispatch: Dispatch) -> None:
    """Charge nothing."""
    dispatch.drop_late()
    settlement.release(dispatch.admitted.completion, dispatch.served_by, unpaid_nanos=dispatch.unpaid_nanos)


def estimate(dispatch: Dispatch, relayed_bytes: int) -> Usage:
    """Return the usage of a reply with so many bytes of text, never more completion tokens than the hold pays for."""
    completion_tokens = min(cost.estimate_tokens(relayed_bytes), dispatch.completion_tokens_max)
    return Usage(dispatch.admitted.completion.prompt_estimate, completion_tokens, tier=dispatch.admitted.request.tier)


def at_least_reported(estimated: Usage, reported: Usage | None) -> Usage:
    """Return the usage of a reply that broke off: the prompt as reported, and the larger count of generated tokens.

    Some upstreams report as they go, and then the last report is older than the last text. The prompt does not grow: its report
    is right, unless it is 0, which some send until the end.
    """
    if reported is None:
        return estimated
    return replace(
        reported,
        prompt_tokens=reported.prompt_tokens or estimated.prompt_tokens,
        completion_tokens=max(reported.completion_tokens, estimated.completion_tokens),
    )
