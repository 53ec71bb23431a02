"""Metrics of the ledger and its holds; ``gateway_project.monitoring.facts`` collects them."""

from gateway_project.monitoring.facts import Fact, last_end_statement, last_result_statement

AUDIT = "billing.tasks.verify_ledger"

# The partial index open_holds_by_expiry has open holds only, however many are resolved.
FACTS = [
    Fact("gateway_ledger_violations", "Findings of the last audit of the ledger.", last_result_statement(AUDIT)),
    Fact(
        "gateway_ledger_verified_timestamp_seconds",
        "When the last audit of all accounts ended; 0 if none did.",
        last_end_statement(AUDIT),
    ),
    Fact(
        "gateway_ledger_signed_timestamp_seconds",
        "The end of the last day that the audit signed off; without one, when the ledger began.",
        "SELECT extract(epoch FROM coalesce((SELECT max(day + 1)::timestamp AT TIME ZONE 'UTC' FROM billing_auditedday),"
        " (SELECT created_at FROM billing_ledgerentry ORDER BY id LIMIT 1), now()))",
        across_cells=min,
    ),
    Fact(
        "gateway_ledger_reread_timestamp_seconds",
        "When the signed day that was read longest ago was read; now if the ledger has none.",
        "SELECT extract(epoch FROM coalesce(min(checked_at), now())) FROM billing_auditedday",
        across_cells=min,
    ),
    Fact(
        "gateway_payment_differences",
        "Payments of which the processor's book and this one contradict each other.",
        "SELECT count(*) FROM billing_paymentdifference WHERE gone_at IS NULL",
        across_cells=sum,
    ),
    Fact(
        "gateway_holds_open",
        "Holds that are not resolved.",
        "SELECT count(*) FROM billing_hold WHERE state = 'HELD'",
        across_cells=sum,
    ),
    Fact(
        "gateway_holds_overdue",
        "Holds that are not resolved although they have expired: the sweeper does not resolve them.",
        "SELECT count(*) FROM billing_hold WHERE state = 'HELD' AND expires_at < now()",
        across_cells=sum,
    ),
]
