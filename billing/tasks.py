"""Background work of billing; the settings schedule it by dotted path."""

import logging
from functools import partial

from django.contrib.sessions.backends.db import SessionStore

from billing.account_settings import closing, exports
from billing.alerts import deliveries, entry_notices, sending
from billing.ledger import holds, signed_days
from billing.payments import configuration, reconciliation, top_ups
from billing.payments.processor import ProcessorUnavailable
from billing.proof import roots
from billing.sign_in import addresses, limits
from gateway_project.activity import log
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


@periodic(retries=3)
def sign_ledger() -> int:
    """Sign the root of the hour over the last entries of all accounts. Return how many booked since the one before."""
    return roots.sign_hour(pool.database_time())


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


@periodic(retries=3)
def forget_sign_in_attempts() -> int:
    """Delete the rows of limits on signing in that nothing is used up of, and what ended. Return how many limits."""
    SessionStore.clear_expired()
    addresses.forget_old()
    return limits.forget_unused()


@periodic(retries=20)  # its next turn is a day later
def forget_old_acts() -> int:
    """Delete acts of the activity log that are older than the operator keeps them. Return how many."""
    return log.delete_old(pool.database_time())


# Tasks that are one function of another module, whose docstring says what it counts.
_in_each_cell = partial(periodic, retries=3, each_cell=True)

refund_closed_accounts = _in_each_cell("billing.tasks.refund_closed_accounts")(closing.refund_closed)
make_exports = _in_each_cell("billing.tasks.make_exports")(exports.make_waiting)
forget_exports = _in_each_cell("billing.tasks.forget_exports")(exports.forget_expired)
erase_closed_accounts = _in_each_cell("billing.tasks.erase_closed_accounts")(closing.erase_closed)
send_webhooks = _in_each_cell("billing.tasks.send_webhooks")(sending.send_webhooks)
note_entries = _in_each_cell("billing.tasks.note_entries")(entry_notices.write)
mail_warnings = _in_each_cell("billing.tasks.mail_warnings")(sending.send_mails)
forget_old_warnings = _in_each_cell("billing.tasks.forget_old_warnings")(deliveries.forget_old)
