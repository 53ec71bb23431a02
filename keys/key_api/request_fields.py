"""The fields of a key that a request may set, with their bounds, and their arguments of ``lifecycle``."""

from datetime import UTC, datetime
from typing import Any

from django.core.validators import RegexValidator
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from billing import money
from billing.alerts.payload import camel_case
from billing.models import REGION, REGIONS_MAX, Account, DataPolicy
from gateway_project import app_config, errors
from gateway_project.db import pool
from gateway_project.web.openapi.fields import optional
from keys import lifecycle
from keys.limits import rate_limits
from keys.models import MODEL_CHARACTERS_MAX, MODELS_MAX, RATE_MAX, TAG_CHARACTERS_MAX, TAGS_MAX, ApiKey
from keys.spending_limit import Flaw, InvalidLimit, SpendingLimit, SpendingPeriod, SpendingType

GRACE_SECONDS_MAX = 7 * 86_400
GRACE_SECONDS_DEFAULT = 86_400
_LIMIT = ("spendingLimit", "spendingType", "spendingPeriod")
_FLAWS = {
    Flaw.NO_AMOUNT: ("spendingLimit", "must be given with spendingType"),
    Flaw.NO_TYPE: ("spendingType", "must be given with spendingLimit: FIXED or RECURRING"),
    Flaw.NO_PERIOD: ("spendingPeriod", "must be given for a RECURRING limit: DAILY, WEEKLY or MONTHLY"),
    Flaw.NEEDLESS_PERIOD: ("spendingPeriod", "must be null for a FIXED limit"),
}
_COLUMNS = (
    *("name", "expires_at", "requests_per_minute", "tokens_per_minute", "allowed_models", "tags"),
    *("data_policy", "data_regions"),
)
_FIELDS = {camel_case(column): column for column in _COLUMNS}


class Integer(serializers.IntegerField):
    """A JSON integer: no string, no boolean, no fraction."""

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(data) if type(data) is int else self.fail("invalid")


class Text(serializers.CharField):
    """A JSON string."""

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(data) if isinstance(data, str) else self.fail("invalid")


@extend_schema_field({"type": "string", "format": "date-time"})
class Time(serializers.Field[Any, Any, Any, Any]):
    """A time with its offset from UTC: none is guessed."""

    default_error_messages = {"invalid": "must be an ISO 8601 time with an offset, such as 2026-12-31T00:00:00Z"}

    def to_internal_value(self, data: Any) -> Any:
        try:
            moment = datetime.fromisoformat(data)
            return moment.astimezone(UTC) if moment.tzinfo else self.fail("invalid")
        except (TypeError, ValueError, OverflowError):  # the last: in UTC it is before year 1 or after year 9999
            self.fail("invalid")

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_serializer(component_name="UpdateApiKeyRequest")
class ChangeSerializer(serializers.Serializer[Any]):
    """Fields of a key. null clears one. The three of the spending limit are set together."""

    name = Text(max_length=100, required=False, help_text="The name of the key.")
    expiresAt = optional(
        Time, help_text="From then on the key is refused. null: never, or a new key as late as the account lets it."
    )
    spendingLimit = optional(
        Integer, min_value=0, max_value=money.CENTS_MAX, help_text="In cents. null: no limit. Give spendingType with it."
    )
    spendingType = optional(serializers.ChoiceField, choices=SpendingType.values, help_text="FIXED: once. RECURRING: again.")
    spendingPeriod = optional(
        serializers.ChoiceField, choices=SpendingPeriod.values, help_text="Of a RECURRING limit: it resets at 00:00 UTC."
    )
    requestsPerMinute = optional(Integer, min_value=1, max_value=RATE_MAX, help_text="null: as the account.")
    tokensPerMinute = optional(Integer, min_value=1, max_value=RATE_MAX, help_text="null: as the account.")
    allowedModels = optional(
        serializers.ListField,
        child=Text(max_length=MODEL_CHARACTERS_MAX),
        max_length=MODELS_MAX,
        help_text="Ids of models. null or empty: all models.",
    )
    tags = optional(
        serializers.ListField,
        child=Text(
            max_length=TAG_CHARACTERS_MAX, validators=[RegexValidator(r"^[^,\x00-\x1f]+$", "has a comma or control character")]
        ),
        max_length=TAGS_MAX,
        help_text="Labels of the key, without commas.",
    )
    dataPolicy = optional(
        serializers.ChoiceField,
        choices=[DataPolicy.DENY.value, DataPolicy.ZDR.value],
        help_text="deny: providers that do not train. zdr: and that keep nothing. null: any.",
    )
    dataRegions = optional(
        serializers.ListField,
        child=Text(max_length=2, validators=[RegexValidator(rf"^{REGION}$", "must be two lower-case letters")]),
        max_length=REGIONS_MAX,
        help_text="Where requests may be processed: eu, or codes of countries. null or empty: anywhere.",
    )


