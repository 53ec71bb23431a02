"""The body of GET /v1/usage: the key, its limits and what is left, its usage, and the account's balance."""

from datetime import date
from typing import Any

from django.db.models import Q, Sum

from billing import money
from billing.serializers import BalanceSerializer
from gateway_project import dollars, timestamps
from gateway_project.db import pool
from keys.limits import rate_limits, requests_in_flight, spending
from keys.models import ApiKey, SpendingDay


def describe_usage(key: ApiKey) -> dict[str, Any]:
    """Return the reply. Cents are rounded down; dollars are exact, as strings."""
    now = pool.database_time()
    return {
        "object": "usage",
        "key": {
            "id": key.pk,
            "name": key.name,
            "createdAt": timestamps.iso_millis(key.created_at),
            "expiresAt": key.expires_at and timestamps.iso_millis(key.expires_at),
        },
        "limit": _limit(key, spending.read_window(key)),
        "rateLimits": _rate_limits(key),
        "usage": _usage(key, now.date()),
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
        "spendingLimit": key.spending_limit_cents,
        "spendingType": key.spending_type,
        "spendingPeriod": key.spending_period,
        "spentInDollars": dollars.format_plain(window.spent_nanos),
        "heldInDollars": dollars.format_plain(window.held_nanos),
        "remainingInCents": money.floor_cents(window.available_nanos),
        "remainingInDollars": dollars.format_plain(window.available_nanos),
        "resetsAt": window.resets_at and timestamps.iso_millis(window.resets_at),
    }


def _rate_limits(key: ApiKey) -> dict[str, int | None]:
    limits = rate_limits.effective_limits(key, key.account)
    return {
        "requestsPerMinute": limits.requests,
        "tokensPerMinute": limits.tokens,
        "requestsInFlight": requests_in_flight.key_max(key),
        "accountRequestsInFlight": requests_in_flight.account_max(key.account),
    }


def _usage(key: ApiKey, today: date) -> dict[str, Any]:
    # The calendar month, whatever the period of the key's limit.
    spans = {"today": Q(day=today), "thisMonth": Q(day__gte=today.replace(day=1)), "total": Q()}
    return {name: _sums(key, span) for name, span in spans.items()}


def _sums(key: ApiKey, span: Q) -> dict[str, Any]:
    columns = ("completions", "prompt_tokens", "completion_tokens", "spent_nanos")
    sums = SpendingDay.objects.filter(span, key=key).aggregate(**{name: Sum(name, default=0) for name in columns})
    return {
        "completions": int(sums["completions"]),
        "promptTokens": int(sums["prompt_tokens"]),
        "completionTokens": int(sums["completion_tokens"]),
        "totalTokens": int(sums["prompt_tokens"] + sums["completion_tokens"]),
        "costInDollars": dollars.format_plain(int(sums["spent_nanos"])),
    }
