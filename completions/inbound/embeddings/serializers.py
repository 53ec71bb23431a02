"""Serializers that describe embeddings for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.inbound.chat_completions.serializers import TAGS, ProviderPreferencesSerializer
from completions.inbound.embeddings import request
from completions.request import schema
from gateway_project.web.openapi.fields import Constant, SchemaField

_TEXT = {"type": "string", "minLength": 1}
_TOKENS = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": request.TOKEN_MAX}}
_INPUT = {
    "oneOf": [
        _TEXT,
        _TOKENS,
        {"type": "array", "minItems": 1, "maxItems": request.INPUTS_MAX, "items": _TEXT},
        {"type": "array", "minItems": 1, "maxItems": request.INPUTS_MAX, "items": _TOKENS},
    ]
}
_EMBEDDING = {"oneOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string", "format": "byte"}]}


@extend_schema_serializer(description="A null counts as absent. Other fields are refused.")
class EmbeddingRequestSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(
        min_length=1, max_length=schema.MODEL_CHARACTERS_MAX, help_text="An id of GET /v1/models whose kind is embedding."
    )
    input = SchemaField(
        _INPUT,
        help_text=f"A text, or an array of tokens; or many. At most {request.TOKENS_MAX:,} tokens in total, as estimated.",
    )
    dimensions = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=request.DIMENSIONS_MAX,
        help_text="How many numbers each embedding has. A model that cannot choose refuses it.",
    )
    encoding_format = serializers.ChoiceField(
        choices=request.ENCODING_FORMATS,
        required=False,
        allow_null=True,
        help_text="float (the default): numbers. base64: numbers of 32 bits each, the lowest byte first.",
    )
    user = serializers.CharField(
        required=False, allow_null=True, max_length=schema.LABEL_CHARACTERS_MAX, help_text="An id of your end user."
    )
    metadata = SchemaField(TAGS, required=False, allow_null=True, help_text="Tags of your own.")
    provider = ProviderPreferencesSerializer(required=False, allow_null=True, help_text="Which providers may answer.")


class EmbeddingResultSerializer(serializers.Serializer[Any]):
    object = Constant("embedding")
    index = serializers.IntegerField(min_value=0, help_text="The place of its input.")
    embedding = SchemaField(_EMBEDDING, help_text="The numbers, or base64 of them, as encoding_format asked for.")


class EmbeddingUsageSerializer(serializers.Serializer[Any]):
    prompt_tokens = serializers.IntegerField(min_value=0, help_text="Tokens of the input.")
    total_tokens = serializers.IntegerField(min_value=0, help_text="The same: nothing is generated.")
    cost = serializers.FloatField(allow_null=True, help_text="US dollars, exactly.")


class EmbeddingListSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="For GET /v1/completions/{completion_id}.")
    object = Constant("list")
    data = EmbeddingResultSerializer(many=True, help_text="An embedding for each input.")  # type: ignore[assignment]
    model = serializers.CharField(help_text="The model that answered.")
    usage = EmbeddingUsageSerializer(help_text="The tokens that are charged.")
