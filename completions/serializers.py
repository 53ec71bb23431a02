"""What /v1 shows of a model, and serializers that describe requests and replies for OpenAPI.

Requests are not parsed with these serializers but by ``completions.request.schema``; replies are built as plain objects.
"""

from decimal import Decimal
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from billing import money
from completions.catalog.lookup import Listing
from completions.models import Category, Completion, LanguageModel, ModelKind
from completions.request import reasoning, schema
from completions.request.fields import NAME_PATTERN
from completions.request.messages import AUDIO_FORMATS, IMAGE_DETAILS, ROLES
from gateway_project import dollars
from keys.models import SpendingPeriod, SpendingType


def model_object(listing: Listing) -> dict[str, Any]:
    """Return OpenAI's model object with prices, limits and capabilities. Prices are dollars per token, as strings."""
    model, price = listing.model, listing.price
    inputs = ["text", "image"] if model.image_support else ["text"]
    outputs = ["embeddings"] if model.kind == ModelKind.EMBEDDING else ["text"]
    return {
        "id": listing.alias or model.pk,
        "object": "model",
        "created": int(model.created_at.timestamp()),
        "owned_by": model.maker,
        "name": model.name,
        "canonical_slug": model.pk,
        "kind": model.kind,
        "available": listing.is_available,
        "category": model.category,
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "pricing": {
            "prompt": _per_token(price.input_nanos),
            "completion": _per_token(price.output_nanos),
            "input_cache_read": _per_token(price.input_nanos if price.cached_input_nanos is None else price.cached_input_nanos),
            "input_cache_write": _per_token(price.input_nanos if price.cache_write_nanos is None else price.cache_write_nanos),
            "image": dollars.format_plain(price.image_nanos or 0),
        },
        "architecture": {
            "modality": f"{'+'.join(inputs)}->{'+'.join(outputs)}",
            "input_modalities": inputs,
            "output_modalities": outputs,
        },
        "context_length": model.context_window,
        "top_provider": {
            "context_length": model.context_window,
            "max_completion_tokens": model.max_output_tokens,
            "is_moderated": False,
        },
        "supported_parameters": _supported_parameters(model),
        "default_parameters": None,
        "per_request_limits": None,
        "supported_voices": None,
        "links": {"details": f"/v1/models/{model.pk}"},
        "capabilities": {"image_support": model.image_support, "function_calling": model.function_calling},
        "commercial_use": model.commercial_use,
        "license": model.license,
        **({"alias_of": model.pk} if listing.alias else {}),
    }


def _supported_parameters(model: LanguageModel) -> list[str]:
    """Return what every provider of the model heeds, in OpenRouter's words."""
    if model.kind == ModelKind.EMBEDDING:
        return []
    of_tools = ["tools", "tool_choice"] if model.function_calling else []
    of_reasoning = ["reasoning", "reasoning_effort"] if model.reasoning else []
    return ["max_tokens", "stop", "structured_outputs", *of_tools, *of_reasoning]


def _per_token(nanos_per_million: int) -> str:
    return f"{(Decimal(nanos_per_million) / (dollars.NANOS_PER_DOLLAR * money.TOKENS_PER_PRICE)).normalize():f}"


# --- Shapes for the OpenAPI description -------------------------------------------------------------------------
#
# Docstrings are for developers and do not appear in the description: ``help_text`` and ``description`` do.

