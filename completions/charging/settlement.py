"""The way out: a hold becomes a ledger entry or is given back, once.

All of these may be called again, or by two at a time: whoever comes second finds the hold resolved and changes nothing.
When the database is away, what the relay has to say is left to the spool.
"""

import logging
import time
from typing import Any

import gevent

from completions.catalog import lookup
from completions.charging import batch, idempotency, outbox
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.resolution import ReplyRetention, Resolution
from completions.chat import PriceList, Usage
from completions.models import Completion
from completions.pricing import cost
from gateway_project import metrics

logger = logging.getLogger("gateway.settlement")

# Whoever has read the last word of a reply is waiting for [DONE] all this time. (Each try also waits for a connection or a
# lock by itself.) A restart of the database takes as long; what takes longer is not worth waiting for.
_INSISTENCE_SECONDS = 3


def settle(
    completion: CompletionRecord,
    served_by: ServedBy,
    usage: Usage,
    price: PriceList,
    settlement: Completion.Settlement,
    *,
    has_idempotency_key: bool = False,
    reply: bytes | None = None,
) -> int | None:
    """Charge ``usage`` at ``price``, at most what was held. Return the nanodollars charged.

    Return None when the hold was resolved before, or when the database is unavailable: then the settlement is stored in the
    outbox and charged from there. ``reply`` is what the client gets, and gets again for the same Idempotency-Key; without a
    reply, a retry under that key runs again. Raises the database error when the disk refuses, too.
    """
    cost_nanos = cost.usage_cost_nanos(usage, price, completion.images)
    reply_retention = (
        ReplyRetention(None if reply is None else idempotency.seal(reply), reply is not None) if has_idempotency_key else None
    )
    return _insist(Resolution(completion, served_by, settlement, usage, cost_nanos, reply_retention))


def release(completion: CompletionRecord, served_by: ServedBy) -> bool:
    """Release the hold: nothing is charged. Waits like ``settle``.

    Return False when the hold was resolved before, or when the release is stored in the outbox.
    """
    return _insist(Resolution(completion, served_by, Completion.Settlement.RELEASED)) is not None


def recover(completion: Completion, relayed_bytes: int) -> bool:
    """Charge what its process had noted before it died: the prompt, estimated, and what was relayed. Does not wait."""
    usage = Usage(completion.prompt_estimate, cost.estimate_tokens(relayed_bytes))
    cost_nanos = cost.usage_cost_nanos(usage, lookup.price_list(completion.price), completion.images)
    return _resolve_row(completion, Completion.Settlement.RECOVERED, usage, cost_nanos, ReplyRetention(None, is_kept=False))


def expire(completion: Completion) -> bool:
    """Give the hold back because nobody resolved it in time. Does not wait: the sweeper will come back to it."""
    return _resolve_row(completion, Completion.Settlement.EXPIRED)


def _resolve_row(completion: Completion, settlement: Completion.Settlement, *charge: Any) -> bool:
    record, served_by = CompletionRecord.from_row(completion), ServedBy.from_row(completion)
    return resolve(Resolution(record, served_by, settlement, *charge)) is not None


def resolve(resolution: Resolution) -> int | None:
    """What is charged; None when the hold was resolved before. Does not wait: the spool will come back to it."""
    charged_nanos: int | None = batch.commit(resolution)
    if charged_nanos is not None and resolution.cost_nanos is not None:
        _report(resolution, resolution.cost_nanos, charged_nanos)
    return charged_nanos


def _insist(resolution: Resolution) -> int | None:
    """Try again while the database refuses, then spool it: None. Raises the refusal if the disk refuses, too.

    It is safe when only the answer to a COMMIT was lost: a hold resolves once.
    """
    deadline, pause_seconds = time.monotonic() + _INSISTENCE_SECONDS, 0.1
    while True:
        try:
            return _resolve_first(resolution)
        except outbox.AWAY as error:
            if time.monotonic() + pause_seconds > deadline or outbox.waiting():  # others have waited in vain
                outbox.keep(resolution, error)
                return None
            logger.warning("cannot settle yet, trying again in %.1f s: %r", pause_seconds, error)
        gevent.sleep(pause_seconds)
        pause_seconds *= 3


def _resolve_first(resolution: Resolution) -> int | None:
    charged_nanos = resolve(resolution)
    if charged_nanos is None:  # or by a commit of ours whose answer was lost, which is as it should be
        outbox.compare(resolution)
    return charged_nanos


def _report(resolution: Resolution, cost_nanos: int, charged_nanos: int) -> None:
    completion_id, model_id = resolution.completion.id, resolution.served_by.model_id
    metrics.completions_total.labels(model_id, resolution.settlement).inc()
    if cost_nanos > charged_nanos:
        metrics.operator_loss_nanos.inc(cost_nanos - charged_nanos)
    if resolution.settlement == Completion.Settlement.REPORTED and not resolution.completion.is_stream:
        return  # the line of its request says the same
    logger.info(
        "settled %s: %s, %s nanodollars",
        completion_id,
        resolution.settlement,
        charged_nanos,
        extra={"completion": completion_id, "model": model_id, "cost_nanos": charged_nanos},
    )
