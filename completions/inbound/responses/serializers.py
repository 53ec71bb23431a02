"""Serializers that describe OpenAI's Responses for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.inbound.responses import items, request, tools
from completions.request import schema
from completions.serializers import SchemaField

_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}
_ITEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": list(items.ITEM_TYPES)},
        "role": {"type": "string", "enum": list(items.ROLES)},
        "content": {"oneOf": [_TEXT, {"type": "array", "items": _OBJECT}]},
    },
}
_INPUT = {"oneOf": [_TEXT, {"type": "array", "items": _ITEM}]}
_TOOLS = {
    "type": "array",
    "maxItems": schema.TOOLS_MAX,
    "items": {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"type": "string", "enum": list(tools.TYPES)},
            "name": _TEXT,
            "description": _TEXT,
            "parameters": {"type": "object", "nullable": True, "description": "Of a function: a JSON schema."},
            "strict": {"type": "boolean", "nullable": True},
            "format": {"type": "object", "description": "Of a custom tool: text, or a grammar."},
            "tools": {"type": "array", "items": _OBJECT, "description": "Of a namespace: functions and custom tools."},
        },
    },
}
_TOOL_CHOICE = {"oneOf": [{"type": "string", "enum": list(schema.TOOL_CHOICES)}, _OBJECT]}
_REASONING = {
    "type": "object",
    "properties": {
        "effort": {"type": "string", "enum": list(schema.REASONING_EFFORTS), "nullable": True},
        "summary": {"type": "string", "enum": list(request.SUMMARIES), "nullable": True},
    },
}
_TEXT_OPTIONS = {
    "type": "object",
    "properties": {
        "format": {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"type": "string", "enum": list(request.FORMATS)},
                "name": _TEXT,
                "schema": _OBJECT,
                "description": _TEXT,
                "strict": {"type": "boolean", "nullable": True},
            },
        },
        "verbosity": {"type": "string", "enum": list(schema.VERBOSITIES), "nullable": True},
    },
}
_INCLUDE = {"type": "array", "items": {"type": "string", "enum": [request.LOGPROBS, request.ENCRYPTED]}}
_OUTPUT_ITEM = {
    "type": "object",
    "required": ["id", "type"],
    "properties": {
        "id": _TEXT,
        "type": _TEXT,
        "summary": {"type": "array", "items": _OBJECT, "description": "Of reasoning: what the model shows of it."},
        "encrypted_content": {
            "type": "string",
            "nullable": True,
            "description": "Of reasoning, where it is included: what the provider needs back, sealed. null: nothing.",
        },
    },
}
_OUTPUT = {"type": "array", "items": _OUTPUT_ITEM}


def _optional(kind: type[serializers.Field[Any, Any, Any, Any]], *args: Any, **kwargs: Any) -> Any:
    return kind(*args, required=False, allow_null=True, **kwargs)


@extend_schema_serializer(description="A null counts as absent. A field that is not listed is refused.")
class ResponseRequestSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(
        min_length=1, max_length=schema.MODEL_CHARACTERS_MAX, help_text="An id of GET /v1/models that is available."
    )
    input = SchemaField(_INPUT, help_text="Text of the user, or the items of the whole conversation.")
    instructions = _optional(serializers.CharField, help_text="Come before the input.")
    max_output_tokens = _optional(
        serializers.IntegerField, min_value=1, max_value=schema.MAX_TOKENS_MAX, help_text="The most tokens to generate."
    )
    models = _optional(
        serializers.ListField,
        child=serializers.CharField(min_length=1, max_length=schema.MODEL_CHARACTERS_MAX),
        max_length=schema.FALLBACKS_MAX,
        help_text="Models to try in turn when the first cannot serve the request.",
    )
    provider = _optional(SchemaField, _OBJECT, help_text="Which providers may answer: order, only and ignore.")
    cache_control = _optional(SchemaField, _OBJECT, help_text="Caches the prompt for five minutes, at Anthropic.")
    tools = _optional(SchemaField, _TOOLS)
    tool_choice = _optional(SchemaField, _TOOL_CHOICE)
    parallel_tool_calls = _optional(serializers.BooleanField)
    reasoning = _optional(SchemaField, _REASONING)
    text = _optional(SchemaField, _TEXT_OPTIONS, help_text="The format of the reply, and how long it is to be.")
    temperature = _optional(serializers.FloatField, min_value=0, max_value=2)
    top_p = _optional(serializers.FloatField, min_value=0, max_value=1)
    top_logprobs = _optional(serializers.IntegerField, min_value=0, max_value=request.TOP_LOGPROBS_MAX)
    include = _optional(SchemaField, _INCLUDE)
    metadata = _optional(SchemaField, {"type": "object", "maxProperties": schema.TAGS_MAX, "additionalProperties": _TEXT})
    client_metadata = _optional(SchemaField, _OBJECT, help_text="Codex's, about itself. No provider is sent it.")
    user = _optional(serializers.CharField)
    safety_identifier = _optional(serializers.CharField)
    prompt_cache_key = _optional(serializers.CharField)
    prompt_cache_retention = _optional(SchemaField, {"type": "string", "enum": list(request.CACHE_RETENTIONS)})
    service_tier = _optional(SchemaField, {"type": "string", "enum": list(request.SERVICE_TIERS)}, help_text="Has no effect.")
    truncation = _optional(SchemaField, {"type": "string", "enum": ["disabled"]})
    store = _optional(serializers.BooleanField, help_text="Only false: nothing is kept.")
    background = _optional(serializers.BooleanField, help_text="Only false.")
    stream = serializers.BooleanField(required=False, allow_null=True, default=False)
    stream_options = _optional(SchemaField, _OBJECT, help_text="include_obfuscation, which has no effect.")


class ResponseUsageSerializer(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField(min_value=0)
    input_tokens_details = SchemaField(_OBJECT, help_text="cached_tokens and cache_write_tokens.")
    output_tokens = serializers.IntegerField(min_value=0)
    output_tokens_details = SchemaField(_OBJECT, help_text="reasoning_tokens.")
    total_tokens = serializers.IntegerField(min_value=0)
    cost = SchemaField(
        {"type": "number", "minimum": 0}, allow_null=True, help_text="In US dollars, exactly. null: not known yet."
    )


@extend_schema_serializer(description="The other fields repeat those of the request.")
class ResponseSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The ledger entry of the completion has the same id.")
    object = serializers.CharField(help_text="response")
    created_at = serializers.IntegerField()
    status = serializers.CharField(help_text="completed, incomplete, or within a stream in_progress or failed.")
    model = serializers.CharField(help_text="The model that answered.")
    output = SchemaField(_OUTPUT, help_text="Items of the types reasoning, message, function_call and custom_tool_call.")
    incomplete_details = SchemaField(_OBJECT, allow_null=True, help_text="reason: max_output_tokens or content_filter.")
    error = SchemaField(_OBJECT, allow_null=True, help_text="Of a stream that failed: code and message.")
    store = serializers.BooleanField(help_text="false")
    usage = ResponseUsageSerializer(allow_null=True)
