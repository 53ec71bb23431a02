"""What /v1 shows of a model, and serializers that describe requests and replies for OpenAPI.

Requests are not parsed with these serializers but by ``completions.request.schema``; replies are built as plain objects.
"""

from decimal import Decimal
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing import money
from completions.catalog.lookup import Listing
from completions.request import schema
from completions.request.messages import ROLES
from gateway_project import dollars


def model_object(listing: Listing) -> dict[str, Any]:
    """Return OpenAI's model object with prices, limits and capabilities. Prices are dollars per token, as strings."""
    model, price = listing.model, listing.price
    inputs = ["text", "image"] if model.image_support else ["text"]
    return {
        "id": listing.alias or model.pk,
        "object": "model",
        "created": int(model.created_at.timestamp()),
        "owned_by": model.maker,
        "name": model.name,
        "available": listing.is_available,
        "category": model.category,
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "pricing": {
            "prompt": _per_token(price.input_nanos),
            "completion": _per_token(price.output_nanos),
            "input_cache_read": _per_token(price.cached_input_nanos),
            "input_cache_write": _per_token(price.cache_write_nanos),
            "image": None if price.image_nanos is None else dollars.format_plain(price.image_nanos),
        },
        "architecture": {"input_modalities": inputs, "output_modalities": ["text"]},
        "capabilities": {"image_support": model.image_support, "function_calling": model.function_calling},
        "commercial_use": model.commercial_use,
        "license": model.license,
        **({"alias_of": model.pk} if listing.alias else {}),
    }


def _per_token(nanos_per_million: int | None) -> str | None:
    if nanos_per_million is None:
        return None
    return f"{(Decimal(nanos_per_million) / (dollars.NANOS_PER_DOLLAR * money.TOKENS_PER_PRICE)).normalize():f}"


# --- Shapes for the OpenAPI description -------------------------------------------------------------------------


_PART = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string", "enum": ["text", "image_url", "input_audio", "file", "refusal"]},
        "text": {"type": "string"},
        "image_url": {"type": "object", "description": "url: a data URL; detail: the resolution to read it at."},
        "input_audio": {"type": "object", "description": "data: base64; format: wav, mp3 and others."},
        "file": {"type": "object", "description": "file_data: a data URL; filename."},
        "refusal": {"type": "string"},
    },
}


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "array", "items": _PART}]})
class ContentField(serializers.JSONField):
    """Text, or an array of parts."""


class MessageSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=ROLES)
    content = ContentField(
        required=False, allow_null=True, help_text="Required, except in a message of an assistant that called a tool."
    )
    name = serializers.CharField(required=False)
    tool_calls = serializers.ListField(child=serializers.DictField(), required=False, help_text="In a message of an assistant.")
    tool_call_id = serializers.CharField(required=False, help_text="In a message of a tool.")
    refusal = serializers.CharField(required=False, allow_null=True)


class StreamOptionsSerializer(serializers.Serializer[Any]):
    include_usage = serializers.BooleanField(required=False, allow_null=True)
    include_obfuscation = serializers.BooleanField(
        required=False, allow_null=True, help_text="Has no effect: obfuscation is never sent."
    )


def _optional(field: type[serializers.Field[Any, Any, Any, Any]], **options: Any) -> Any:
    return field(required=False, allow_null=True, **options)


