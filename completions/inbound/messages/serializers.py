"""Serializers that describe Anthropic's Messages for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.inbound.messages import content, request
from completions.request import schema
from completions.serializers import SchemaField

_TEXT = {"type": "string"}
_BLOCKS = {"type": "array", "items": {"type": "object", "required": ["type"], "properties": {"type": _TEXT}}}
_CONTENT = {"oneOf": [_TEXT, _BLOCKS]}
_MESSAGES = {
    "type": "array",
    "minItems": 1,
    "maxItems": settings.REQUEST_MESSAGES_MAX,
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {"role": {"type": "string", "enum": list(content.ROLES)}, "content": _CONTENT},
    },
}
_TOOLS = {
    "type": "array",
    "maxItems": schema.TOOLS_MAX,
    "items": {
        "type": "object",
        "required": ["name", "input_schema"],
        "properties": {"name": _TEXT, "description": _TEXT, "input_schema": {"type": "object"}},
    },
}
_THINKING = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string", "enum": ["enabled", "adaptive", "disabled"]},
        "budget_tokens": {"type": "integer", "minimum": request.THINKING_TOKENS_MIN},
        "display": {"type": "string", "enum": ["summarized", "omitted"]},
    },
}
_OUTPUT_CONFIG = {
    "type": "object",
    "properties": {"effort": {"type": "string", "enum": list(request.EFFORTS)}, "format": {"type": "object"}},
}
_OBJECT = {"type": "object"}


def _optional(kind: type[serializers.Field[Any, Any, Any, Any]], *args: Any, **kwargs: Any) -> Any:
    return kind(*args, required=False, allow_null=True, **kwargs)


class TokenCountRequestSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(
        min_length=1, max_length=schema.MODEL_CHARACTERS_MAX, help_text="An id of GET /v1/models that is available."
    )
    messages = SchemaField(_MESSAGES)
    system = _optional(SchemaField, _CONTENT)
    tools = _optional(SchemaField, _TOOLS)
    tool_choice = _optional(SchemaField, _OBJECT, help_text="auto, any, none, or a tool by its name.")
    thinking = _optional(SchemaField, _THINKING)
    output_config = _optional(SchemaField, _OUTPUT_CONFIG)
    cache_control = _optional(SchemaField, _OBJECT, help_text="Caches the prompt, for five minutes.")


@extend_schema_serializer(description="A null counts as absent. A field that is not listed is refused.")
class MessageRequestSerializer(TokenCountRequestSerializer):
    max_tokens = serializers.IntegerField(
        min_value=1,
        max_value=schema.MAX_TOKENS_MAX,
        help_text="The most tokens to generate. A model that generates fewer is asked for its maximum.",
    )
    models = _optional(
        serializers.ListField,
        child=serializers.CharField(min_length=1, max_length=schema.MODEL_CHARACTERS_MAX),
        max_length=schema.FALLBACKS_MAX,
        help_text="Models to try in turn when the first cannot serve the request.",
    )
    provider = _optional(SchemaField, _OBJECT, help_text="Which providers may answer: order, only and ignore.")
    stop_sequences = _optional(serializers.ListField, child=serializers.CharField(), max_length=schema.STOPS_MAX)
    temperature = _optional(serializers.FloatField, min_value=0, max_value=1)
    top_p = _optional(serializers.FloatField, min_value=0, max_value=1)
    top_k = _optional(serializers.IntegerField, min_value=1, max_value=request.TOP_K_MAX)
    metadata = _optional(SchemaField, _OBJECT, help_text="user_id, a string: your own id of who asks.")
    service_tier = _optional(serializers.ChoiceField, choices=("auto", "standard_only"), help_text="Has no effect.")
    stream = serializers.BooleanField(required=False, allow_null=True, default=False)


class MessageUsageSerializer(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField(
        min_value=0, help_text="Without those that were read from a cache or written to one."
    )
    cache_creation_input_tokens = serializers.IntegerField(min_value=0)
    cache_read_input_tokens = serializers.IntegerField(min_value=0)
    output_tokens = serializers.IntegerField(min_value=0)
    output_tokens_details = SchemaField(_OBJECT)
    cost = SchemaField(
        {"type": "number", "minimum": 0}, allow_null=True, help_text="In US dollars, exactly. null: not known yet."
    )


class MessageSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The ledger entry of the completion has the same id.")
    type = serializers.CharField(help_text="message")
    role = serializers.CharField(help_text="assistant")
    model = serializers.CharField(help_text="The model that answered.")
    content = SchemaField(
        _BLOCKS, help_text="Blocks of text, tool_use, thinking and redacted_thinking. Send them back as they came."
    )
    stop_reason = serializers.CharField(help_text="end_turn, max_tokens, stop_sequence, tool_use or refusal.")
    stop_sequence = serializers.CharField(allow_null=True)
    usage = MessageUsageSerializer()


class TokenCountSerializer(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField(min_value=1)
