"""Background tasks: the sweeper, sums of usage, deletion of what has expired, alerts of changes, providers' lists and bills."""

import logging

from completions.bills import comparison, importing
from completions.catalog import change_alerts
from completions.catalog.sync import proposals
from completions.charging import idempotency, stored_responses
from completions.charging.recovery import sweeper
from completions.models import Provider
from completions.retention import archive
from completions.retention import usage as old_usage
from completions.statistics import hours, uptime
from completions.usage import sums, unusual
from gateway_project.celery import periodic
from gateway_project.db import pool

logger = logging.getLogger("gateway.sweeper")


@periodic(retries=3, each_cell=True)
def forget_idempotent_requests() -> int:
    """Delete the idempotency keys that have expired. Return how many."""
    deleted = idempotency.delete_expired(pool.database_time())
    if deleted:
        logger.info("deleted %s expired idempotency keys", deleted)
    return deleted


@periodic(retries=3, each_cell=True)
def forget_stored_responses() -> int:
    """Delete the stored responses that have expired, or that their accounts keep no more. Return how many."""
    deleted = stored_responses.delete_expired(pool.database_time())
    if deleted:
        logger.info("deleted %s stored responses", deleted)
    return deleted


@periodic(retries=3, each_cell=True)
def sum_up_hours() -> int:
    """Sum up the completions of the last hours, and how many of them were answered, which pages show. Return how many hours."""
    now = pool.database_time()
    uptime.sum_up(now)
    return hours.sum_up(now)


@periodic(retries=20, each_cell=True)  # its next turn is a day later
def archive_details() -> int:
    """Archive the details of completions that are older than the operator keeps them. Return how many days."""
    return archive.run(pool.database_time())


@periodic(retries=20, each_cell=True)
def drop_old_usage() -> int:
    """Delete sums of usage that are older than the operator keeps them. Return how many rows."""
    return old_usage.drop_old(pool.database_time())


@periodic(retries=20)  # its next turn is a day later
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


@periodic(retries=20)  # its next turn is a day later
def import_bills() -> int:
    """Import what is new in GATEWAY_BILLS_DIR, and compare the days of the last month anew. Return how many bills are new."""
    imported = importing.run_directory()
    comparison.compare_recent()
    return imported


# Tasks that are one function of another module, whose docstring says what it counts.
release_expired_holds = periodic("completions.tasks.release_expired_holds", retries=3)(sweeper.release_expired_holds)
sum_up_usage = periodic("completions.tasks.sum_up_usage", retries=3, each_cell=True)(sums.sum_up)
tell_unusual_hours = periodic("completions.tasks.tell_unusual_hours", retries=3, each_cell=True)(unusual.tell)
tell_changes = periodic("completions.tasks.tell_changes", retries=3, each_cell=True)(change_alerts.tell)
