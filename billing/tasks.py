"""Background work of billing; the settings schedule it by dotted path."""

import logging

from django.contrib.sessions.backends.db import SessionStore

from billing.account_settings import closing, erasure, exports
from billing.alerts import deliveries, entry_notices, sending
from billing.ledger import holds, signed_days
from billing.payments import configuration, reconciliation, top_ups
from billing.payments.processor import ProcessorUnavailable
from billing.sign_in import addresses, limits
from gateway_project.activity import retention
from gateway_project.celery import periodic
from gateway_project.db import pool

logger = logging.getLogger("gateway.audit")


@periodic(retries=20, each_cell=True)  # its next turn is a day later
def verify_ledger() -> int:
    """Check what was booked since the last run, and some of what was signed off. Return how many invariants are violated."""
    violations = signed_days.verify(pool.database_time())
    for violation in violations:
        logger.error("%s; the first: %s", violation, violation.rows[0])
    return len(violations)


@periodic(retries=3, each_cell=True)
def correct_open_holds() -> int:
    """Correct the number of open holds that accounts say, where it is wrong. Log which, and return how many."""
    corrected = holds.correct_counts()
    if corrected:
        logger.warning("corrected the number of open holds of %d accounts: %s", len(corrected), ", ".join(map(str, corrected)))
    return len(corrected)


@periodic(retries=20, each_cell=True, also_after=(ProcessorUnavailable,))  # its next turn is a day later
def reconcile_payments() -> int:
    """Compare the processor's payments with those here, and book what was missed. Return how many contradict each other."""
    processor = configuration.processor()
    return reconciliation.reconcile(processor) if processor else 0


@periodic(retries=3, each_cell=True)
def top_up_accounts() -> int:
    """Buy credit for accounts that run low and want it. Tell members what stops that. Return how many charges were made."""
    processor = configuration.processor()
    made = top_ups.run(processor) if processor else 0
    top_ups.tell(processor)
    return made


@periodic(retries=3, each_cell=True)
def refund_closed_accounts() -> int:
    """Pay back what is left of accounts that owners closed. Return of how many."""
    return closing.refund_closed()


@periodic(retries=3, each_cell=True)
def make_exports() -> int:
    """Make the exports of all data that owners asked for. Return how many are ready."""
    return exports.make_waiting()


@periodic(retries=3, each_cell=True)
def forget_exports() -> int:
    """Delete exports that are some days old. Return how many."""
    return exports.forget_expired()


@periodic(retries=3, each_cell=True)
def erase_closed_accounts() -> int:
    """Erase the personal data of accounts that were closed long enough ago. Return of how many."""
    return erasure.erase_closed()


@periodic(retries=3)
def forget_sign_in_attempts() -> int:
    """Delete the rows of limits on signing in that nothing is used up of, and what ended. Return how many limits."""
    SessionStore.clear_expired()
    addresses.forget_old()
    return limits.forget_unused()


@periodic(retries=3, each_cell=True)
def send_webhooks() -> int:
    """Send the alerts that are due to webhook endpoints. Return how many attempts were made."""
    return sending.send_webhooks()


@periodic(retries=3, each_cell=True)
def note_entries() -> int:
    """Write the mails about payments, credits and refunds that are new. Return how many entries they are about."""
    return entry_notices.write()


@periodic(retries=3, each_cell=True)
def mail_warnings() -> int:
    """Mail the alerts that are due. Return how many attempts were made."""
    return sending.send_mails()


@periodic(retries=3, each_cell=True)
def forget_old_warnings() -> int:
    """Delete alerts that are months old. Return how many."""
    return deliveries.forget_old()


@periodic(retries=20)  # its next turn is a day later
def forget_old_acts() -> int:
    """Delete acts of the activity log that are older than the operator keeps them. Return how many."""
    return retention.delete_old(pool.database_time())
