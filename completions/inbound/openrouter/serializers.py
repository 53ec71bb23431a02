"""The shapes of GET /v1/key and GET /v1/generation, for the OpenAPI description."""

from typing import Any

from rest_framework import serializers

from completions.inbound.openrouter.generation import NOT_KEPT
from gateway_project.web.openapi.fields import SchemaField

_DOLLARS = {"type": "number", "format": "decimal"}
_ABSENT = "Always null: the gateway has none."


def _null(help_text: str) -> SchemaField:
    return SchemaField({"type": "string"}, allow_null=True, help_text=help_text)


class KeyRateLimitSerializer(serializers.Serializer[Any]):
    requests = serializers.IntegerField(min_value=-1, help_text="Requests in the interval. -1: no limit.")
    interval = serializers.CharField(help_text="1m")
    note = serializers.CharField(help_text="Where the limits of the gateway are told.")


class FreeModelRequestsSerializer(serializers.Serializer[Any]):
    limit = serializers.IntegerField(help_text="Always 0.")
    remaining = serializers.IntegerField(help_text="Always 0.")
    used = serializers.IntegerField(help_text="Always 0.")


class KeyDataSerializer(serializers.Serializer[Any]):
    label = serializers.CharField(help_text="The name of the key.")  # type: ignore[assignment]
    limit = SchemaField(_DOLLARS, allow_null=True, help_text="Its spending limit in US dollars. null: it has none.")
    limit_remaining = SchemaField(_DOLLARS, allow_null=True, help_text="What is left of it beside running requests.")
    limit_reset = serializers.ChoiceField(
        choices=("daily", "weekly", "monthly"), allow_null=True, help_text="How often the limit resets. null: never."
    )
    usage = SchemaField(_DOLLARS, help_text="What the key was charged in total, in US dollars, exactly.")
    usage_daily = SchemaField(_DOLLARS, help_text="Of that, today. Days are in UTC.")
    usage_weekly = SchemaField(_DOLLARS, help_text="Of that, since Monday.")
    usage_monthly = SchemaField(_DOLLARS, help_text="Of that, in the calendar month.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="When the key stops working. null: never.")
    is_free_tier = serializers.BooleanField(help_text="Whether the account was never charged.")
    rate_limit = KeyRateLimitSerializer(help_text="How many requests the key may make.")
    is_management_key = serializers.BooleanField(help_text="false")
    is_provisioning_key = serializers.BooleanField(help_text="false")
    include_byok_in_limit = serializers.BooleanField(help_text="false")
    byok_usage = SchemaField(_DOLLARS, help_text="0, as the three that follow.")
    byok_usage_daily = SchemaField(_DOLLARS, help_text="Always 0.")
    byok_usage_weekly = SchemaField(_DOLLARS, help_text="Always 0.")
    byok_usage_monthly = SchemaField(_DOLLARS, help_text="Always 0.")
    free_model_daily_requests = FreeModelRequestsSerializer(help_text="No model is free.")
    allowed_data_regions = serializers.ListField(child=serializers.CharField(), help_text="global")
    budgets = serializers.ListField(child=serializers.DictField(), max_length=0, help_text="Always empty.")
    effective_budget = _null(_ABSENT)
    creator_user_id = _null(_ABSENT)
    organization_id = _null(_ABSENT)
    workspace_id = _null(_ABSENT)


class KeyObjectSerializer(serializers.Serializer[Any]):
    data = KeyDataSerializer(help_text="The key.")  # type: ignore[assignment]


class ProviderResponseSerializer(serializers.Serializer[Any]):
    provider_name = serializers.CharField(help_text="The provider that was asked.")
    status = serializers.IntegerField(allow_null=True, help_text="What it replied with. null: it did not reply.")


class GenerationDataSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the completion.")
    request_id = serializers.CharField(allow_null=True, help_text="The x-request-id of its reply.")
    upstream_id = serializers.CharField(allow_null=True, help_text="The provider's own id of the request.")
    api_type = serializers.ChoiceField(choices=("completions", "embeddings"), help_text="What was asked for.")
    model = serializers.CharField(help_text="The model that answered.")
    provider_name = serializers.CharField(help_text="The provider that answered, or was asked last.")
    provider_responses = ProviderResponseSerializer(many=True, help_text="The attempts, in order.")
    created_at = serializers.DateTimeField(help_text="When it was asked for.")
    data_region = serializers.CharField(help_text="global")
    origin = serializers.CharField(allow_blank=True, help_text="Empty: it is not kept.")
    external_user = serializers.CharField(allow_null=True, help_text="As its request said: user, or else safety_identifier.")
    is_byok = serializers.BooleanField(help_text="false")
    streamed = serializers.BooleanField(help_text="Whether the reply was a stream.")
    latency = serializers.IntegerField(
        min_value=0, allow_null=True, help_text="Milliseconds to the first text of a stream, or to the whole reply."
    )
    generation_time = serializers.IntegerField(
        min_value=0, allow_null=True, help_text="Milliseconds from the first text to the last, or of the whole reply."
    )
    tokens_prompt = serializers.IntegerField(min_value=0, help_text="Tokens of the prompt.")
    tokens_completion = serializers.IntegerField(min_value=0, help_text="Tokens that were generated.")
    native_tokens_prompt = serializers.IntegerField(min_value=0, help_text="The same as tokens_prompt.")
    native_tokens_completion = serializers.IntegerField(min_value=0, help_text="The same as tokens_completion.")
    native_tokens_cached = serializers.IntegerField(min_value=0, help_text="Tokens of the prompt that a cache had.")
    num_media_prompt = serializers.IntegerField(min_value=0, help_text="Images of the prompt.")
    total_cost = SchemaField(_DOLLARS, help_text="What was charged, in US dollars, exactly.")
    usage = SchemaField(_DOLLARS, help_text="The same.")

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), **{name: _null("Always null: it is not kept.") for name in NOT_KEPT}}


class GenerationObjectSerializer(serializers.Serializer[Any]):
    data = GenerationDataSerializer(help_text="The completion.")  # type: ignore[assignment]
