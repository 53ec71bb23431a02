"""Background tasks: resolve holds of dead processes, delete what has expired, compare the catalog with providers."""

import logging
import time
from uuid import UUID

import gevent
from celery import shared_task
from django.db.models import Q
from django.db.models.functions import Coalesce

from billing.models import Hold
from completions import hours
from completions.catalog.sync import proposals
from completions.charging import checkpoints, idempotency, journal, outbox, settlement, stored_responses
from completions.models import Completion, Provider
from completions.retention import archive
from completions.retention import usage as old_usage
from completions.usage import sums
from gateway_project import errors
from gateway_project.db import pool, repetition
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut
from gateway_project.monitoring import task_runs

logger = logging.getLogger("gateway.sweeper")

# After an outage of the database, processes that are alive write their checkpoints again within two intervals.
_RECHECK_SECONDS = checkpoints.RECHECK_TIME.total_seconds()
# Errors of one hold: its account may be locked. They must not delay the money of the others.
_LEFT_TO_THE_NEXT_RUN = (*pool.DATABASE_ERRORS, OutcomeUnknown, WaitTimedOut)


@shared_task(name="completions.tasks.release_expired_holds", **pool.task_retries(3))
@task_runs.recorded
def release_expired_holds() -> int:
    """Settle or release the holds of processes that died. Return how many. Safe at any time, on any host, and concurrently."""
    journal.replay_after_failover()
    outbox.drain(settlement.resolve_all)  # first: the outbox has the exact cost, of which a checkpoint gives only an estimate
    resolved, failed_ids = 0, set[UUID]()
    for completion in _still_abandoned():
        try:
            resolved += _resolve(completion)
        except _LEFT_TO_THE_NEXT_RUN as error:
            if completion.account_id not in failed_ids:  # one line for each account: all its holds may fail for one reason
                _report_failure(completion, error)
            failed_ids.add(completion.account_id)
    if resolved:
        logger.warning("resolved %s holds that were not settled in time", resolved)
    return resolved


def _report_failure(completion: Completion, error: Exception) -> None:
    account_id = str(completion.account_id)
    logger.error(
        "cannot release the hold of %s, and perhaps others of account %s, in this run: %s",
        completion.pk,
        account_id,
        errors.reason(error),
        extra={"completion": completion.pk, "account": account_id},
    )


def sweep_at_start() -> None:
    """Run the sweeper once as a worker starts: so a restart resolves old holds even in a deployment without Celery's beat."""
    gevent.spawn(repetition.attempt, release_expired_holds, logger=logger, failure="cannot sweep at the start")


def _resolve(completion: Completion) -> bool:
    if not completion.relayed_bytes:
        return settlement.expire(completion)
    return settlement.recover(completion, completion.relayed_bytes)


@shared_task(name="completions.tasks.forget_idempotent_requests", **pool.task_retries(3))
@task_runs.recorded
def forget_idempotent_requests() -> int:
    """Delete the idempotency keys that have expired. Return how many."""
    deleted = idempotency.delete_expired(pool.database_time())
    if deleted:
        logger.info("deleted %s expired idempotency keys", deleted)
    return deleted


@shared_task(name="completions.tasks.forget_stored_responses", **pool.task_retries(3))
@task_runs.recorded
def forget_stored_responses() -> int:
    """Delete the stored responses that have expired, or that their accounts keep no more. Return how many."""
    deleted = stored_responses.delete_expired(pool.database_time())
    if deleted:
        logger.info("deleted %s stored responses", deleted)
    return deleted


@shared_task(name="completions.tasks.sum_up_hours", **pool.task_retries(3))
@task_runs.recorded
def sum_up_hours() -> int:
    """Sum up the completions of the last hours, which pages show. Return how many hours."""
    return hours.sum_up(pool.database_time())


@shared_task(name="completions.tasks.sum_up_usage", **pool.task_retries(3))
@task_runs.recorded
def sum_up_usage() -> int:
    """Sum up what accounts used since the last run, for their usage pages. Return how many requests."""
    return sums.sum_up()


@shared_task(name="completions.tasks.archive_details", **pool.task_retries(20))  # its next turn is a day later
@task_runs.recorded
def archive_details() -> int:
    """Archive the details of completions that are older than the operator keeps them. Return how many days."""
    return archive.run(pool.database_time())


@shared_task(name="completions.tasks.drop_old_usage", **pool.task_retries(20))
@task_runs.recorded
def drop_old_usage() -> int:
    """Delete sums of usage that are older than the operator keeps them. Return how many rows."""
    return old_usage.drop_old(pool.database_time())


@shared_task(name="completions.tasks.sync_catalog", **pool.task_retries(20))  # its next turn is a day later
@task_runs.recorded
def sync_catalog() -> int:
    """Compare the catalog with the lists of the providers that are followed. Return how many differences are new."""
    found = 0
    for provider in proposals.synced_providers():
        try:
            report = proposals.sync(provider, can_apply=provider.sync == Provider.Sync.APPLY)
        except proposals.SyncFailed:  # it is in the log and on the provider's page; the other providers still have their turn
            continue
        found += len(report.proposed) + len(report.applied)
    return found


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