@extend_schema_serializer(component_name="CreateApiKeyRequest")
class NewKeySerializer(ChangeSerializer):
    """A new key."""

    name = Text(max_length=100, help_text="The name of the key.")


@extend_schema_serializer(component_name="RotateApiKeyRequest")
class RotationSerializer(serializers.Serializer[Any]):
    """How a key is rotated."""

    graceSeconds = Integer(
        min_value=0,
        max_value=GRACE_SECONDS_MAX,
        default=GRACE_SECONDS_DEFAULT,
        help_text="How long the current secrets keep working, at most.",
    )


def read(serializer: type[serializers.Serializer[Any]], body: Any) -> dict[str, Any]:
    """Return the fields of the body. Raises ValidationError or InvalidRequest, which name the field."""
    reader = serializer(data=body)
    if isinstance(body, dict):
        for name in body:
            if name not in reader.fields:
                raise errors.wrong(name, "is not a field that can be set", quotes_request=True)
    reader.is_valid(raise_exception=True)
    return dict(reader.validated_data)


def limit(fields: dict[str, Any]) -> SpendingLimit | None:
    """Return the spending limit; None if the request has nothing of it."""
    if fields.keys().isdisjoint(_LIMIT):
        return None
    try:
        return SpendingLimit(*(fields.get(name) for name in _LIMIT))
    except InvalidLimit as refusal:
        raise errors.wrong(*_FLAWS[refusal.flaw]) from None


def details(fields: dict[str, Any], account: Account, key: ApiKey | None = None) -> dict[str, Any]:
    """Return the other fields as arguments of ``lifecycle.change_key``. ``key`` is the one to change."""
    found = {argument: fields[name] for name, argument in _FIELDS.items() if name in fields}
    if "data_policy" in found:
        found["data_policy"] = found["data_policy"] or DataPolicy.ANY.value
    for name in ("allowed_models", "tags", "data_regions"):
        if found.get(name) is not None:
            found[name] = list(dict.fromkeys(found[name])) or None
    changed = {name: value for name, value in found.items() if key is None or value != getattr(key, name)}
    if (expires_at := changed.get("expires_at")) and expires_at <= pool.database_time():
        raise errors.wrong("expiresAt", "must be in the future")
    already = (key.allowed_models or []) if key else []
    asked = [model_id for model_id in changed.get("allowed_models") or [] if model_id not in already]
    if unknown := app_config.unknown_models(asked):
        raise errors.wrong("allowedModels", f"has ids of no model: {', '.join(unknown)}", quotes_request=True)
    most = rate_limits.account_limits(account)  # only support sets a rate above it
    for name, maximum in (("requestsPerMinute", most.requests), ("tokensPerMinute", most.tokens)):
        rate = changed.get(_FIELDS[name])
        if rate is not None and maximum is not None and rate > maximum:
            raise errors.wrong(name, f"must be at most {maximum}, the limit of a key of the account")
    assert found.keys() <= lifecycle.CHANGEABLE
    return found
