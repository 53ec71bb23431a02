"""A whole reply: wait for the provider's, settle, and return ours."""

from completions.charging.recovery import checkpoints
from completions.providers.base import ProviderFailed
from completions.relay import attempts, charge
from completions.relay.charge import Settlement
from completions.relay.dispatch import Dispatch
from completions.relay.reply_format import WholeFormat


def relay(dispatch: Dispatch, reply_format: WholeFormat) -> bytes:
    """Return the reply as JSON in the given format, settled. Raises the ApiError of the failure."""
    try:
        with checkpoints.track(dispatch.admitted.completion):
            received = attempts.whole(dispatch)
        dispatch.unknown_finish_reason = received.unknown_finish_reason
        usage = received.usage or charge.estimate(dispatch, received.text_bytes)
        expected_nanos = charge.expected_nanos(dispatch, usage)
        reply = reply_format.whole(dispatch, received, usage, expected_nanos)
    except ProviderFailed as failure:
        charge.settle_broken_off(dispatch, failure)
        raise failure.error from failure
    except BaseException:
        charge.release(dispatch)
        raise
    charge.settle(dispatch, usage, Settlement.REPORTED if received.usage else Settlement.ESTIMATED, reply=reply)
    if dispatch.charged_nanos != expected_nanos:  # nothing is known to be charged, and the reply must not say so
        return reply_format.whole(dispatch, received, usage, dispatch.charged_nanos)
    return reply
