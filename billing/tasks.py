"""Background work of billing, wired by dotted path in the settings."""

import logging

from celery import shared_task

from billing import audit
from gateway_project import metrics

logger = logging.getLogger("gateway.audit")


@shared_task
def verify_ledger() -> int:
    """Ask the whole book whether it is true. Returns the number of violations, which are logged; metrics say it, and when."""
    violations = audit.verify()
    for violation in violations:
        logger.error("%s; the first: %s", violation, violation.rows[0])
    metrics.ledger_violations.set(len(violations))
    metrics.ledger_verified_timestamp_seconds.set_to_current_time()
    return len(violations)
