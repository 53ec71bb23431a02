"""What operators watch of the ledger and its holds; ``gateway_project.monitoring.facts`` collects them."""

from gateway_project.monitoring.facts import Fact, last_end_statement, last_result_statement

_AUDIT = "billing.tasks.verify_ledger"

# The partial index open_holds_by_expiry has open holds only, however many are resolved.
FACTS = [
    Fact("gateway_ledger_violations", "Findings of the last audit of the ledger.", last_result_statement(_AUDIT)),
    Fact(
        "gateway_ledger_verified_timestamp_seconds",
        "When the last audit of the whole ledger ended; 0 if none did.",
        last_end_statement(_AUDIT),
    ),
    Fact(
        "gateway_payment_differences",
        "Payments of which the processor's book and this one contradict each other.",
        "SELECT count(*) FROM billing_paymentdifference WHERE gone_at IS NULL",
    ),
    Fact("gateway_holds_open", "Holds that are not resolved.", "SELECT count(*) FROM billing_hold WHERE state = 'HELD'"),
    Fact(
        "gateway_holds_overdue",
        "Holds that are not resolved although they have expired: the sweeper does not resolve them.",
        "SELECT count(*) FROM billing_hold WHERE state = 'HELD' AND expires_at < now()",
    ),
]
