"""What /v1 shows of a model, and serializers that describe requests and replies for OpenAPI.

Requests are not parsed with these serializers but by ``completions.request.schema``; replies are built as plain objects.
"""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_serializer
from rest_framework import serializers

from completions.catalog.lookup import Listing
from completions.models import Category, Completion, LanguageModel, ModelKind, Route
from completions.pricing import meters, rates
from completions.pricing.meters import METERS, Meter, Unit
from completions.pricing.rates import RateSheet
from completions.request import cache_marks, reasoning, schema, serving
from completions.request.fields import NAME_PATTERN
from completions.request.messages import AUDIO_FORMATS, IMAGE_DETAILS, ROLES
from gateway_project.text import dollars
from gateway_project.web.openapi import specification
from gateway_project.web.openapi.fields import Constant, OneOf, SchemaField, TextOr, optional
from keys.spending_limit import SpendingPeriod, SpendingType

CHARGED_TIERS = (*meters.TIERS, "default")  # that a completion or a quote names


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
            **_pricing(price.sheet, rates.STANDARD, 0),
            "service_tiers": {tier: _pricing(price.sheet, tier, 0) for tier in price.sheet.tiers},
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
        "expiration_date": model.ends_on and model.ends_on.isoformat(),
        "successor": model.successor_id,
        "links": {"details": f"/v1/models/{model.pk}"},
        "capabilities": {"image_support": model.image_support, "function_calling": model.function_calling},
        "commercial_use": model.commercial_use,
        "license": model.license,
        **({"alias_of": model.pk} if listing.alias else {}),
    }


# OpenRouter's names of meters in ``pricing``. A meter that it does not have keeps its own.
_PRICING_NAMES = {
    **{"input": "prompt", "output": "completion", "cached_input": "input_cache_read"},
    **{"cache_write": "input_cache_write", "cache_write_1h": "input_cache_write_1h"},
}


def _pricing(sheet: RateSheet, tier: str, above: int) -> dict[str, Any]:
    """Return dollars for each token, image or search, and those of long prompts. OpenRouter's SDKs refuse null."""
    shown = [meter for meter in METERS if not meter.is_asked_for or sheet.stated(meter.name, tier, above) is not None]
    pricing: dict[str, Any] = {
        _PRICING_NAMES.get(meter.name, meter.name): _per_one(meter, sheet.nanos_of(meter.name, tier, above)) for meter in shown
    }
    if bands := [] if above else sheet.bands(tier):
        pricing["above"] = [{"prompt_tokens": band, **_pricing(sheet, tier, band)} for band in bands]
    return pricing


def _per_one(meter: Meter, nanos: int) -> str:
    if meter.unit is Unit.EACH:
        return dollars.format_plain(nanos)
    return dollars.format_per_one(nanos, meter.unit.number)


def _supported_parameters(model: LanguageModel) -> list[str]:
    """Return what every provider of the model heeds, in OpenRouter's words."""
    if model.kind == ModelKind.EMBEDDING:
        return []
    of_tools = ["tools", "tool_choice"] if model.function_calling else []
    of_reasoning = ["reasoning", "reasoning_effort"] if model.reasoning else []
    of_chat = [] if any(route.api == Route.Api.RESPONSES for route in model.enabled_routes) else ["stop"]
    return ["max_tokens", *of_chat, "structured_outputs", *of_tools, *of_reasoning]


# --- Shapes for the OpenAPI description -------------------------------------------------------------------------
#
# Docstrings are for developers and do not appear in the description: ``help_text`` and ``description`` do.

_NAME = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
_OBJECT = {"type": "object", "additionalProperties": True}
TAGS = {
    "type": "object",
    "maxProperties": schema.TAGS_MAX,
    "propertyNames": {"minLength": 1, "maxLength": schema.TAG_NAME_CHARACTERS_MAX},
    "additionalProperties": {"type": "string", "maxLength": schema.LABEL_CHARACTERS_MAX},
}


# --- The request ----------------------------------------------------------------------------------------------------


class ChatCompletionContentPartTextSerializer(serializers.Serializer[Any]):
    type = Constant("text")
    text = serializers.CharField(help_text="The text.")


class ImageUrlSerializer(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="A data URL of a base64-encoded image, or an https address.")
    detail = optional(serializers.ChoiceField, choices=IMAGE_DETAILS, help_text="How closely the model looks at it.")


class ChatCompletionContentPartImageSerializer(serializers.Serializer[Any]):
    type = Constant("image_url")
    image_url = ImageUrlSerializer(help_text="The image.")


class InputAudioSerializer(serializers.Serializer[Any]):
    data = serializers.CharField(help_text="The audio, in base64.")  # type: ignore[assignment]
    format = serializers.ChoiceField(choices=AUDIO_FORMATS, help_text="The format of the audio.")


class ChatCompletionContentPartInputAudioSerializer(serializers.Serializer[Any]):
    type = Constant("input_audio")
    input_audio = InputAudioSerializer(help_text="The audio.")


class AttachedFileSerializer(serializers.Serializer[Any]):
    file_data = serializers.CharField(help_text="A data URL, or base64.")
    filename = serializers.CharField(required=False, help_text="The name of the file.")


class ChatCompletionContentPartFileSerializer(serializers.Serializer[Any]):
    type = Constant("file")
    file = AttachedFileSerializer(help_text="The file.")


