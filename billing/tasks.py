"""Background work of billing; the settings schedule it by dotted path."""

import logging

from celery import shared_task

from billing import audit
from gateway_project import metrics

logger = logging.getLogger("gateway.audit")


@shared_task
def verify_ledger() -> int:
    """Check all invariants of the ledger. Log each violation, set the metrics, and return the number of violations."""
    violations = audit.verify()
    for violation in violations:
        logger.error("%s; the first: %s", violation, violation.rows[0])
    metrics.ledger_violations.set(len(violations))
    metrics.ledger_verified_timestamp_seconds.set_to_current_time()
    return len(violations)
