"""The way out: a hold becomes a ledger entry or is given back, once.

All of these may be called again, or by two at a time: whoever comes second finds the hold resolved and changes nothing.
When the database is away, what the relay has to say is left to the spool.
"""

import logging
import time

import gevent

from completions import catalog, door, idempotency, pricing, records, spool
from completions.admission import Admitted
from completions.chat import Usage
from completions.models import Completion
from completions.records import Running
from completions.resolution import Resolution, Retry
from gateway_project import metrics

logger = logging.getLogger("gateway.settlement")

# Whoever has read the last word of a reply is waiting for [DONE] all this time. (Each try also waits for a connection or a
# lock by itself.) A restart of the database takes as long; what takes longer is not worth waiting for.
_INSISTENCE_SECONDS = 3


def settle(admitted: Admitted, usage: Usage, settlement: Completion.Settlement, *, reply: bytes | None = None
           ) -> int | None:  # fmt: skip
    """Charge ``usage`` at the admitted price, at most what was held. Returns the nanodollars, None if resolved before.

    ``reply`` is what the caller gets, and gets again for the same Idempotency-Key. Without one it may try again.
    None, too, when the database is away: what was relayed is not free because of that, but charged from the spool.
    """
    cost_nanos = pricing.cost(usage, admitted.call.offer.price)
    retry = Retry(None if reply is None else idempotency.seal(reply), reply is not None) if admitted.attempt else None
    return _insist(Resolution(admitted.completion, settlement, usage, cost_nanos, retry))


def release(completion: Running) -> bool:
    """Give the hold back: nothing is charged. False when it was resolved before. Waits as ``settle`` does."""
    return _insist(Resolution(completion, Completion.Settlement.RELEASED)) is not None


def recover(completion: Completion, relayed_bytes: int) -> bool:
    """Charge what its process had noted before it died: the prompt, estimated, and what was relayed. Does not wait."""
    usage = Usage(completion.prompt_estimate, pricing.estimate(relayed_bytes))
    cost_nanos = pricing.cost(usage, catalog.price_list(completion.price))
    ended = Retry(None, is_kept=False)
    return (
        resolve(Resolution(records.running(completion), Completion.Settlement.RECOVERED, usage, cost_nanos, ended)) is not None
    )


def expire(completion: Completion) -> bool:
    """Give the hold back because nobody resolved it in time. Does not wait: the sweeper will come back to it."""
    return resolve(Resolution(records.running(completion), Completion.Settlement.EXPIRED)) is not None


def resolve(resolution: Resolution) -> int | None:
    """What is charged; None when the hold was resolved before. Does not wait: the spool will come back to it."""
    charged_nanos: int | None = door.pass_through(resolution)
    if charged_nanos is not None and resolution.cost_nanos is not None:
        _report(resolution.completion, resolution.settlement, resolution.cost_nanos, charged_nanos)
    return charged_nanos


def _insist(resolution: Resolution) -> int | None:
    """Try again while the database refuses, then spool it: None. Raises the refusal if the disk refuses, too.

    It is safe when only the answer to a COMMIT was lost: a hold resolves once.
    """
    deadline, pause_seconds = time.monotonic() + _INSISTENCE_SECONDS, 0.1
    while True:
        try:
            return resolve(resolution)
        except spool.AWAY as error:
            if time.monotonic() + pause_seconds > deadline or spool.waiting():  # others have waited in vain
                spool.keep(resolution, error)
                return None
            logger.warning("cannot settle yet, trying again in %s s: %r", pause_seconds, error)
        gevent.sleep(pause_seconds)
        pause_seconds *= 3


def _report(completion: Running, settlement: str, cost_nanos: int, charged_nanos: int) -> None:
    metrics.completions_total.labels(completion.model_id, settlement).inc()
    if cost_nanos > charged_nanos:
        metrics.operator_loss_nanos.inc(cost_nanos - charged_nanos)
    logger.info(
        "settled %s: %s, %s nanodollars", completion.id, settlement, charged_nanos,
        extra={"completion": completion.id, "model": completion.model_id, "cost_nanos": charged_nanos},
    )  # fmt: skip
