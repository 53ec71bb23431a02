"""A key as replies show it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rest_framework import serializers

from billing.models import DataPolicy
from gateway_project.text import dollars, timestamps
from keys import summaries
from keys.limits import spending
from keys.limits.spending import SpendingWindow
from keys.models import ApiKey
from keys.spending_limit import SpendingPeriod, SpendingType

STATES = ("active", "paused", "expired", "revoked")


class SpendingWindowSerializer(serializers.Serializer[Any]):
    """The spent part of a spending limit in its current period."""

    spentInDollars = serializers.CharField(help_text="Exactly.")
    heldInDollars = serializers.CharField(help_text="By running requests.")
    remainingInCents = serializers.IntegerField(help_text="Rounded down.")
    remainingInDollars = serializers.CharField(help_text="Exactly.")
    resetsAt = serializers.DateTimeField(allow_null=True, help_text="null for a FIXED limit.")


class ApiKeySerializer(serializers.Serializer[Any]):
    """A key."""

    id = serializers.CharField(help_text="The id of the key. It is no secret.")
    name = serializers.CharField(help_text="The name of the key.")
    state = serializers.ChoiceField(choices=STATES, help_text="Whether its requests are admitted: only while it is active.")
    lastFour = serializers.CharField(help_text="The end of its secret.")
    createdAt = serializers.DateTimeField(help_text="When it was created.")
    expiresAt = serializers.DateTimeField(allow_null=True, help_text="When it expires. null: never.")
    lifetimeDaysMax = serializers.IntegerField(
        allow_null=True,
        min_value=1,
        help_text="Of the account: how many days a key works after its secret was made. null: no maximum.",
    )
    pausedAt = serializers.DateTimeField(allow_null=True, help_text="When it was paused. null: it is not.")
    revokedAt = serializers.DateTimeField(allow_null=True, help_text="When it was revoked. null: it is not.")
    formerSecretsEndAt = serializers.DateTimeField(
        allow_null=True, help_text="When the last former secret stops. null: only the newest works."
    )
    spendingLimit = serializers.IntegerField(allow_null=True, help_text="In cents. null: no limit.")
    spendingType = serializers.ChoiceField(
        choices=SpendingType.values, allow_null=True, help_text="FIXED: once. RECURRING: again in each period."
    )
    spendingPeriod = serializers.ChoiceField(
        choices=SpendingPeriod.values, allow_null=True, help_text="Of a RECURRING limit: it resets at 00:00 UTC."
    )
    window = SpendingWindowSerializer(allow_null=True, help_text="null for a key without a spending limit.")
    spentInDollars = serializers.CharField(help_text="In total, exactly.")
    lastUsedOn = serializers.DateField(allow_null=True, help_text="The UTC day.")
    requestsPerMinute = serializers.IntegerField(allow_null=True, help_text="Its own. null: as the account.")
    tokensPerMinute = serializers.IntegerField(allow_null=True, help_text="Its own. null: as the account.")
    allowedModels = serializers.ListField(child=serializers.CharField(), allow_null=True, help_text="null: all models.")
    tags = serializers.ListField(child=serializers.CharField(), help_text="Its labels.")
    dataPolicy = serializers.ChoiceField(
        choices=[DataPolicy.DENY.value, DataPolicy.ZDR.value],
        allow_null=True,
        help_text="As it is set.",
    )
    dataRegions = serializers.ListField(child=serializers.CharField(), allow_null=True, help_text="null: anywhere.")


class ApiKeyWithSecretSerializer(ApiKeySerializer):
    """A key with its new secret."""

    secret = serializers.CharField(help_text="Shown once: the gateway stores only a digest of it.")


class ApiKeyPageSerializer(serializers.Serializer[Any]):
    """A page of keys."""

    keys = ApiKeySerializer(many=True, help_text="The keys: those not revoked first, each newest first.")
    limit = serializers.IntegerField(help_text="The limit that was asked for.")
    offset = serializers.IntegerField(help_text="How many keys were skipped.")
    count = serializers.IntegerField(help_text="How many keys this reply has.")


def describe_keys(keys: Iterable[ApiKey], now: datetime) -> list[dict[str, Any]]:
    """Return each key as replies show it, with three queries for all of them."""
    keys = list(keys)
    windows = spending.read_windows(keys)
    by_key = zip(keys, summaries.summarize_keys(keys, now), strict=True)
    return [_describe(key, summary, windows[key.pk]) for key, summary in by_key]


def _describe(key: ApiKey, summary: summaries.Summary, window: SpendingWindow | None) -> dict[str, Any]:
    return {
        "id": key.pk,
        "name": key.name,
        "state": summary.state.lower(),
        "lastFour": key.last_four,
        "createdAt": _time(key.created_at),
        "expiresAt": _time(key.expires_at),
        "lifetimeDaysMax": key.account.key_lifetime_days_max,
        "pausedAt": _time(key.paused_at),
        "revokedAt": _time(key.revoked_at),
        "formerSecretsEndAt": _time(summary.former_end),
        "spendingLimit": key.spending_limit_cents,
        "spendingType": key.spending_type,
        "spendingPeriod": key.spending_period,
        "window": summaries.describe_window(window) if window else None,
        "spentInDollars": dollars.format_plain(summary.spent_in_total_nanos),
        "lastUsedOn": summary.last_used and summary.last_used.isoformat(),
        "requestsPerMinute": key.requests_per_minute,
        "tokensPerMinute": key.tokens_per_minute,
        "allowedModels": key.allowed_models,
        "tags": key.tags or [],
        "dataPolicy": key.data_policy or None,
        "dataRegions": key.data_regions,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else timestamps.iso_millis(moment)