class ChatCompletionContentPartRefusalSerializer(serializers.Serializer[Any]):
    type = Constant("refusal")
    refusal = serializers.CharField(help_text="What the model said when it refused.")


class CalledFunctionSerializer(serializers.Serializer[Any]):
    name = SchemaField(_NAME, help_text="The function that the model calls.")
    arguments = serializers.CharField(help_text="A JSON object, as text.")


class CalledCustomToolSerializer(serializers.Serializer[Any]):
    name = SchemaField(_NAME, help_text="The custom tool that the model calls.")
    input = serializers.CharField(help_text="What the model gives to it.")


class ChatCompletionMessageFunctionToolCallSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the call. The message with its result repeats it as tool_call_id.")
    type = Constant("function")
    function = CalledFunctionSerializer(help_text="The function and its arguments.")


class ChatCompletionMessageCustomToolCallSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the call. The message with its result repeats it as tool_call_id.")
    type = Constant("custom")
    custom = CalledCustomToolSerializer(help_text="The tool and its input.")


def _parts(**options: Any) -> TextOr:
    part = OneOf(
        "ChatCompletionContentPart",
        [
            ChatCompletionContentPartTextSerializer,
            ChatCompletionContentPartImageSerializer,
            ChatCompletionContentPartInputAudioSerializer,
            ChatCompletionContentPartFileSerializer,
            ChatCompletionContentPartRefusalSerializer,
        ],
    )
    return TextOr(serializers.ListField(child=part), **options)


def _tool_calls(**options: Any) -> serializers.ListField:
    call = OneOf(
        "ChatCompletionMessageToolCall",
        [
            ChatCompletionMessageFunctionToolCallSerializer,
            ChatCompletionMessageCustomToolCallSerializer,
        ],
    )
    return serializers.ListField(child=call, required=False, **options)


class ReasoningDetailSerializer(serializers.Serializer[Any]):
    type = serializers.ChoiceField(
        choices=("reasoning.text", "reasoning.encrypted", "reasoning.summary"), help_text="The kind of detail."
    )
    text = serializers.CharField(required=False, help_text="What the model shows of its thinking.")
    summary = serializers.CharField(required=False, help_text="A summary of it.")
    signature = optional(serializers.CharField, help_text="Of a text: what the provider needs back, sealed.")
    data = serializers.CharField(  # type: ignore[assignment]
        required=False, help_text="What the provider needs back and does not show, sealed."
    )
    id = optional(serializers.CharField, help_text="The call of a tool that it belongs to.")
    format = optional(serializers.CharField, help_text="Whose reasoning it is.")
    index = serializers.IntegerField(required=False, help_text="Of the detail. In a stream its pieces have the same.")


class ChatCompletionRequestMessageSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=ROLES, help_text="Who speaks.")
    content = _parts(
        required=False,
        allow_null=True,
        help_text="Text, or an array of parts. Required, except in a message of an assistant that called a tool.",
    )
    name = optional(serializers.CharField, help_text="The name of who speaks; in a message of a function, its name.")
    tool_calls = _tool_calls(allow_null=True, help_text="The tools that the model called. In a message of an assistant.")
    tool_call_id = optional(serializers.CharField, help_text="The call that this is the result of. In a message of a tool.")
    refusal = optional(serializers.CharField, help_text="What the model said when it refused. In a message of an assistant.")
    reasoning_content = optional(
        serializers.CharField, help_text="The thinking that a reply had. In a message of an assistant."
    )
    reasoning = optional(serializers.CharField, help_text="The same text, in OpenRouter's words.")
    reasoning_details = optional(
        serializers.ListField, child=ReasoningDetailSerializer(), help_text="The details of it that a reply had, as they came."
    )


class FunctionDefinitionSerializer(serializers.Serializer[Any]):
    name = SchemaField(_NAME, help_text="The name by which the model calls it.")
    description = optional(serializers.CharField, help_text="What it does, for the model.")
    parameters = optional(SchemaField, _OBJECT, help_text="A JSON schema of its arguments.")
    strict = optional(serializers.BooleanField, help_text="Whether the arguments always follow the schema.")


class ChatCompletionToolSerializer(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=("function", "custom"), help_text="The kind of tool.")
    function = FunctionDefinitionSerializer(required=False, help_text="The function, where the type is function.")
    custom = optional(SchemaField, _OBJECT, help_text="The name, description and format of the tool, where the type is custom.")


class JsonSchemaFormatSerializer(serializers.Serializer[Any]):
    name = SchemaField(_NAME, help_text="The name of the schema.")
    description = optional(serializers.CharField, help_text="What the reply is, for the model.")
    schema = optional(SchemaField, _OBJECT, help_text="The JSON schema of the reply.")
    strict = optional(serializers.BooleanField, help_text="Whether the reply always follows the schema.")


class ReplyFormatSerializer(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=schema.RESPONSE_FORMATS, help_text="Text, a JSON object, or JSON of a schema.")
    json_schema = JsonSchemaFormatSerializer(
        required=False, allow_null=True, help_text="The schema, where the type is json_schema."
    )


class StreamOptionsSerializer(serializers.Serializer[Any]):
    include_usage = serializers.BooleanField(
        required=False, allow_null=True, help_text="Whether a last chunk before [DONE] reports the usage."
    )
    include_obfuscation = serializers.BooleanField(
        required=False, allow_null=True, help_text="Has no effect: obfuscation is never sent."
    )