class ChatRequestSerializer(serializers.Serializer[Any]):
    """A null counts as absent. Fields that are not listed are passed on to providers that accept them."""

    model = serializers.CharField(max_length=schema.MODEL_CHARACTERS_MAX)
    models = _optional(
        serializers.ListField,
        child=serializers.CharField(),
        max_length=schema.FALLBACKS_MAX,
        help_text="Models to try in turn when the first cannot serve the request.",
    )
    messages = serializers.ListField(child=MessageSerializer(), min_length=1, max_length=settings.REQUEST_MESSAGES_MAX)
    max_tokens = _optional(serializers.IntegerField, min_value=1, max_value=schema.MAX_TOKENS_MAX)
    max_completion_tokens = _optional(
        serializers.IntegerField, min_value=1, max_value=schema.MAX_TOKENS_MAX, help_text="Another name for max_tokens."
    )
    temperature = _optional(serializers.FloatField, min_value=0, max_value=2)
    top_p = _optional(serializers.FloatField, min_value=0, max_value=1)
    frequency_penalty = _optional(serializers.FloatField, min_value=-2, max_value=2)
    presence_penalty = _optional(serializers.FloatField, min_value=-2, max_value=2)
    n = _optional(serializers.IntegerField, min_value=1, max_value=schema.CHOICES_MAX)
    stop = _optional(serializers.JSONField, help_text=f"A string, or up to {schema.STOPS_MAX} of them.")
    seed = _optional(serializers.IntegerField)
    logit_bias = _optional(serializers.DictField)
    logprobs = _optional(serializers.BooleanField)
    top_logprobs = _optional(serializers.IntegerField, min_value=0, max_value=20)
    tools = _optional(serializers.ListField, child=serializers.DictField(), min_length=1, max_length=schema.TOOLS_MAX)
    tool_choice = _optional(serializers.JSONField, help_text="none, auto, required, or an object that names a function.")
    parallel_tool_calls = _optional(serializers.BooleanField)
    response_format = _optional(serializers.DictField, help_text="type: text, json_object or json_schema.")
    reasoning_effort = _optional(serializers.ChoiceField, choices=schema.REASONING_EFFORTS)
    verbosity = _optional(serializers.ChoiceField, choices=schema.VERBOSITIES)
    user = _optional(serializers.CharField)
    metadata = _optional(serializers.DictField, help_text="Up to 16 strings.")
    store = _optional(serializers.BooleanField)
    stream = serializers.BooleanField(required=False, allow_null=True, default=False)
    stream_options = StreamOptionsSerializer(required=False, allow_null=True)


class AnswerMessageSerializer(serializers.Serializer[Any]):
    role = serializers.CharField()
    content = serializers.CharField(allow_blank=True, allow_null=True)
    refusal = serializers.CharField(required=False, allow_null=True)
    tool_calls = serializers.ListField(child=serializers.DictField(), required=False)
    reasoning_content = serializers.CharField(
        required=False, help_text="The thinking of the model, if its provider returns it."
    )


class ChoiceSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    message = AnswerMessageSerializer()
    logprobs = serializers.DictField(required=False, allow_null=True)
    finish_reason = serializers.CharField()


class PromptTokensSerializer(serializers.Serializer[Any]):
    cached_tokens = serializers.IntegerField()
    cache_write_tokens = serializers.IntegerField()


class CompletionTokensSerializer(serializers.Serializer[Any]):
    reasoning_tokens = serializers.IntegerField()


class TokensSerializer(serializers.Serializer[Any]):
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    total_tokens = serializers.IntegerField()
    prompt_tokens_details = PromptTokensSerializer()
    completion_tokens_details = CompletionTokensSerializer()


class ChatCompletionSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField(help_text="Unix seconds")
    model = serializers.CharField()
    choices = ChoiceSerializer(many=True)
    usage = TokensSerializer()


class ModelSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField()
    owned_by = serializers.CharField()
    name = serializers.CharField()
    available = serializers.BooleanField()
    category = serializers.CharField()
    context_window = serializers.IntegerField()
    max_output_tokens = serializers.IntegerField()
    pricing = serializers.DictField()
    architecture = serializers.DictField()
    capabilities = serializers.DictField()
    commercial_use = serializers.BooleanField()
    license = serializers.CharField(allow_null=True)
    alias_of = serializers.CharField(required=False, help_text="The model that the id currently stands for.")


class ModelListSerializer(serializers.Serializer[Any]):
    object = serializers.CharField()
    data = ModelSerializer(many=True)  # type: ignore[assignment]


class UsageSerializer(serializers.Serializer[Any]):
    object = serializers.CharField()
    key = serializers.DictField()
    limit = serializers.DictField(allow_null=True)
    rateLimits = serializers.DictField()
    usage = serializers.DictField()
    balance = serializers.DictField()
