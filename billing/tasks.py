"""Background work of billing; the settings schedule it by dotted path."""

import logging

from django.contrib.sessions.backends.db import SessionStore

from billing.account_settings import closing, erasure, exports
from billing.ledger import holds, signed_days
from billing.payments import configuration, reconciliation, top_ups
from billing.payments.processor import ProcessorUnavailable
from billing.sign_in import addresses, limits
from billing.warnings import deliveries, entry_notices, sending
from gateway_project.activity import retention
from gateway_project.celery import app
from gateway_project.cells import everywhere
from gateway_project.db import pool
from gateway_project.monitoring import task_runs

logger = logging.getLogger("gateway.audit")


@app.task(name="billing.tasks.verify_ledger", **pool.task_retries(20))  # its next turn is a day later
@task_runs.recorded
@everywhere.each
def verify_ledger() -> int:
    """Check what was booked since the last run, and some of what was signed off before.

    Log each violation, and return how many invariants are violated.
    """
    violations = signed_days.verify(pool.database_time())
    for violation in violations:
        logger.error("%s; the first: %s", violation, violation.rows[0])
    return len(violations)


@app.task(name="billing.tasks.correct_open_holds", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def correct_open_holds() -> int:
    """Correct the number of open holds that accounts say, where it is wrong. Log which, and return how many."""
    corrected = holds.correct_counts()
    if corrected:
        logger.warning("corrected the number of open holds of %d accounts: %s", len(corrected), ", ".join(map(str, corrected)))
    return len(corrected)


@app.task(
    name="billing.tasks.reconcile_payments",
    **{**pool.task_retries(20), "autoretry_for": (*pool.UNAVAILABLE, ProcessorUnavailable)},  # its next turn is a day later
)
@task_runs.recorded
@everywhere.each
def reconcile_payments() -> int:
    """Compare the processor's payments with those here, and book what was missed. Return how many contradict each other."""
    processor = configuration.processor()
    return reconciliation.reconcile(processor) if processor else 0


@app.task(name="billing.tasks.top_up_accounts", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def top_up_accounts() -> int:
    """Buy credit for accounts that run low and want it. Return how many charges were attempted."""
    processor = configuration.processor()
    return top_ups.run(processor) if processor else 0


@app.task(name="billing.tasks.refund_closed_accounts", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def refund_closed_accounts() -> int:
    """Pay back what is left of accounts that owners closed. Return of how many."""
    return closing.refund_closed()


@app.task(name="billing.tasks.make_exports", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def make_exports() -> int:
    """Make the exports of all data that owners asked for. Return how many are ready."""
    return exports.make_waiting()


@app.task(name="billing.tasks.forget_exports", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def forget_exports() -> int:
    """Delete exports that are some days old. Return how many."""
    return exports.forget_expired()


@app.task(name="billing.tasks.erase_closed_accounts", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def erase_closed_accounts() -> int:
    """Erase the personal data of accounts that were closed long enough ago. Return of how many."""
    return erasure.erase_closed()


@app.task(name="billing.tasks.forget_sign_in_attempts", **pool.task_retries(3))
@task_runs.recorded
def forget_sign_in_attempts() -> int:
    """Delete the rows of limits on signing in that nothing is used up of, and what ended. Return how many limits."""
    SessionStore.clear_expired()
    addresses.forget_old()
    return limits.forget_unused()


@app.task(name="billing.tasks.send_webhooks", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def send_webhooks() -> int:
    """Send the warnings that are due to webhook endpoints. Return how many attempts were made."""
    return sending.send_webhooks()


@app.task(name="billing.tasks.note_entries", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def note_entries() -> int:
    """Write the mails about payments, credits and refunds that are new. Return how many entries they are about."""
    return entry_notices.write()


@app.task(name="billing.tasks.mail_warnings", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def mail_warnings() -> int:
    """Mail the warnings that are due. Return how many attempts were made."""
    return sending.send_mails()


@app.task(name="billing.tasks.forget_old_warnings", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def forget_old_warnings() -> int:
    """Delete warnings that are months old. Return how many."""
    return deliveries.forget_old()


@app.task(name="billing.tasks.forget_old_acts", **pool.task_retries(20))  # its next turn is a day later
@task_runs.recorded
def forget_old_acts() -> int:
    """Delete acts of the activity log that are older than the operator keeps them. Return how many."""
    return retention.delete_old(pool.database_time())
