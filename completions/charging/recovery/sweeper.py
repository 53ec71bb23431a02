"""Settles or releases the holds of processes that died."""

import logging
import time
from collections.abc import Callable
from uuid import UUID

import gevent
from django.db.models import Q
from django.db.models.functions import Coalesce

from billing.models import Hold
from completions import estimates
from completions.charging import batch
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.recovery import checkpoints, drains, journal, outbox, owed
from completions.charging.resolution import ReplyRetention, Resolution
from completions.models import Completion
from completions.pricing.usage import Usage
from gateway_project import errors
from gateway_project.db import cell, everywhere, pool, repetition
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut

logger = logging.getLogger("gateway.sweeper")

# After an outage of the database, processes that are alive write their checkpoints again within two intervals.
_RECHECK_SECONDS = checkpoints.RECHECK_TIME.total_seconds()
# Errors of one hold: its account may be locked. They must not delay the money of the others.
_LEFT_TO_THE_NEXT_RUN = (*pool.DATABASE_ERRORS, OutcomeUnknown, WaitTimedOut)


def release_expired_holds() -> int:
    """Settle or release the holds of processes that died. Return how many. Safe at any time, on any host, and concurrently."""
    failures = []
    # First: the outbox has the exact cost, of which a checkpoint gives only an estimate. An unavailable cell holds up no other.
    first: list[Callable[[], object]] = [journal.replay_after_failover, drains.drain]
    for work in first:
        try:
            work()
        except outbox.UNAVAILABLE as error:
            if not cell.are_several():
                raise
            failures.append(error)
    resolved = _release_of_cell()
    if failures:
        raise failures[0]
    return resolved


@everywhere.each
def _release_of_cell() -> int:
    resolved, failed_ids = 0, set[UUID]()
    for completion in _still_abandoned():
        try:
            resolved += resolve(completion)
        except _LEFT_TO_THE_NEXT_RUN as error:
            if completion.account_id not in failed_ids:  # one line for each account: all its holds may fail for one reason
                message = "cannot release the hold of %s, and perhaps others of account %s, in this run: %s"
                completion_id, account_id, reason = completion.pk, str(completion.account_id), errors.reason(error)
                facts = {"completion": completion_id, "account": account_id}
                logger.error(message, completion_id, account_id, reason, extra=facts)
            failed_ids.add(completion.account_id)
    if resolved:
        logger.warning("resolved %s holds that were not settled in time", resolved)
    return resolved


def sweep_at_start() -> None:
    """Run the sweeper once as a worker starts: so a restart resolves old holds even in a deployment without Celery's beat."""
    gevent.spawn(repetition.attempt, release_expired_holds, logger=logger, failure="cannot sweep at the start")


def resolve(completion: Completion) -> bool:
    """Charge an estimate of the prompt and of the text that the last checkpoint noted, or release the hold if that is none.

    Return False when the hold was resolved before.
    """
    record, served_by = CompletionRecord.from_row(completion), ServedBy.from_row(completion)
    resolution = Resolution(record, served_by, Completion.Settlement.EXPIRED)
    if completion.relayed_bytes:
        tokens = estimates.estimate_tokens(completion.relayed_bytes)
        usage = Usage(completion.prompt_estimate, tokens, tier=completion.service_tier or "")
        cost_nanos, provider_nanos = completion.sheet.cost_nanos(usage, completion.images), None
        if completion.counts_price is not None:
            provider_nanos = completion.price.sheet.cost_nanos(usage, completion.images)
        ended = record, served_by, Completion.Settlement.RECOVERED, usage, cost_nanos, ReplyRetention(None, is_kept=False)
        resolution = Resolution(*ended, provider_nanos=provider_nanos)
    charged_nanos: int | None = batch.commit(resolution)
    if charged_nanos is not None:
        owed.report(resolution, charged_nanos)
    return charged_nanos is not None


def _still_abandoned() -> list[Completion]:
    """Return the abandoned completions, after giving processes that merely could not write the time to do so."""
    if not _abandoned():
        return []
    pool.release_connection()  # for others to use while this waits
    time.sleep(_RECHECK_SECONDS)
    return _abandoned()


def _abandoned() -> list[Completion]:
    """Return the completions whose last sign of life is old, or whose hold has expired."""
    now = pool.database_time()
    # Every process writes a checkpoint of what it runs every few seconds. One without any died before the first.
    unattended = Q(last_sign_at__lt=now - checkpoints.ABANDONED_AFTER)
    # Every running completion has an open hold, and open holds have an index: this avoids reading all completions.
    held = Hold.objects.filter(state=Hold.State.HELD)
    running = Completion.objects.filter(settlement=None, pk__in=held.values("reference"))
    running = running.annotate(last_sign_at=Coalesce("checkpointed_at", "created_at"))
    abandoned = running.filter(unattended | Q(pk__in=held.filter(expires_at__lt=now).values("reference")))
    abandoned = abandoned.exclude(pk__in=[path.stem for path in outbox.waiting_files()])  # another process is to drain them
    return list(abandoned.select_related("price").order_by("created_at"))
