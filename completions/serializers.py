"""The edge of completions: what /v1 shows of models, and the shapes for the OpenAPI description."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from rest_framework import serializers

from billing import money
from completions.catalog import Listing
from completions.schema import MAX_TOKENS_MAX, MODEL_CHARACTERS_MAX, ROLES


def model_object(listing: Listing) -> dict[str, Any]:
    """OpenAI's model object, and beside it what one chooses a model by. Prices are dollars per token, as strings."""
    model, price = listing.model, listing.price
    inputs = ["text", "image"] if model.image_support else ["text"]
    return {
        "id": model.pk,
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
        },
        "architecture": {"input_modalities": inputs, "output_modalities": ["text"]},
        "capabilities": {"image_support": model.image_support, "function_calling": model.function_calling},
        "commercial_use": model.commercial_use,
        "license": model.license,
    }


def _per_token(nanos_per_million: int | None) -> str | None:
    if nanos_per_million is None:
        return None
    return f"{(Decimal(nanos_per_million) / (money.NANOS_PER_DOLLAR * money.TOKENS_PER_PRICE)).normalize():f}"


# --- For the OpenAPI description; requests are checked by ``schema`` ---------------------------------------------


class MessageSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=ROLES)
    content = serializers.CharField(allow_blank=True)


class StreamOptionsSerializer(serializers.Serializer[Any]):
    include_usage = serializers.BooleanField(required=False, allow_null=True)


class ChatRequestSerializer(serializers.Serializer[Any]):
    """A null counts as absent. Fields that are not listed are passed on to the upstream."""

    model = serializers.CharField(max_length=MODEL_CHARACTERS_MAX)
    messages = serializers.ListField(child=MessageSerializer(), min_length=1, max_length=settings.REQUEST_MESSAGES_MAX)
    max_tokens = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=MAX_TOKENS_MAX)
    max_completion_tokens = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=MAX_TOKENS_MAX, help_text="Another name for max_tokens."
    )
    temperature = serializers.FloatField(required=False, allow_null=True, min_value=0, max_value=2)
    top_p = serializers.FloatField(required=False, allow_null=True, min_value=0, max_value=1)
    n = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=1)
    stream = serializers.BooleanField(required=False, allow_null=True, default=False)
    stream_options = StreamOptionsSerializer(required=False, allow_null=True)


class AnswerMessageSerializer(serializers.Serializer[Any]):
    role = serializers.CharField()
    content = serializers.CharField(allow_blank=True, allow_null=True)


class ChoiceSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    message = AnswerMessageSerializer()
    finish_reason = serializers.CharField()


class TokensSerializer(serializers.Serializer[Any]):
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    total_tokens = serializers.IntegerField()


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
