"""Background work: what a worker that died left behind, and what providers say of their models."""

import logging
import time

import gevent
from celery import shared_task
from django.db import DatabaseError
from django.db.models import Q
from django.db.models.functions import Coalesce

from billing.models import Hold
from completions.catalog.sync import proposals
from completions.charging import checkpoints, outbox, settlement
from completions.models import Completion, IdempotentRequest, Provider
from gateway_project.db import pool

logger = logging.getLogger("gateway.sweeper")

# When the database comes back, so do the processes that could not write meanwhile: within two of their intervals.
_SECOND_LOOK_SECONDS = 2 * checkpoints.INTERVAL_SECONDS + 1


@shared_task(name="completions.tasks.release_expired_holds")
def release_expired_holds() -> int:
    """Settle or release what a process that died was holding; how many. May run at any time, anywhere, twice at once."""
    outbox.drain(settlement.resolve)  # first: it knows what these cost, where a checkpoint only estimates
    resolved = 0
    for completion in _abandoned_for_good():
        try:
            resolved += _resolve(completion)
        except DatabaseError:  # a row that somebody holds locked must not keep the others' money; it is tried again
            logger.exception("cannot release the hold of %s", completion.pk)
    if resolved:
        logger.warning("resolved %s holds that nobody settled in time", resolved)
    return resolved


def sweep_at_start() -> None:
    """In each worker, once: a deployment that has no beat yet gets its money back when it is restarted."""
    gevent.spawn(_sweep)


def _sweep() -> None:
    try:
        release_expired_holds()
    except (*pool.DATABASE_ERRORS, OSError) as error:
        logger.warning("cannot sweep at the start: %s", error)
    finally:
        pool.release_connection()


def _resolve(completion: Completion) -> bool:
    if completion.relayed_bytes is None:
        return settlement.expire(completion)
    return settlement.recover(completion, completion.relayed_bytes)


@shared_task(name="completions.tasks.forget_idempotent_requests")
def forget_idempotent_requests() -> int:
    """Delete what may no longer be replayed; how many."""
    deleted, _ = IdempotentRequest.objects.filter(expires_at__lt=pool.database_time()).delete()
    return deleted


@shared_task(name="completions.tasks.sync_catalog")
def sync_catalog() -> int:
    """Hold the catalog against the lists of the providers that are followed; how many differences are new."""
    found = 0
    for provider in proposals.synced_providers():
        try:
            report = proposals.sync(provider, applies=provider.sync == Provider.Sync.APPLY)
        except proposals.SyncFailed:  # it is in the log, and on the provider's page; the others have theirs
            continue
        found += len(report.proposed) + len(report.applied)
    return found


def _abandoned_for_good() -> list[Completion]:
    """Those that are abandoned still when a process that merely could not write has had the time to."""
    if not _abandoned():
        return []
    pool.release_connection()  # others may want it meanwhile
    time.sleep(_SECOND_LOOK_SECONDS)
    return _abandoned()


def _abandoned() -> list[Completion]:
    """Those whose last sign of life has grown old, or whose hold has expired."""
    now = pool.database_time()
    # Every process writes down every few seconds what it runs: what it never wrote down, it died with.
    unattended = Q(last_sign_at__lt=now - checkpoints.ABANDONED_AFTER)
    # Whatever runs has an open hold, and those have an index: all that ever ran need not be read.
    held = Hold.objects.filter(state=Hold.State.HELD)
    running = Completion.objects.filter(settlement=None, pk__in=held.values("reference"))
    running = running.annotate(last_sign_at=Coalesce("checkpointed_at", "created_at"))
    abandoned = running.filter(unattended | Q(pk__in=held.filter(expires_at__lt=now).values("reference")))
    return list(abandoned.select_related("price").order_by("created_at"))