class CacheControlSerializer(serializers.Serializer[Any]):
    type = Constant("ephemeral")
    ttl = optional(serializers.ChoiceField, choices=cache_marks.TTLS, help_text="How long the cache keeps it: 5m by default.")


class PromptCacheOptionsSerializer(serializers.Serializer[Any]):
    mode = optional(
        serializers.ChoiceField, choices=serving.CACHE_MODES, help_text="Who chooses what is cached: OpenAI, or you."
    )
    ttl = optional(serializers.ChoiceField, choices=serving.CACHE_TTLS, help_text="How long the cache keeps it, at least.")


class ModerationRuleSerializer(serializers.Serializer[Any]):
    mode = optional(serializers.ChoiceField, choices=serving.MODERATION_MODES, help_text="Whether what is found is blocked.")


class ModerationPolicySerializer(serializers.Serializer[Any]):
    input = ModerationRuleSerializer(required=False, allow_null=True, help_text="Of the prompt.")
    output = ModerationRuleSerializer(required=False, allow_null=True, help_text="Of the reply.")


class ModerationSerializer(serializers.Serializer[Any]):
    model = optional(
        serializers.CharField, max_length=serving.MODERATION_MODEL_CHARACTERS_MAX, help_text="OpenAI's model that checks."
    )
    policy = ModerationPolicySerializer(required=False, allow_null=True, help_text="What becomes of what it finds.")


class PredictionSerializer(serializers.Serializer[Any]):
    type = Constant("content")
    content = TextOr(serializers.ListField(child=SchemaField(_OBJECT)), help_text="What the reply will likely have.")


class WebSearchOptionsSerializer(serializers.Serializer[Any]):
    search_context_size = optional(
        serializers.ChoiceField, choices=serving.SEARCH_SIZES, help_text="How much of what is found the model reads."
    )
    user_location = optional(SchemaField, _OBJECT, help_text="Where the user is.")


class ServingSerializer(serializers.Serializer[Any]):
    cache_control = CacheControlSerializer(
        required=False, allow_null=True, help_text="Caches the prompt at Anthropic, for five minutes or an hour."
    )
    service_tier = optional(
        serializers.ChoiceField,
        choices=serving.TIERS,
        help_text="flex or priority: where the model has prices for it. fast is priority. The others are the usual service.",
    )
    prompt_cache_options = PromptCacheOptionsSerializer(
        required=False, allow_null=True, help_text="How OpenAI caches the prompt."
    )
    moderation = ModerationSerializer(
        required=False, allow_null=True, help_text="What OpenAI is to check, and whether that blocks the reply."
    )


