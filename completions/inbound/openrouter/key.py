"""The body of GET /v1/key: what the key has used and may use, as OpenRouter says it.

OpenRouter's clients require every field. Fields about features that the gateway does not have, such as callers' own keys of
providers, are zero, empty or null.
"""

from typing import Any

from gateway_project.text import dollars, timestamps
from keys.limits import rate_limits, spending
from keys.models import ApiKey
from keys.usage import read_sums

UNLIMITED = -1  # requests in a minute
_NO_KEYS_OF_PROVIDERS = dict.fromkeys(("byok_usage", "byok_usage_daily", "byok_usage_weekly", "byok_usage_monthly"), 0)
_NO_FREE_MODELS = dict.fromkeys(("limit", "remaining", "used"), 0)


def describe_key(key: ApiKey) -> dict[str, Any]:
    """Return the reply, for ``compact_json.dumps``. Dollars are exact numbers."""
    window, sums = spending.read_window(key), read_sums(key)
    requests = rate_limits.effective_limits(key, key.account).requests
    return {
        "data": {
            "label": key.name,
            "limit": window and dollars.json_number(window.limit_nanos),
            "limit_remaining": window and dollars.json_number(window.available_nanos),
            "limit_reset": key.spending_period and key.spending_period.lower() if window else None,
            "usage": dollars.json_number(sums["total"].spent_nanos),
            "usage_daily": dollars.json_number(sums["today"].spent_nanos),
            "usage_weekly": dollars.json_number(sums["thisWeek"].spent_nanos),
            "usage_monthly": dollars.json_number(sums["thisMonth"].spent_nanos),
            "expires_at": key.expires_at and timestamps.iso_millis(key.expires_at),
            "is_free_tier": not key.account.has_paid,
            "rate_limit": {
                "requests": UNLIMITED if requests is None else requests,
                "interval": "1m",
                "note": "Requests in a minute. GET /v1/usage has all limits.",
            },
            "is_management_key": False,
            "is_provisioning_key": False,
            "include_byok_in_limit": False,
            **_NO_KEYS_OF_PROVIDERS,
            "free_model_daily_requests": _NO_FREE_MODELS,
            "allowed_data_regions": ["global"],
            "budgets": [],
            "effective_budget": None,
            "creator_user_id": None,
            "organization_id": None,
            "workspace_id": None,
        }
    }
