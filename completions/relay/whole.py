"""A whole reply: wait for the provider's, settle, and return ours."""

from completions.charging.recovery import checkpoints
from completions.providers.base import ProviderFailed
from completions.relay import attempts, charge
from completions.relay.charge import Settlement
from completions.relay.reply_format import WholeFormat
from completions.relay.running import Running


def relay(running: Running, reply_format: WholeFormat) -> bytes:
    """Return the reply as JSON in the given format, settled. Raises the ApiError of the failure."""
    try:
        with checkpoints.track(running.admitted.completion):
            received = attempts.whole(running)
        running.unknown_finish_reason = received.unknown_finish_reason
        usage = received.usage or charge.estimate(running, received.text_bytes)
        expected_nanos = charge.expected_nanos(running, usage)
        reply = reply_format.whole(running, received, usage, expected_nanos)
    except ProviderFailed as failure:
        charge.settle_broken_off(running, failure)
        raise failure.error from failure
    except BaseException:
        charge.release(running)
        raise
    charge.settle(running, usage, Settlement.REPORTED if received.usage else Settlement.ESTIMATED, reply=reply)
    if running.charged_nanos != expected_nanos:  # nothing is known to be charged, and the reply must not say so
        return reply_format.whole(running, received, usage, running.charged_nanos)
    return reply
