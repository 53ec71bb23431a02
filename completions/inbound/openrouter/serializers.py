"""The shapes of GET /v1/key and GET /v1/generation, for the OpenAPI description."""

from typing import Any

from rest_framework import serializers

from gateway_project.web.openapi.fields import Array, Choice, Count, Flag, Integer, Moment, SchemaField, Shape, Text, shape

NOT_KEPT = (
    *("app_id", "cache_discount", "cancelled", "finish_reason", "http_referer", "moderation_latency", "native_finish_reason"),
    *("native_tokens_completion_images", "native_tokens_reasoning", "num_fetches", "num_input_audio_prompt"),
    *("num_media_completion", "num_search_results", "preset_id", "response_cache_source_id", "router", "service_tier"),
    *("session_id", "user_agent", "web_search_engine", "workspace_id"),
)
# Of a key: about what the gateway does not have.
NO_FLAGS = ("is_management_key", "is_provisioning_key")
NO_VALUES = ("effective_budget", "creator_user_id", "organization_id", "workspace_id")
_DOLLARS = {"type": "number", "format": "decimal"}
_ABSENT = "Always null: the gateway has none."


def _null(help_text: str) -> SchemaField:
    return SchemaField({"type": "string"}, help_text, allow_null=True)


class KeyRateLimit(Shape):
    requests = Integer("Requests in the interval. -1: no limit.", min_value=-1)
    interval = Text("1m")
    note = Text("Where the limits of the gateway are told.")


class FreeModelRequests(Shape):
    limit = Integer("Always 0.")
    remaining = Integer("Always 0.")
    used = Integer("Always 0.")


class KeyData(Shape):
    label = Text("The name of the key.")  # type: ignore[assignment]
    limit = SchemaField(_DOLLARS, "Its spending limit in US dollars. null: it has none.", allow_null=True)
    limit_remaining = SchemaField(_DOLLARS, "What is left of it beside running requests.", allow_null=True)
    limit_reset = Choice(("daily", "weekly", "monthly"), "How often the limit resets. null: never.", allow_null=True)
    usage = SchemaField(_DOLLARS, "What the key was charged in total, in US dollars, exactly.")
    usage_daily = SchemaField(_DOLLARS, "Of that, today. Days are in UTC.")
    usage_weekly = SchemaField(_DOLLARS, "Of that, since Monday.")
    usage_monthly = SchemaField(_DOLLARS, "Of that, in the calendar month.")
    include_byok_in_limit = Flag("Whether limits count the price of an own key of the account.")
    expires_at = Moment("When the key stops working. null: never.", allow_null=True)
    is_free_tier = Flag("Whether the account was never charged.")
    rate_limit = KeyRateLimit(help_text="How many requests the key may make.")
    free_model_daily_requests = FreeModelRequests(help_text="No model is free.")
    allowed_data_regions = Array(Text(), "Those that key and account allow, or global.")
    budgets = Array(serializers.DictField(), "Always empty.", max_length=0)

    def get_fields(self) -> dict[str, Any]:
        flags = {name: Flag("false") for name in NO_FLAGS}
        spans = ("", "_daily", "_weekly", "_monthly")
        counted = {f"byok_usage{span}": SchemaField(_DOLLARS, "The price of own keys that limits counted.") for span in spans}
        return {**super().get_fields(), **flags, **counted, **{name: _null(_ABSENT) for name in NO_VALUES}}


KeyObject = shape("KeyObject", data=KeyData(help_text="The key."))


class ProviderResponse(Shape):
    provider_name = Text("The provider that was asked.")
    status = Integer("What it replied with. null: it did not reply.", allow_null=True)


class GenerationData(Shape):
    id = Text("The id of the completion.")
    request_id = Text("The x-request-id of its reply.", allow_null=True)
    upstream_id = Text("The provider's own id of the request.", allow_null=True)
    api_type = Choice(("completions", "embeddings"), "What was asked for.")
    model = Text("The model that answered.")
    provider_name = Text("The provider that answered, or was asked last.")
    provider_responses = ProviderResponse(many=True, help_text="The attempts, in order.")
    created_at = Moment("When it was asked for.")
    data_region = Text("What the route promised, where something was demanded about data, or global.")
    origin = Text("Empty: it is not kept.", allow_blank=True)
    external_user = Text("As its request said: user, or else safety_identifier.", allow_null=True)
    is_byok = Flag("Whether the account's own key was asked last.")
    upstream_inference_cost = SchemaField(_DOLLARS, "Its provider's price: what the model costs here.", allow_null=True)
    streamed = Flag("Whether the reply was a stream.")
    latency = Count("Milliseconds to the first text of a stream, or to the whole reply.", allow_null=True)
    generation_time = Count("Milliseconds from the first text to the last, or of the whole reply.", allow_null=True)
    tokens_prompt = Count("Tokens of the prompt.")
    tokens_completion = Count("Tokens that were generated.")
    native_tokens_prompt = Count("The same as tokens_prompt.")
    native_tokens_completion = Count("The same as tokens_completion.")
    native_tokens_cached = Count("Tokens of the prompt that a cache had.")
    num_media_prompt = Count("Images of the prompt.")
    total_cost = SchemaField(_DOLLARS, "What was charged, in US dollars, exactly.")
    usage = SchemaField(_DOLLARS, "The same.")

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), **{name: _null("Always null: it is not kept.") for name in NOT_KEPT}}


GenerationObject = shape("GenerationObject", data=GenerationData(help_text="The completion."))
