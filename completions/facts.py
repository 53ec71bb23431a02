"""Metrics of completions; ``gateway_project.monitoring.facts`` collects them."""

from functools import partial

from django.conf import settings

from completions.charging.recovery import outbox
from completions.statistics import margins
from gateway_project.monitoring.facts import Fact, HostGauge

# Counts the days that are older than RETENTION_DETAIL_DAYS, from the first day that still has its details. That is the first
# day whose archiving is not finished, or else the day after the last archived one, or else the first audited day.
_ARCHIVE_LAG = f"""
    SELECT greatest((now() AT TIME ZONE 'UTC')::date - {settings.RETENTION_DETAIL_DAYS or 0} - coalesce(
        (SELECT min(day) FROM billing_archivedday WHERE deleted_at IS NULL AND restored_at IS NULL),
        (SELECT max(day) + 1 FROM billing_archivedday),
        (SELECT min(day) FROM billing_auditedday),
        (now() AT TIME ZONE 'UTC')::date
    ), 0)
"""  # noqa: S608  a number


def _margins(column: str) -> str:
    found = margins.statement("day > (now() AT TIME ZONE 'UTC')::date - 30")
    return f"""
    SELECT model_id, provider_id, sum({column}) FROM ({found}) AS margins
    GROUP BY model_id, provider_id HAVING sum(priced_nanos) > 0
"""  # noqa: S608  of this code


# Two days, so that a price that has just changed shows at once, and is not balanced by a good month before. A service tier or
# a length band that is sold below cost is not balanced by another one.
_LOSSES = f"""
    SELECT model_id, provider_id, sum(cost_nanos - priced_nanos)
    FROM ({margins.statement("day >= (now() AT TIME ZONE 'UTC')::date - 1")}) AS margins WHERE cost_nanos > priced_nanos
    GROUP BY model_id, provider_id
"""  # noqa: S608  of this code


def _bills(figure: str) -> str:
    """SQL for a figure of the comparisons of the last days, by provider. Early ones are compared again."""
    return f"""
    SELECT provider_id, {figure} FROM completions_billcomparison
    WHERE day > (now() AT TIME ZONE 'UTC')::date - 30 AND finding <> 'early' GROUP BY provider_id
"""  # noqa: S608  of this code


_UNMATCHED = """
    SELECT provider_id,
        CASE WHEN age <= 2 THEN 'two days' WHEN age <= 7 THEN 'a week' WHEN age <= 31 THEN 'a month' ELSE 'more' END,
        sum(lines)
    FROM completions_billcomparison CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - day) AS of_day (age)
    WHERE finding IN ('unknown_model', 'unknown_request') GROUP BY 1, 2
"""
_margin = partial(Fact, labels=("model", "provider"), across_cells=sum)
FACTS = [
    Fact(
        "gateway_archive_lag_days",
        "Days whose details are to be archived or dropped, and are not yet.",
        "SELECT 0" if settings.RETENTION_DETAIL_DAYS is None else _ARCHIVE_LAG,
        across_cells=max,
    ),
    _margin(
        "gateway_margin_charged_nanos",
        "What was charged in the last 30 UTC days, on those days for which the provider's price is known.",
        _margins("priced_nanos"),
    ),
    _margin("gateway_margin_cost_nanos", "What providers cost of gateway_margin_charged_nanos.", _margins("cost_nanos")),
    _margin(
        "gateway_margin_loss_nanos",
        "What providers cost more than was charged yesterday and today, by UTC, by model and provider: only where they do.",
        _LOSSES,
    ),
    Fact(
        "gateway_bill_unmatched_lines",
        "Lines of providers' bills that no model or request is known of, by the age of their day: up to so long.",
        _UNMATCHED,
        ("provider", "age"),
    ),
    Fact(
        "gateway_bill_reconciled_ratio",
        "The share of what a provider billed for the last 30 UTC days that agrees with what was expected, or is explained.",
        _bills("greatest(0, 1 - sum(greatest(abs(unexplained_usd), hours_usd)) / greatest(sum(abs(billed_usd)), 0.000000001))"),
        ("provider",),
    ),
    Fact(
        "gateway_bill_difference_dollars",
        "What a provider billed for the last 30 UTC days beyond what was expected or is explained; negative: less.",
        _bills("sum(unexplained_usd)"),
        ("provider",),
    ),
    Fact(
        "gateway_circuits_hinted",
        "Routes that failed for some process, which told the others that its circuit is open.",
        "SELECT provider_id, count(*) FILTER (WHERE rests_until > now()) FROM completions_route GROUP BY provider_id",
        ("provider",),
    ),
    # A process with requests for it asks at least every minute, and writes each refusal. An older one may be of another key.
    Fact(
        "gateway_provider_key_refused",
        "1 for a provider that refused the gateway's API key within the last three minutes.",
        "SELECT slug, CASE WHEN key_refused_at > now() - interval '3 minutes' THEN 1 ELSE 0 END FROM completions_provider",
        ("provider",),
    ),
]

HOST_GAUGES = [
    HostGauge("gateway_outbox_waiting", "Settlements that wait on the host's disk.", lambda: len(outbox.waiting_files())),
    HostGauge("gateway_dead_letters", "Dead letters on the host's disk.", lambda: len(outbox.dead_letters())),
]
