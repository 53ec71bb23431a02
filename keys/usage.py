"""The body of GET /v1/usage: the key, its limits and what is left, its usage, and the account's balance."""

from typing import Any, NamedTuple

from billing import money
from billing.serializers import BalanceSerializer
from gateway_project.db import cell
from gateway_project.text import dollars, timestamps
from keys import summaries
from keys.limits import rate_limits, requests_in_flight, spending
from keys.models import ApiKey


def describe_usage(key: ApiKey) -> dict[str, Any]:
    """Return the reply. Cents are rounded down; dollars are exact, as strings."""
    limits, sums = rate_limits.effective_limits(key, key.account), read_sums(key)
    return {
        "object": "usage",
        "key": {
            "id": key.pk,
            "name": key.name,
            "createdAt": timestamps.iso_millis(key.created_at),
            "expiresAt": key.expires_at and timestamps.iso_millis(key.expires_at),
        },
        "limit": _limit(key, spending.read_window(key)),
        "rateLimits": {
            "requestsPerMinute": limits.requests,
            "tokensPerMinute": limits.tokens,
            "requestsInFlight": requests_in_flight.key_max(key),
            "accountRequestsInFlight": requests_in_flight.account_max(key.account),
        },
        "usage": {name: _described(sums[name]) for name in ("today", "thisMonth", "total")},
        "balance": {
            **BalanceSerializer(key.account).data,
            "heldInDollars": dollars.format_plain(key.account.held_nanos),
            "availableInDollars": dollars.format_plain(key.account.available_nanos),
        },
    }


def _limit(key: ApiKey, window: spending.SpendingWindow | None) -> dict[str, Any] | None:
    if window is None:
        return None
    return {
        "spendingLimit": money.floor_cents(window.limit_nanos),
        "spendingType": key.spending_type,
        "spendingPeriod": key.spending_period,
        **summaries.describe_window(window),
    }


# By the database's clock. The month is that of the calendar, whatever the period of the key's limit.
_SUMS = """
    SELECT name, coalesce(sum(completions), 0), coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),
        coalesce(sum(spent_nanos), 0), coalesce(sum(provider_spent_nanos), 0)
    FROM (
        SELECT name, first_day, last_day FROM (SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date AS today) AS clock
        CROSS JOIN LATERAL (
            VALUES ('today', today, today), ('thisWeek', date_trunc('week', today)::date, 'infinity'),
                ('thisMonth', date_trunc('month', today)::date, 'infinity'), ('total', '-infinity', 'infinity')
        ) AS span (name, first_day, last_day)
    ) AS span
    LEFT JOIN keys_spendingday ON key_id = %s AND day BETWEEN first_day AND last_day
    GROUP BY name
"""


class Sums(NamedTuple):
    completions: int
    prompt_tokens: int
    completion_tokens: int
    spent_nanos: int
    provider_spent_nanos: int


def read_sums(key: ApiKey) -> dict[str, Sums]:
    """Return what the key used ``today``, ``thisWeek``, which begins on Monday, ``thisMonth`` and in ``total``."""
    return {name: Sums(*map(int, totals)) for name, *totals in cell.execute(_SUMS, [key.pk])}


def _described(sums: Sums) -> dict[str, Any]:
    return {
        "completions": sums.completions,
        "promptTokens": sums.prompt_tokens,
        "completionTokens": sums.completion_tokens,
        "totalTokens": sums.prompt_tokens + sums.completion_tokens,
        "costInDollars": dollars.format_plain(sums.spent_nanos),
    }