_TOOL_CHOICE = {"oneOf": [{"type": "string", "enum": list(schema.TOOL_CHOICES)}, _OBJECT]}
_STOP = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": schema.STOPS_MAX}]}
_MODALITIES = {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "string", "const": "text"}}
_LOGIT_BIAS = {"type": "object", "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}}
_PRICE = {"oneOf": [{"type": "number", "minimum": 0, "maximum": schema.PRICE_MAX}, {"type": "string"}]}
_MAX_PRICE = {
    "type": "object",
    "properties": {
        name: {**_PRICE, "description": f"US dollars per million tokens of the {name}."} for name in schema.PRICE_NAMES
    },
    "additionalProperties": False,
}


class ProviderPreferencesSerializer(serializers.Serializer[Any]):
    order = optional(
        serializers.ListField, child=serializers.CharField(), max_length=schema.PROVIDERS_MAX, help_text="Tried first, in turn."
    )
    only = optional(
        serializers.ListField, child=serializers.CharField(), max_length=schema.PROVIDERS_MAX, help_text="No others are asked."
    )
    ignore = optional(
        serializers.ListField, child=serializers.CharField(), max_length=schema.PROVIDERS_MAX, help_text="These are not asked."
    )
    sort = optional(
        serializers.ChoiceField,
        choices=schema.PROVIDER_SORTS,
        help_text="How the others are ordered, as of the last hour.",
    )
    max_price = optional(SchemaField, _MAX_PRICE, help_text="The maximum price of a model, in US dollars per million tokens.")
    min_quality = optional(
        serializers.FloatField, min_value=0, max_value=100, help_text="The least quality of the model that an alias stands for."
    )
    allow_fallbacks = optional(
        serializers.BooleanField, help_text="false: only those of order are asked, or one provider without an order."
    )
    require_parameters = optional(
        serializers.BooleanField, help_text="true: only providers are asked that are sent every field of the request."
    )


class ReasoningOptionsSerializer(serializers.Serializer[Any]):
    effort = optional(serializers.ChoiceField, choices=schema.REASONING_EFFORTS, help_text="As reasoning_effort.")
    max_tokens = optional(
        serializers.IntegerField,
        min_value=1,
        max_value=reasoning.BUDGET_TOKENS_MAX,
        help_text="Instead of effort: about as many tokens. Less than max_tokens.",
    )
    exclude = optional(serializers.BooleanField, help_text="true: the reply shows no reasoning.")
    enabled = optional(serializers.BooleanField, help_text="true: with medium effort, if nothing else is said; false: none.")


class UsageOptionsSerializer(serializers.Serializer[Any]):
    include = optional(serializers.BooleanField, help_text="true: a stream ends with its usage. Whole replies always have it.")


@extend_schema_serializer(
    description="A null counts as absent. Fields that are not listed are passed on to providers that accept them."
)
class ChatCompletionRequestSerializer(ServingSerializer):
    model = serializers.CharField(
        min_length=1, max_length=schema.MODEL_CHARACTERS_MAX, help_text="An id of GET /v1/models that is available."
    )
    models = optional(
        serializers.ListField,
        child=serializers.CharField(min_length=1, max_length=schema.MODEL_CHARACTERS_MAX),
        max_length=schema.FALLBACKS_MAX,
        help_text="Models to try in turn when the first cannot serve the request.",
    )
    provider = ProviderPreferencesSerializer(required=False, allow_null=True, help_text="Which providers may answer.")
    messages = serializers.ListField(
        child=ChatCompletionRequestMessageSerializer(),
        min_length=1,
        max_length=settings.REQUEST_MESSAGES_MAX,
        help_text="The conversation, from its beginning.",
    )
    max_tokens = optional(
        serializers.IntegerField,
        min_value=1,
        max_value=schema.MAX_TOKENS_MAX,
        help_text="Maximum tokens to generate for each choice, up to the model's max_output_tokens.",
    )
    max_completion_tokens = optional(
        serializers.IntegerField,
        min_value=1,
        max_value=schema.MAX_TOKENS_MAX,
        help_text="Another name for max_tokens. Send one of the two.",
    )
    temperature = optional(
        serializers.FloatField, min_value=0, max_value=2, help_text="How much chance decides: the higher, the more varied."
    )
    top_p = optional(
        serializers.FloatField,
        min_value=0,
        max_value=1,
        help_text="The model chooses among the likeliest tokens that together have this probability.",
    )
    frequency_penalty = optional(
        serializers.FloatField,
        min_value=-2,
        max_value=2,
        help_text="Makes tokens less likely the more often they occur already; below 0, more likely.",
    )
    presence_penalty = optional(
        serializers.FloatField,
        min_value=-2,
        max_value=2,
        help_text="Makes tokens less likely that occur already; below 0, more likely.",
    )
    n = optional(serializers.IntegerField, min_value=1, max_value=schema.CHOICES_MAX, help_text="How many replies.")
    stop = optional(SchemaField, _STOP, help_text="Texts at which the model stops.")
    seed = optional(
        serializers.IntegerField,
        min_value=schema.SEED_MIN,
        max_value=schema.SEED_MAX,
        help_text="Makes a repetition likely to give the same reply.",
    )
    logit_bias = optional(SchemaField, _LOGIT_BIAS, help_text="By token: how much likelier, or less likely, it becomes.")
    logprobs = optional(serializers.BooleanField, help_text="Whether the reply has the probabilities of its tokens.")
    top_logprobs = optional(
        serializers.IntegerField,
        min_value=0,
        max_value=20,
        help_text="How many other tokens it names for each. Only with logprobs.",
    )
    tools = optional(
        serializers.ListField,
        child=ChatCompletionToolSerializer(),
        min_length=1,
        max_length=schema.TOOLS_MAX,
        help_text="What the model may call.",
    )
    functions = optional(
        serializers.ListField,
        child=FunctionDefinitionSerializer(),
        min_length=1,
        max_length=schema.TOOLS_MAX,
        help_text="OpenAI's older form of tools.",
    )
    tool_choice = optional(SchemaField, _TOOL_CHOICE, help_text="none, auto, required, or an object that names a tool.")
    parallel_tool_calls = optional(serializers.BooleanField, help_text="Whether the model may call several tools at once.")
    response_format = ReplyFormatSerializer(required=False, allow_null=True, help_text="The format of the reply.")
    reasoning_effort = optional(
        serializers.ChoiceField, choices=schema.REASONING_EFFORTS, help_text="How much the model thinks."
    )
    reasoning = ReasoningOptionsSerializer(
        required=False, allow_null=True, help_text="How much to reason, in OpenRouter's words, and whether to show it."
    )
    verbosity = optional(serializers.ChoiceField, choices=schema.VERBOSITIES, help_text="How long the reply is.")
    modalities = optional(SchemaField, _MODALITIES, help_text="Replies are text.")
    prediction = PredictionSerializer(required=False, allow_null=True, help_text="No provider is sent it: no price covers it.")
    web_search_options = WebSearchOptionsSerializer(
        required=False, allow_null=True, help_text="No provider is sent it: no price covers it."
    )
    user = optional(
        serializers.CharField,
        max_length=schema.LABEL_CHARACTERS_MAX,
        help_text="Your own id of who asks. The usage page groups by it.",
    )
    safety_identifier = optional(
        serializers.CharField, max_length=schema.LABEL_CHARACTERS_MAX, help_text="OpenAI's newer name for user."
    )
    prompt_cache_key = optional(serializers.CharField, help_text="Helps OpenAI and Mistral to find the prompt in their caches.")
    metadata = optional(
        SchemaField,
        TAGS,
        help_text=f"Up to {schema.TAGS_MAX} tags: strings, under names of 1 to {schema.TAG_NAME_CHARACTERS_MAX} characters. "
        "The usage page groups by them.",
    )
    store = optional(serializers.BooleanField, help_text="Has no effect: no prompt and no reply is stored.")
    stream = serializers.BooleanField(
        required=False, allow_null=True, default=False, help_text="Whether the reply is a stream of events."
    )
    stream_options = StreamOptionsSerializer(required=False, allow_null=True, help_text="Only with stream.")
    usage = UsageOptionsSerializer(required=False, allow_null=True, help_text="In OpenRouter's words.")


# --- The reply --------------------------------------------------------------------------------------------------------


_LOGPROBS_HELP = "The probabilities of the tokens, if they were asked for."
_FINISH_REASONS = "stop, length, tool_calls, content_filter, or another of the provider's."


class UrlCitationSerializer(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="The address of the page.")
    title = serializers.CharField(required=False, help_text="The title of the page.")
    start_index = serializers.IntegerField(required=False, help_text="Of the first character of the text that cites it.")
    end_index = serializers.IntegerField(required=False, help_text="Of the last one.")


class ChatCompletionAnnotationSerializer(serializers.Serializer[Any]):
    type = serializers.CharField(help_text="url_citation, or another of the provider's.")
    url_citation = UrlCitationSerializer(required=False, help_text="The page that the text cites.")


def _annotations() -> Any:
    return optional(
        serializers.ListField,
        child=ChatCompletionAnnotationSerializer(),
        help_text="What the text cites, as a provider sends it that searched for it.",
    )


class ChatCompletionMessageSerializer(serializers.Serializer[Any]):
    role = serializers.CharField(help_text="assistant")
    content = serializers.CharField(allow_blank=True, allow_null=True, help_text="The text. It may be null beside tool calls.")
    refusal = optional(serializers.CharField, help_text="What the model said instead, if it refused.")
    annotations = _annotations()
    tool_calls = _tool_calls(allow_null=True, help_text="The tools that the model calls.")
    reasoning_content = optional(serializers.CharField, help_text="The thinking of the model, if its provider returns it.")
    reasoning = optional(serializers.CharField, help_text="The same text, in OpenRouter's words.")
    reasoning_details = optional(
        serializers.ListField,
        child=ReasoningDetailSerializer(),
        help_text="Send them back, so that the model goes on with what it thought.",
    )


class ChatCompletionChoiceSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField(help_text="The number of the choice, from 0.")
    message = ChatCompletionMessageSerializer(help_text="What the model says.")
    logprobs = optional(SchemaField, _OBJECT, help_text=_LOGPROBS_HELP)
    finish_reason = serializers.CharField(help_text=_FINISH_REASONS)


class PromptTokensDetailsSerializer(serializers.Serializer[Any]):
    cached_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were read from a cache.")
    cache_write_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were written to a cache.")


class CompletionTokensDetailsSerializer(serializers.Serializer[Any]):
    reasoning_tokens = serializers.IntegerField(min_value=0, help_text="Tokens of the model's thinking.")


_EXACT_NUMBER = {"type": "number", "format": "decimal"}
_EXACT_DOLLARS_NUMBER = {**_EXACT_NUMBER, "minimum": 0}


class CompletionUsageSerializer(serializers.Serializer[Any]):
    prompt_tokens = serializers.IntegerField(min_value=0, help_text="Tokens of the prompt.")
    completion_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were generated, thinking included.")
    total_tokens = serializers.IntegerField(min_value=0, help_text="Both together.")
    prompt_tokens_details = PromptTokensDetailsSerializer(help_text="How many of the prompt's tokens a cache had to do with.")
    completion_tokens_details = CompletionTokensDetailsSerializer(help_text="How many of the generated tokens were thinking.")
    cost = SchemaField(
        _EXACT_DOLLARS_NUMBER, allow_null=True, help_text="What was charged, in US dollars, exactly. null: not known yet."
    )


class ChatCompletionSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The ledger entry of the completion has the same id.")
    object = Constant("chat.completion")
    created = serializers.IntegerField(help_text="Unix time in seconds.")
    model = serializers.CharField(help_text="The model that answered.")
    provider = serializers.CharField(help_text="The provider that answered, in OpenRouter's place. x-gateway-provider, too.")
    system_fingerprint = serializers.CharField(allow_null=True, help_text="null")
    choices = ChatCompletionChoiceSerializer(many=True, help_text="The replies: as many as n asked for.")
    usage = CompletionUsageSerializer(help_text="The tokens that are charged.")


class CalledFunctionDeltaSerializer(serializers.Serializer[Any]):
    name = optional(serializers.CharField, help_text="The function, in the first delta of the call.")
    arguments = optional(serializers.CharField, help_text="More of the arguments.")


class CalledCustomToolDeltaSerializer(serializers.Serializer[Any]):
    name = optional(serializers.CharField, help_text="The tool, in the first delta of the call.")
    input = optional(serializers.CharField, help_text="More of the input.")


class ChatCompletionChunkToolCallSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField(help_text="The number of the call, from 0.")
    id = optional(serializers.CharField, help_text="The id of the call, in its first delta.")
    type = optional(serializers.CharField, help_text="function or custom, in the first delta of the call.")
    function = CalledFunctionDeltaSerializer(required=False, help_text="More of a call of a function.")
    custom = CalledCustomToolDeltaSerializer(required=False, help_text="More of a call of a custom tool.")


class ChatCompletionChunkDeltaSerializer(serializers.Serializer[Any]):
    role = optional(serializers.CharField, help_text="assistant")
    content = optional(serializers.CharField, help_text="More text.")
    refusal = optional(serializers.CharField, help_text="More of what the model says instead, if it refuses.")
    annotations = _annotations()
    tool_calls = optional(
        serializers.ListField,
        child=ChatCompletionChunkToolCallSerializer(),
        help_text="More of the tools that the model calls.",
    )
    reasoning_content = optional(serializers.CharField, help_text="More of the model's thinking.")
    reasoning = optional(serializers.CharField, help_text="The same text, in OpenRouter's words.")
    reasoning_details = optional(
        serializers.ListField,
        child=ReasoningDetailSerializer(),
        help_text="The details of it. Those of the same index belong together.",
    )


class ChatCompletionChunkChoiceSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField(help_text="The number of the choice, from 0.")
    delta = ChatCompletionChunkDeltaSerializer(help_text="What follows what was sent before.")
    logprobs = optional(SchemaField, _OBJECT, help_text=_LOGPROBS_HELP)
    finish_reason = optional(serializers.CharField, help_text=f"{_FINISH_REASONS} null before the end.")


class ChatCompletionChunkSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The same in every chunk. The ledger entry of the completion has the same id.")
    object = Constant("chat.completion.chunk")
    created = serializers.IntegerField(help_text="Unix time in seconds.")
    model = serializers.CharField(help_text="The model that answers.")
    provider = serializers.CharField(help_text="The provider that answers.")
    choices = ChatCompletionChunkChoiceSerializer(many=True, help_text="What follows. Empty in the chunk with the usage.")
    usage = CompletionUsageSerializer(
        required=False,
        allow_null=True,
        help_text="The tokens that are charged: in the last chunk, if it was asked for. Before, it is null for include_usage.",
    )


CHAT_COMPLETION_STREAM_EVENT = PolymorphicProxySerializer(
    component_name="ChatCompletionStreamEvent",
    serializers=[ChatCompletionChunkSerializer, specification.ErrorResponseSerializer],
    resource_type_field_name=None,
)


# --- What happened, and what would ------------------------------------------------------------------------------------


class FailedAttemptSerializer(serializers.Serializer[Any]):
    provider = serializers.CharField(help_text="The provider that was asked.")
    status = serializers.IntegerField(allow_null=True, help_text="What it replied with. null: it did not reply.")


class ChargedPromptTokensDetailsSerializer(PromptTokensDetailsSerializer):
    cache_write_1h_tokens = serializers.IntegerField(min_value=0, help_text="Of these, those that it keeps for an hour.")


class ChargedUsageSerializer(serializers.Serializer[Any]):
    prompt_tokens = serializers.IntegerField(min_value=0, help_text="Tokens of the prompt.")
    completion_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were generated.")
    total_tokens = serializers.IntegerField(min_value=0, help_text="Both together.")
    prompt_tokens_details = ChargedPromptTokensDetailsSerializer(
        help_text="How many of the prompt's tokens a cache had to do with."
    )
    web_searches = serializers.IntegerField(min_value=0, help_text="Searches of the web by the provider.")
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
    id = serializers.CharField(help_text="The id that its reply has.")
    object = Constant("completion")
    created = serializers.IntegerField(help_text="Unix time in seconds.")
    request_id = serializers.CharField(allow_null=True, help_text="The x-request-id of its reply.")
    user = serializers.CharField(allow_null=True, help_text="As its request said: user, or else safety_identifier.")
    metadata = SchemaField(TAGS, help_text="As its request said.")
    key = serializers.CharField(help_text="The id of the key that sent it.")
    model = serializers.CharField(help_text="The model that answered; while it runs, perhaps the one that was asked for.")
    provider = serializers.CharField(help_text="The provider that answered, or was asked last.")
    stream = serializers.BooleanField(help_text="Whether its reply was a stream.")
    attempts = serializers.IntegerField(min_value=0, allow_null=True, help_text="How many times a provider was asked.")
    failed_attempts = FailedAttemptSerializer(many=True, help_text="The attempts that failed, in order.")
    service_tier = serializers.ChoiceField(choices=CHARGED_TIERS, help_text="The tier whose prices were charged.")
    settlement = serializers.ChoiceField(
        choices=Completion.Settlement.choices,
        allow_null=True,
        help_text="How its charge was found. null: it is not settled yet.",
    )
    usage = ChargedUsageSerializer(allow_null=True, help_text="What was charged. null: it is not settled yet.")
    max_cost = SchemaField(_EXACT_DOLLARS_NUMBER, help_text="What was held: the most that it could cost, in US dollars.")
    repeats = serializers.CharField(
        allow_null=True, help_text="The run before it under its Idempotency-Key, whose process died, or what it corrects."
    )
    charged_before = SchemaField(_EXACT_DOLLARS_NUMBER, help_text="What such runs were charged, and usage.cost is without.")
    timings = CompletionTimingsSerializer(help_text="When it ran, and how long.")


_UNIT_PRICE = "US dollars per token, exactly."


class QuotedRouteSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(help_text="The model that would answer.")
    provider = serializers.CharField(help_text="The provider that would be asked.")
    priority = serializers.IntegerField(min_value=0, help_text="The lowest is tried first.")
    weight = serializers.IntegerField(min_value=1, help_text="The share of the requests among routes of the same priority.")
    max_tokens = serializers.IntegerField(min_value=1, help_text="What its provider would be told, for each choice.")
    max_cost = SchemaField(_EXACT_DOLLARS_NUMBER, help_text="The maximum cost of its answer, in US dollars, exactly.")


class QuotedRatesSerializer(serializers.Serializer[Any]):
    prompt = serializers.CharField(help_text=_UNIT_PRICE)
    completion = serializers.CharField(help_text=_UNIT_PRICE)


class LikelyCostSerializer(QuotedRatesSerializer):
    service_tier = serializers.ChoiceField(choices=CHARGED_TIERS, help_text="The tier that is asked for.")
    prompt_tokens = serializers.IntegerField(min_value=0, help_text="The tokens that its prompt is likely to have.")
    above = serializers.IntegerField(min_value=0, help_text="The threshold of the prices of long prompts. 0: of short ones.")
    cost = SchemaField(
        _EXACT_DOLLARS_NUMBER,
        allow_null=True,
        help_text="What this and max_tokens cost, in US dollars. null: as max_tokens.",
    )


class QuoteRefusalSerializer(specification.ErrorDetailsSerializer):
    status = serializers.IntegerField(help_text="402 or 429")


class QuoteSerializer(serializers.Serializer[Any]):
    object = Constant("quote")
    model = serializers.CharField(help_text="The model that would answer; of an alias, the one that it stands for now.")
    prompt_tokens_max = serializers.IntegerField(min_value=0, help_text="Maximum tokens of its prompt.")
    max_tokens = serializers.IntegerField(
        min_value=1, allow_null=True, help_text="What the hold pays for. null: refused, and the request names none."
    )
    max_cost = SchemaField(
        _EXACT_DOLLARS_NUMBER, allow_null=True, help_text="What would be held, in US dollars. null: as of max_tokens."
    )
    rates = QuotedRatesSerializer(help_text="The highest prices that may be charged: the hold is at these.")
    likely = LikelyCostSerializer(
        allow_null=True, help_text="At which prices it is likely to be charged. null: the model has one price for all."
    )
    available = SchemaField(_EXACT_NUMBER, help_text="What the account and the key's spending limit leave, in US dollars.")
    affordable_max_tokens = serializers.IntegerField(min_value=0, help_text="The largest max_tokens that this pays for.")
    refusal = QuoteRefusalSerializer(allow_null=True, help_text="The error that the request would get. null: none.")
    routes = QuotedRouteSerializer(many=True, help_text="In the order of their priority, then those of fallback models.")


def _price_field(meter: Meter) -> serializers.CharField:
    unit = "token" if meter.unit is Unit.TOKENS else meter.title.lower()
    absent = " Absent: it is refused." if meter.is_asked_for else ""
    return serializers.CharField(
        required=not meter.is_asked_for, help_text=f"{meter.explanation} US dollars for each {unit}, exactly.{absent}"
    )


class _PricingSerializer(serializers.Serializer[Any]):
    """Has a field for each meter."""

    def get_fields(self) -> dict[str, Any]:
        return {_PRICING_NAMES.get(meter.name, meter.name): _price_field(meter) for meter in METERS} | super().get_fields()


class BandPricingSerializer(_PricingSerializer):
    prompt_tokens = serializers.IntegerField(
        min_value=1, help_text="A prompt with more tokens is charged whole at these prices."
    )


class TierPricingSerializer(_PricingSerializer):
    above = BandPricingSerializer(many=True, required=False, help_text="Of long prompts. Absent: as of short ones.")


class ModelPricingSerializer(TierPricingSerializer):
    service_tiers = serializers.DictField(
        child=TierPricingSerializer(),
        help_text="Those of service tiers that have prices of their own, by the name of the tier.",
    )


class ModelArchitectureSerializer(serializers.Serializer[Any]):
    modality = serializers.CharField(help_text="Both lists as one text, such as text+image->text.")
    input_modalities = serializers.ListField(child=serializers.CharField(), help_text="text, image")
    output_modalities = serializers.ListField(child=serializers.CharField(), help_text="text, or embeddings")


class ModelCapabilitiesSerializer(serializers.Serializer[Any]):
    image_support = serializers.BooleanField(help_text="Whether it reads images.")
    function_calling = serializers.BooleanField(help_text="Whether it calls functions and other tools.")


class TopProviderSerializer(serializers.Serializer[Any]):
    context_length = serializers.IntegerField(min_value=1, help_text="Maximum tokens of prompt and reply together.")
    max_completion_tokens = serializers.IntegerField(min_value=1, help_text="Maximum tokens that it generates.")
    is_moderated = serializers.BooleanField(help_text="false")


class ModelLinksSerializer(serializers.Serializer[Any]):
    details = serializers.CharField(help_text="The path of this object.")


_NONE = {"type": "object"}


class ModelSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="What to send as model.")
    object = Constant("model")
    created = serializers.IntegerField(help_text="Unix time in seconds.")
    owned_by = serializers.CharField(help_text="The maker of the model.")
    canonical_slug = serializers.CharField(help_text="The id of the model, also where id is an alias.")
    name = serializers.CharField(help_text="The name of the model, for people.")
    kind = serializers.ChoiceField(
        choices=ModelKind.values, help_text="chat: writes text, at /v1/chat/completions. embedding: at /v1/embeddings."
    )
    available = serializers.BooleanField(help_text="Whether completions are served now.")
    category = serializers.ChoiceField(choices=Category.values, help_text="What the model is made for.")
    context_window = serializers.IntegerField(min_value=1, help_text="Maximum tokens of prompt and reply together.")
    max_output_tokens = serializers.IntegerField(min_value=1, help_text="Maximum tokens that it generates.")
    pricing = ModelPricingSerializer(help_text="What its tokens cost.")
    architecture = ModelArchitectureSerializer(help_text="What it reads and writes.")
    context_length = serializers.IntegerField(min_value=1, help_text="As context_window, in OpenRouter's words.")
    top_provider = TopProviderSerializer(help_text="As context_window and max_output_tokens, in OpenRouter's words.")
    supported_parameters = serializers.ListField(
        child=serializers.CharField(), help_text="Fields of a request that every provider of the model heeds."
    )
    default_parameters = SchemaField(_NONE, allow_null=True, help_text="null")
    per_request_limits = SchemaField(_NONE, allow_null=True, help_text="null")
    supported_voices = SchemaField(_NONE, allow_null=True, help_text="null")
    expiration_date = serializers.DateField(
        allow_null=True, help_text="From this day on, UTC, it may not be served. null: no end is known."
    )
    successor = serializers.CharField(allow_null=True, help_text="The id of the model to use instead, if there is one.")
    links = ModelLinksSerializer(help_text="Where to read more of it.")
    capabilities = ModelCapabilitiesSerializer(help_text="What else it can do.")
    commercial_use = serializers.BooleanField(help_text="Whether its license permits commercial use.")
    license = serializers.CharField(allow_null=True, help_text="The license of the model, if it is known.")
    alias_of = serializers.CharField(required=False, help_text="The model that the id currently stands for.")