_TEXT = {"type": "string"}
_CONTENT = {
    "oneOf": [
        _TEXT,
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"type": "string", "enum": ["text", "image_url", "input_audio", "file", "refusal"]},
                    "text": _TEXT,
                    "image_url": {
                        "type": "object",
                        "required": ["url"],
                        "properties": {
                            "url": {
                                "type": "string",
                                "description": "A data URL of a base64-encoded image, or an https address.",
                            },
                            "detail": {"type": "string", "enum": list(IMAGE_DETAILS), "nullable": True},
                        },
                    },
                    "input_audio": {
                        "type": "object",
                        "required": ["data", "format"],
                        "properties": {
                            "data": {"type": "string", "description": "Base64."},
                            "format": {"type": "string", "enum": list(AUDIO_FORMATS)},
                        },
                    },
                    "file": {
                        "type": "object",
                        "required": ["file_data"],
                        "properties": {"file_data": {"type": "string", "description": "A data URL."}, "filename": _TEXT},
                    },
                    "refusal": _TEXT,
                },
            },
        },
    ]
}
_NAME = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
_TOOL_CALLS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": _TEXT,
            "type": {"type": "string", "enum": ["function", "custom"]},
            "function": {
                "type": "object",
                "required": ["name", "arguments"],
                "properties": {"name": _NAME, "arguments": {"type": "string", "description": "A JSON object, as text."}},
            },
            "custom": {"type": "object", "required": ["name", "input"], "properties": {"name": _NAME, "input": _TEXT}},
        },
    },
}
_TOOLS = {
    "type": "array",
    "minItems": 1,
    "maxItems": schema.TOOLS_MAX,
    "items": {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"type": "string", "enum": ["function", "custom"]},
            "function": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": _NAME,
                    "description": _TEXT,
                    "parameters": {"type": "object", "nullable": True, "description": "A JSON schema."},
                },
            },
        },
    },
}
_TOOL_CHOICE = {"oneOf": [{"type": "string", "enum": list(schema.TOOL_CHOICES)}, {"type": "object"}]}
_STOP = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT, "maxItems": schema.STOPS_MAX}]}
_RESPONSE_FORMAT = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string", "enum": list(schema.RESPONSE_FORMATS)},
        "json_schema": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": _NAME, "schema": {"type": "object", "nullable": True}},
        },
    },
}
_LOGIT_BIAS = {"type": "object", "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}}
_METADATA = {
    "type": "object",
    "maxProperties": schema.TAGS_MAX,
    "additionalProperties": {"type": "string", "maxLength": schema.LABEL_CHARACTERS_MAX},
}


class SchemaField(serializers.JSONField):
    """A field that is described by a JSON schema."""

    def __init__(self, json_schema: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        described: Any = self
        extend_schema_field(json_schema)(described)


def _optional(field: type[serializers.Field[Any, Any, Any, Any]], *arguments: Any, **options: Any) -> Any:
    return field(*arguments, required=False, allow_null=True, **options)


class ChatCompletionRequestMessageSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=ROLES)
    content = SchemaField(
        _CONTENT,
        required=False,
        allow_null=True,
        help_text="Text, or an array of parts. Required, except in a message of an assistant that called a tool.",
    )
    name = serializers.CharField(required=False)
    tool_calls = SchemaField(_TOOL_CALLS, required=False, help_text="In a message of an assistant.")
    tool_call_id = serializers.CharField(required=False, help_text="In a message of a tool.")
    refusal = serializers.CharField(required=False, allow_null=True)


class StreamOptionsSerializer(serializers.Serializer[Any]):
    include_usage = serializers.BooleanField(
        required=False, allow_null=True, help_text="Whether a last chunk before [DONE] reports the usage."
    )
    include_obfuscation = serializers.BooleanField(
        required=False, allow_null=True, help_text="Has no effect: obfuscation is never sent."
    )


_PRICE = {"oneOf": [{"type": "number", "minimum": 0, "maximum": schema.PRICE_MAX}, {"type": "string"}]}
_MAX_PRICE = {"type": "object", "properties": dict.fromkeys(schema.PRICE_NAMES, _PRICE), "additionalProperties": False}


class ProviderPreferencesSerializer(serializers.Serializer[Any]):
    order = _optional(
        serializers.ListField, child=serializers.CharField(), max_length=schema.PROVIDERS_MAX, help_text="Tried first, in turn."
    )
    only = _optional(
        serializers.ListField, child=serializers.CharField(), max_length=schema.PROVIDERS_MAX, help_text="No others are asked."
    )
    ignore = _optional(
        serializers.ListField, child=serializers.CharField(), max_length=schema.PROVIDERS_MAX, help_text="These are not asked."
    )
    sort = _optional(
        serializers.ChoiceField,
        choices=schema.PROVIDER_SORTS,
        help_text="How the others are ordered, as of the last hour.",
    )
    max_price = _optional(
        SchemaField, _MAX_PRICE, help_text="The most that a model may cost, in US dollars per million tokens."
    )
    min_quality = _optional(
        serializers.FloatField, min_value=0, max_value=100, help_text="The least quality of the model that an alias stands for."
    )
    allow_fallbacks = _optional(
        serializers.BooleanField, help_text="false: only those of order are asked, or one provider without an order."
    )
    require_parameters = _optional(
        serializers.BooleanField, help_text="true: only providers are asked that are sent every field of the request."
    )


class ReasoningOptionsSerializer(serializers.Serializer[Any]):
    effort = _optional(serializers.ChoiceField, choices=schema.REASONING_EFFORTS, help_text="As reasoning_effort.")
    max_tokens = _optional(
        serializers.IntegerField,
        min_value=1,
        max_value=reasoning.BUDGET_TOKENS_MAX,
        help_text="Instead of effort: about as many tokens. Less than max_tokens.",
    )
    exclude = _optional(serializers.BooleanField, help_text="true: the reply shows no reasoning.")
    enabled = _optional(serializers.BooleanField, help_text="true: with medium effort, if nothing else is said; false: none.")


class UsageOptionsSerializer(serializers.Serializer[Any]):
    include = _optional(serializers.BooleanField, help_text="true: a stream ends with its usage. Whole replies always have it.")


@extend_schema_serializer(
    description="A null counts as absent. Fields that are not listed are passed on to providers that accept them."
)
class ChatCompletionRequestSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(
        min_length=1, max_length=schema.MODEL_CHARACTERS_MAX, help_text="An id of GET /v1/models that is available."
    )
    models = _optional(
        serializers.ListField,
        child=serializers.CharField(min_length=1, max_length=schema.MODEL_CHARACTERS_MAX),
        max_length=schema.FALLBACKS_MAX,
        help_text="Models to try in turn when the first cannot serve the request.",
    )
    provider = ProviderPreferencesSerializer(required=False, allow_null=True, help_text="Which providers may answer.")
    messages = serializers.ListField(
        child=ChatCompletionRequestMessageSerializer(), min_length=1, max_length=settings.REQUEST_MESSAGES_MAX
    )
    max_tokens = _optional(
        serializers.IntegerField,
        min_value=1,
        max_value=schema.MAX_TOKENS_MAX,
        help_text="The most tokens to generate for each choice; at most the model's max_output_tokens.",
    )
    max_completion_tokens = _optional(
        serializers.IntegerField,
        min_value=1,
        max_value=schema.MAX_TOKENS_MAX,
        help_text="Another name for max_tokens. Send one of the two.",
    )
    temperature = _optional(serializers.FloatField, min_value=0, max_value=2)
    top_p = _optional(serializers.FloatField, min_value=0, max_value=1)
    frequency_penalty = _optional(serializers.FloatField, min_value=-2, max_value=2)
    presence_penalty = _optional(serializers.FloatField, min_value=-2, max_value=2)
    n = _optional(serializers.IntegerField, min_value=1, max_value=schema.CHOICES_MAX, help_text="How many replies.")
    stop = _optional(SchemaField, _STOP)
    seed = _optional(serializers.IntegerField, min_value=schema.SEED_MIN, max_value=schema.SEED_MAX)
    logit_bias = _optional(SchemaField, _LOGIT_BIAS, help_text="By token.")
    logprobs = _optional(serializers.BooleanField)
    top_logprobs = _optional(serializers.IntegerField, min_value=0, max_value=20, help_text="Only with logprobs.")
    tools = _optional(SchemaField, _TOOLS)
    tool_choice = _optional(SchemaField, _TOOL_CHOICE, help_text="none, auto, required, or an object that names a function.")
    parallel_tool_calls = _optional(serializers.BooleanField)
    response_format = _optional(SchemaField, _RESPONSE_FORMAT)
    reasoning_effort = _optional(serializers.ChoiceField, choices=schema.REASONING_EFFORTS)
    reasoning = ReasoningOptionsSerializer(
        required=False, allow_null=True, help_text="How much to reason, in OpenRouter's words, and whether to show it."
    )
    verbosity = _optional(serializers.ChoiceField, choices=schema.VERBOSITIES)
    user = _optional(
        serializers.CharField,
        max_length=schema.LABEL_CHARACTERS_MAX,
        help_text="Your own id of who asks. The usage page groups by it.",
    )
    metadata = _optional(
        SchemaField,
        _METADATA,
        help_text=f"Up to {schema.TAGS_MAX} tags: strings, under names of 1 to {schema.TAG_NAME_CHARACTERS_MAX} characters. "
        "The usage page groups by them.",
    )
    store = _optional(serializers.BooleanField, help_text="Has no effect: no prompt and no reply is stored.")
    stream = serializers.BooleanField(required=False, allow_null=True, default=False)
    stream_options = StreamOptionsSerializer(required=False, allow_null=True, help_text="Only with stream.")
    usage = UsageOptionsSerializer(required=False, allow_null=True, help_text="In OpenRouter's words.")


class ChatCompletionMessageSerializer(serializers.Serializer[Any]):
    role = serializers.CharField(help_text="assistant")
    content = serializers.CharField(allow_blank=True, allow_null=True)
    refusal = serializers.CharField(required=False, allow_null=True)
    tool_calls = SchemaField(_TOOL_CALLS, required=False)
    reasoning_content = serializers.CharField(
        required=False, help_text="The thinking of the model, if its provider returns it."
    )


class ChatCompletionChoiceSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    message = ChatCompletionMessageSerializer()
    logprobs = serializers.DictField(required=False, allow_null=True)
    finish_reason = serializers.CharField(help_text="stop, length, tool_calls, content_filter, or another of the provider's.")


class PromptTokensDetailsSerializer(serializers.Serializer[Any]):
    cached_tokens = serializers.IntegerField(min_value=0)
    cache_write_tokens = serializers.IntegerField(min_value=0)


class CompletionTokensDetailsSerializer(serializers.Serializer[Any]):
    reasoning_tokens = serializers.IntegerField(min_value=0)


_EXACT_NUMBER = {"type": "number", "format": "decimal"}
_EXACT_DOLLARS_NUMBER = {**_EXACT_NUMBER, "minimum": 0}


class CompletionUsageSerializer(serializers.Serializer[Any]):
    prompt_tokens = serializers.IntegerField(min_value=0)
    completion_tokens = serializers.IntegerField(min_value=0)
    total_tokens = serializers.IntegerField(min_value=0)
    prompt_tokens_details = PromptTokensDetailsSerializer()
    completion_tokens_details = CompletionTokensDetailsSerializer()
    cost = SchemaField(
        _EXACT_DOLLARS_NUMBER, allow_null=True, help_text="What was charged, in US dollars, exactly. null: not known yet."
    )


class ChatCompletionSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The ledger entry of the completion has the same id.")
    object = serializers.CharField(help_text="chat.completion")
    created = serializers.IntegerField(help_text="Unix time in seconds.")
    model = serializers.CharField(help_text="The model that answered.")
    system_fingerprint = SchemaField({"type": "string", "nullable": True}, allow_null=True, help_text="null")
    choices = ChatCompletionChoiceSerializer(many=True)
    usage = CompletionUsageSerializer(help_text="The tokens that are charged.")


class FailedAttemptSerializer(serializers.Serializer[Any]):
    provider = serializers.CharField()
    status = serializers.IntegerField(allow_null=True, help_text="What it replied with. null: it did not reply.")


class ChargedUsageSerializer(serializers.Serializer[Any]):
    prompt_tokens = serializers.IntegerField(min_value=0)
    completion_tokens = serializers.IntegerField(min_value=0)
    total_tokens = serializers.IntegerField(min_value=0)
    prompt_tokens_details = PromptTokensDetailsSerializer()
    cost = SchemaField(_EXACT_DOLLARS_NUMBER, help_text="What was charged, in US dollars, exactly.")


class CompletionTimingsSerializer(serializers.Serializer[Any]):
    started_at = serializers.DateTimeField(help_text="When it was admitted.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="When it was settled. null: it runs.")
    total_ms = serializers.IntegerField(min_value=0, allow_null=True, help_text="From one to the other.")
    first_token_ms = serializers.IntegerField(
        min_value=0, allow_null=True, help_text="Of a stream: from asking the provider that answered to the first text."
    )
    streamed_ms = serializers.IntegerField(min_value=0, allow_null=True, help_text="From the first text to the last.")


class CompletionSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField(help_text="completion")
    created = serializers.IntegerField(help_text="Unix time in seconds.")
    request_id = serializers.CharField(allow_null=True, help_text="The x-request-id of its reply.")
    user = serializers.CharField(allow_null=True, help_text="As its request said: user, or else safety_identifier.")
    metadata = SchemaField(_METADATA, help_text="As its request said.")
    key = serializers.CharField(help_text="The id of the key that sent it.")
    model = serializers.CharField(help_text="The model that answered; while it runs, perhaps the one that was asked for.")
    provider = serializers.CharField(help_text="The provider that answered, or was asked last.")
    stream = serializers.BooleanField()
    attempts = serializers.IntegerField(min_value=0, allow_null=True, help_text="How many times a provider was asked.")
    failed_attempts = FailedAttemptSerializer(many=True)
    settlement = serializers.ChoiceField(
        choices=Completion.Settlement.values,
        allow_null=True,
        help_text="How its charge was found. null: it is not settled yet.",
    )
    usage = ChargedUsageSerializer(allow_null=True, help_text="What was charged. null: it is not settled yet.")
    max_cost = SchemaField(_EXACT_DOLLARS_NUMBER, help_text="What was held: the most that it could cost, in US dollars.")
    repeats = serializers.CharField(
        allow_null=True, help_text="The run before it under its Idempotency-Key, whose process died."
    )
    charged_before = SchemaField(_EXACT_DOLLARS_NUMBER, help_text="What such runs were charged, and usage.cost is without.")
    timings = CompletionTimingsSerializer()


class QuotedRouteSerializer(serializers.Serializer[Any]):
    model = serializers.CharField()
    provider = serializers.CharField()
    priority = serializers.IntegerField(min_value=0, help_text="The lowest is tried first.")
    weight = serializers.IntegerField(min_value=1, help_text="The share of the requests among routes of the same priority.")
    max_tokens = serializers.IntegerField(min_value=1, help_text="What its provider would be told, for each choice.")
    max_cost = SchemaField(_EXACT_DOLLARS_NUMBER, help_text="The most that its answer can cost, in US dollars, exactly.")


class QuoteRefusalSerializer(serializers.Serializer[Any]):
    status = serializers.IntegerField(help_text="402 or 429")
    message = serializers.CharField()
    type = serializers.CharField()
    code = serializers.CharField()
    param = serializers.CharField(allow_null=True)


class QuoteSerializer(serializers.Serializer[Any]):
    object = serializers.CharField(help_text="quote")
    model = serializers.CharField(help_text="The model that would answer; of an alias, the one that it stands for now.")
    prompt_tokens_max = serializers.IntegerField(min_value=0, help_text="The most tokens that its prompt can have.")
    max_tokens = serializers.IntegerField(
        min_value=1, allow_null=True, help_text="What the hold pays for. null: refused, and the request names none."
    )
    max_cost = SchemaField(
        _EXACT_DOLLARS_NUMBER, allow_null=True, help_text="What would be held, in US dollars. null: as of max_tokens."
    )
    available = SchemaField(_EXACT_NUMBER, help_text="What the account and the key's spending limit leave, in US dollars.")
    affordable_max_tokens = serializers.IntegerField(min_value=0, help_text="The largest max_tokens that this pays for.")
    refusal = QuoteRefusalSerializer(allow_null=True, help_text="The error that the request would get. null: none.")
    routes = QuotedRouteSerializer(many=True, help_text="In the order of their priority, then those of fallback models.")


_UNIT_PRICE = "US dollars per token, exactly."


class ModelPricingSerializer(serializers.Serializer[Any]):
    prompt = serializers.CharField(help_text=_UNIT_PRICE)
    completion = serializers.CharField(help_text=_UNIT_PRICE)
    input_cache_read = serializers.CharField(help_text=_UNIT_PRICE)
    input_cache_write = serializers.CharField(help_text=_UNIT_PRICE)
    image = serializers.CharField(help_text="US dollars for each image of the prompt, beside its tokens.")


class ModelArchitectureSerializer(serializers.Serializer[Any]):
    modality = serializers.CharField(help_text="Both lists as one text, such as text+image->text.")
    input_modalities = serializers.ListField(child=serializers.CharField(), help_text="text, image")
    output_modalities = serializers.ListField(child=serializers.CharField(), help_text="text, or embeddings")


class ModelCapabilitiesSerializer(serializers.Serializer[Any]):
    image_support = serializers.BooleanField()
    function_calling = serializers.BooleanField()


class TopProviderSerializer(serializers.Serializer[Any]):
    context_length = serializers.IntegerField(min_value=1)
    max_completion_tokens = serializers.IntegerField(min_value=1)
    is_moderated = serializers.BooleanField(help_text="false")


class ModelLinksSerializer(serializers.Serializer[Any]):
    details = serializers.CharField(help_text="The path of this object.")


_NONE = {"type": "object", "nullable": True}


class ModelSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="What to send as model.")
    object = serializers.CharField(help_text="model")
    created = serializers.IntegerField(help_text="Unix time in seconds.")
    owned_by = serializers.CharField(help_text="The maker of the model.")
    name = serializers.CharField()
    canonical_slug = serializers.CharField(help_text="The id of the model, also where id is an alias.")
    kind = serializers.ChoiceField(
        choices=ModelKind.values, help_text="chat: writes text, at /v1/chat/completions. embedding: at /v1/embeddings."
    )
    available = serializers.BooleanField(help_text="Whether completions are served now.")
    category = serializers.ChoiceField(choices=Category.values)
    context_window = serializers.IntegerField(min_value=1)
    max_output_tokens = serializers.IntegerField(min_value=1)
    pricing = ModelPricingSerializer()
    architecture = ModelArchitectureSerializer()
    context_length = serializers.IntegerField(min_value=1, help_text="As context_window, in OpenRouter's words.")
    top_provider = TopProviderSerializer(help_text="As context_window and max_output_tokens, in OpenRouter's words.")
    supported_parameters = serializers.ListField(
        child=serializers.CharField(), help_text="Fields of a request that every provider of the model heeds."
    )
    default_parameters = SchemaField(_NONE, allow_null=True, help_text="null")
    per_request_limits = SchemaField(_NONE, allow_null=True, help_text="null")
    supported_voices = SchemaField(_NONE, allow_null=True, help_text="null")
    links = ModelLinksSerializer()
    capabilities = ModelCapabilitiesSerializer()
    commercial_use = serializers.BooleanField()
    license = serializers.CharField(allow_null=True)
    alias_of = serializers.CharField(required=False, help_text="The model that the id currently stands for.")


class PageLinksSerializer(serializers.Serializer[Any]):
    next = serializers.CharField(allow_null=True, help_text="null: there are no pages.")


class ModelListSerializer(serializers.Serializer[Any]):
    object = serializers.CharField(help_text="list")
    data = ModelSerializer(many=True)  # type: ignore[assignment]
    total_count = serializers.IntegerField(min_value=0)
    links = PageLinksSerializer()


_EXACT_DOLLARS = "US dollars, exactly."


class UsageKeySerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    createdAt = serializers.DateTimeField()
    expiresAt = serializers.DateTimeField(allow_null=True)


class UsageLimitSerializer(serializers.Serializer[Any]):
    spendingLimit = serializers.IntegerField(min_value=0, help_text="Cents.")
    spendingType = serializers.ChoiceField(choices=SpendingType.values)
    spendingPeriod = serializers.ChoiceField(choices=SpendingPeriod.values, allow_null=True, help_text="null if FIXED.")
    spentInDollars = serializers.CharField(help_text=_EXACT_DOLLARS)
    heldInDollars = serializers.CharField(help_text=f"Held by running requests. {_EXACT_DOLLARS}")
    remainingInCents = serializers.IntegerField(help_text="Rounded down.")
    remainingInDollars = serializers.CharField(help_text=_EXACT_DOLLARS)
    resetsAt = serializers.DateTimeField(allow_null=True, help_text="null if FIXED.")


class UsageRateLimitsSerializer(serializers.Serializer[Any]):
    requestsPerMinute = serializers.IntegerField(allow_null=True, min_value=1)
    tokensPerMinute = serializers.IntegerField(allow_null=True, min_value=1)
    requestsInFlight = serializers.IntegerField(min_value=1, help_text="How many requests of the key may run at a time.")
    accountRequestsInFlight = serializers.IntegerField(min_value=1, help_text="The same for all keys of the account together.")


class UsageSumsSerializer(serializers.Serializer[Any]):
    completions = serializers.IntegerField(min_value=0)
    promptTokens = serializers.IntegerField(min_value=0)
    completionTokens = serializers.IntegerField(min_value=0)
    totalTokens = serializers.IntegerField(min_value=0)
    costInDollars = serializers.CharField(help_text=_EXACT_DOLLARS)


class UsageSpansSerializer(serializers.Serializer[Any]):
    today = UsageSumsSerializer()
    thisMonth = UsageSumsSerializer()
    total = UsageSumsSerializer()


class UsageBalanceSerializer(serializers.Serializer[Any]):
    balanceInCents = serializers.IntegerField(help_text="Rounded down.")
    balanceInDollars = serializers.FloatField(help_text="Rounded down to a whole cent.")
    heldInDollars = serializers.CharField(help_text=f"Held by running requests. {_EXACT_DOLLARS}")
    availableInDollars = serializers.CharField(help_text=f"What a new request may hold. {_EXACT_DOLLARS}")


class UsageSerializer(serializers.Serializer[Any]):
    object = serializers.CharField(help_text="usage")
    key = UsageKeySerializer()
    limit = UsageLimitSerializer(allow_null=True, help_text="null for a key without a spending limit.")
    rateLimits = UsageRateLimitsSerializer(help_text="The limits that apply. null: no limit.")
    usage = UsageSpansSerializer(help_text="Settled completions of this key, by the UTC day of their admission.")
    balance = UsageBalanceSerializer(help_text="The account's.")
