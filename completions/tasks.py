"""Background work: what a worker that died left behind."""

import logging

from celery import shared_task
from django.db import DatabaseError

from billing.models import Hold
from completions import settlement
from completions.models import Completion, IdempotentRequest
from gateway_project import database

logger = logging.getLogger("gateway.sweeper")


@shared_task(name="completions.tasks.release_expired_holds")
def release_expired_holds() -> int:
    """Release every hold that nobody resolved in time; how many. May run at any time, anywhere, twice at once."""
    released = 0
    for completion in _overdue():
        try:
            released += settlement.expire(completion)
        except DatabaseError:  # a row that somebody holds locked must not keep the others' money; it is tried again
            logger.exception("cannot release the hold of %s", completion.pk)
    if released:
        logger.warning("released %s holds that nobody settled in time", released)
    return released


@shared_task(name="completions.tasks.forget_idempotent_requests")
def forget_idempotent_requests() -> int:
    """Delete what may no longer be replayed; how many."""
    deleted, _ = IdempotentRequest.objects.filter(expires_at__lt=database.now()).delete()
    return deleted


def _overdue() -> list[Completion]:
    holds = Hold.objects.filter(state=Hold.State.HELD, expires_at__lt=database.now())
    return list(Completion.objects.filter(pk__in=holds.values("reference")).order_by("created_at"))