class PageLinksSerializer(serializers.Serializer[Any]):
    next = serializers.CharField(allow_null=True, help_text="null: there are no pages.")


class ModelListSerializer(serializers.Serializer[Any]):
    object = Constant("list")
    data = ModelSerializer(many=True, help_text="The models, by id, and after them the aliases.")  # type: ignore[assignment]
    total_count = serializers.IntegerField(min_value=0, help_text="How many there are.")
    links = PageLinksSerializer(help_text="Where the next page is.")


_EXACT_DOLLARS = "US dollars, exactly."


class UsageKeySerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the key.")
    name = serializers.CharField(allow_blank=True, help_text="The name of the key.")
    createdAt = serializers.DateTimeField(help_text="When the key was created.")
    expiresAt = serializers.DateTimeField(allow_null=True, help_text="When the key expires. null: never.")


class UsageLimitSerializer(serializers.Serializer[Any]):
    spendingLimit = serializers.IntegerField(min_value=0, help_text="Cents.")
    spendingType = serializers.ChoiceField(
        choices=SpendingType.values, help_text="FIXED: once. RECURRING: again in each period."
    )
    spendingPeriod = serializers.ChoiceField(choices=SpendingPeriod.values, allow_null=True, help_text="null if FIXED.")
    spentInDollars = serializers.CharField(help_text=_EXACT_DOLLARS)
    heldInDollars = serializers.CharField(help_text=f"Held by running requests. {_EXACT_DOLLARS}")
    remainingInCents = serializers.IntegerField(help_text="Rounded down.")
    remainingInDollars = serializers.CharField(help_text=_EXACT_DOLLARS)
    resetsAt = serializers.DateTimeField(allow_null=True, help_text="null if FIXED.")


class UsageRateLimitsSerializer(serializers.Serializer[Any]):
    requestsPerMinute = serializers.IntegerField(
        allow_null=True, min_value=1, help_text="How many requests of the key may begin in a minute."
    )
    tokensPerMinute = serializers.IntegerField(
        allow_null=True, min_value=1, help_text="How many tokens the key may use in a minute."
    )
    requestsInFlight = serializers.IntegerField(min_value=1, help_text="How many requests of the key may run at a time.")
    accountRequestsInFlight = serializers.IntegerField(min_value=1, help_text="The same for all keys of the account together.")


class UsageSumsSerializer(serializers.Serializer[Any]):
    completions = serializers.IntegerField(min_value=0, help_text="How many completions were settled.")
    promptTokens = serializers.IntegerField(min_value=0, help_text="Tokens of their prompts.")
    completionTokens = serializers.IntegerField(min_value=0, help_text="Tokens that they generated.")
    totalTokens = serializers.IntegerField(min_value=0, help_text="Both together.")
    costInDollars = serializers.CharField(help_text=_EXACT_DOLLARS)


class UsageSpansSerializer(serializers.Serializer[Any]):
    today = UsageSumsSerializer(help_text="Since 00:00 UTC.")
    thisMonth = UsageSumsSerializer(help_text="Since the first day of the month, UTC.")
    total = UsageSumsSerializer(help_text="Since the key was created.")


class UsageBalanceSerializer(serializers.Serializer[Any]):
    balanceInCents = serializers.IntegerField(help_text="Rounded down.")
    balanceInDollars = serializers.FloatField(help_text="Rounded down to a whole cent.")
    heldInDollars = serializers.CharField(help_text=f"Held by running requests. {_EXACT_DOLLARS}")
    availableInDollars = serializers.CharField(help_text=f"What a new request may hold. {_EXACT_DOLLARS}")


class KeyUsageSerializer(serializers.Serializer[Any]):
    object = Constant("usage")
    key = UsageKeySerializer(help_text="The key that asks.")
    limit = UsageLimitSerializer(allow_null=True, help_text="null for a key without a spending limit.")
    rateLimits = UsageRateLimitsSerializer(help_text="The limits that apply. null: no limit.")
    usage = UsageSpansSerializer(help_text="Settled completions of this key, by the UTC day of their admission.")
    balance = UsageBalanceSerializer(help_text="The account's.")
