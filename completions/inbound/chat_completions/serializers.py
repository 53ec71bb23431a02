"""Serializers that describe requests and replies for OpenAPI.

Requests are not parsed with these serializers but by ``completions.request.schema``; replies are built as plain objects.
"""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_serializer
from rest_framework import serializers

from billing.models import REGION, REGIONS_MAX
from completions.inbound import request_fields
from completions.models import Completion
from completions.pricing import meters
from completions.request import reasoning, schema, serving
from completions.request.fields import NAME_PATTERN
from completions.request.messages import AUDIO_FORMATS, IMAGE_DETAILS, ROLES
from gateway_project.web.openapi import fields, specification
from gateway_project.web.openapi.fields import Array, Choice, Constant, Count, Flag, Integer, SchemaField, Shape, Text, optional
from keys.spending_limit import SpendingPeriod, SpendingType

CHARGED_TIERS = (*meters.TIERS, "default")  # that a completion or a quote names
_NAME = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}


# --- The request ----------------------------------------------------------------------------------------------------


class ImageUrl(Shape):
    url = Text("A data URL of a base64-encoded image, or an https address.")
    detail = optional(Choice, IMAGE_DETAILS, "How closely the model looks at it.")


InputAudio = fields.shape(
    "InputAudio", data=Text("The audio, in base64."), format=Choice(AUDIO_FORMATS, "The format of the audio.")
)


class AttachedFile(Shape):
    file_data = Text("A data URL, or base64.")
    filename = Text("The name of the file.", required=False)


class CalledFunction(Shape):
    name = SchemaField(_NAME, "The function that the model calls.")
    arguments = Text("A JSON object, as text.")


class CalledCustomTool(Shape):
    name = SchemaField(_NAME, "The custom tool that the model calls.")
    input = Text("What the model gives to it.")


_Call = fields.shape("_Call", id=Text("The id of the call. The message with its result repeats it as tool_call_id."))
_PARTS = [
    fields.variant("ChatCompletionContentPartText", "text", text=Text("The text.")),
    fields.variant("ChatCompletionContentPartImage", "image_url", image_url=ImageUrl(help_text="The image.")),
    fields.variant("ChatCompletionContentPartInputAudio", "input_audio", input_audio=InputAudio(help_text="The audio.")),
    fields.variant("ChatCompletionContentPartFile", "file", file=AttachedFile(help_text="The file.")),
    fields.variant("ChatCompletionContentPartRefusal", "refusal", refusal=Text("What the model said when it refused.")),
]
_TOOL_CALLS = [
    fields.variant(
        "ChatCompletionMessageFunctionToolCall",
        "function",
        _Call,
        function=CalledFunction(help_text="The function and its arguments."),
    ),
    fields.variant(
        "ChatCompletionMessageCustomToolCall", "custom", _Call, custom=CalledCustomTool(help_text="The tool and its input.")
    ),
]


def _tool_calls(**options: Any) -> serializers.ListField:
    return Array(fields.OneOf("ChatCompletionMessageToolCall", _TOOL_CALLS), required=False, **options)


class ReasoningDetail(Shape):
    type = Choice(("reasoning.text", "reasoning.encrypted", "reasoning.summary"), "The kind of detail.")
    text = Text("What the model shows of its thinking.", required=False)
    summary = Text("A summary of it.", required=False)
    signature = optional(Text, "Of a text: what the provider needs back, sealed.")
    data = Text("What the provider needs back and does not show, sealed.", required=False)  # type: ignore[assignment]
    id = optional(Text, "The call of a tool that it belongs to.")
    format = optional(Text, "Whose reasoning it is.")
    index = Integer("Of the detail. In a stream its pieces have the same.", required=False)


class ChatCompletionRequestMessage(Shape):
    role = Choice(ROLES, "Who speaks.")
    content = optional(
        fields.TextOr,
        Array(fields.OneOf("ChatCompletionContentPart", _PARTS)),
        "Text, or an array of parts. Required, except in a message of an assistant that called a tool.",
    )
    name = optional(Text, "The name of who speaks; in a message of a function, its name.")
    tool_calls = _tool_calls(allow_null=True, help_text="The tools that the model called. In a message of an assistant.")
    tool_call_id = optional(Text, "The call that this is the result of. In a message of a tool.")
    refusal = optional(Text, "What the model said when it refused. In a message of an assistant.")
    reasoning_content = optional(Text, "The thinking that a reply had. In a message of an assistant.")
    reasoning = optional(Text, "The same text, in OpenRouter's words.")
    reasoning_details = optional(Array, ReasoningDetail(), "The details of it that a reply had, as they came.")


class FunctionDefinition(Shape):
    name = SchemaField(_NAME, "The name by which the model calls it.")
    description = optional(Text, "What it does, for the model.")
    parameters = optional(fields.AnyObject, "A JSON schema of its arguments.")
    strict = optional(Flag, "Whether the arguments always follow the schema.")


class ChatCompletionTool(Shape):
    type = Choice(("function", "custom"), "The kind of tool.")
    function = FunctionDefinition(required=False, help_text="The function, where the type is function.")
    custom = optional(fields.AnyObject, "The name, description and format of the tool, where the type is custom.")


class JsonSchemaFormat(Shape):
    name = SchemaField(_NAME, "The name of the schema.")
    description = optional(Text, "What the reply is, for the model.")
    schema = optional(fields.AnyObject, "The JSON schema of the reply.")
    strict = optional(Flag, "Whether the reply always follows the schema.")


class ReplyFormat(Shape):
    type = Choice(schema.RESPONSE_FORMATS, "Text, a JSON object, or JSON of a schema.")
    json_schema = optional(JsonSchemaFormat, help_text="The schema, where the type is json_schema.")


class StreamOptions(Shape):
    include_usage = optional(Flag, "Whether a last chunk before [DONE] reports the usage.")
    include_obfuscation = optional(Flag, "Has no effect: obfuscation is never sent.")


class CacheControl(Shape):
    type = Constant("ephemeral")
    ttl = optional(Choice, serving.MARK_TTLS, "How long the cache keeps it: 5m by default.")


class PromptCacheOptions(Shape):
    mode = optional(Choice, serving.CACHE_MODES, "Who chooses what is cached: OpenAI, or you.")
    ttl = optional(Choice, serving.CACHE_TTLS, "How long the cache keeps it, at least.")


ModerationRule = fields.shape(
    "ModerationRule", mode=optional(Choice, serving.MODERATION_MODES, "Whether what is found is blocked.")
)


class ModerationPolicy(Shape):
    input = optional(ModerationRule, help_text="Of the prompt.")
    output = optional(ModerationRule, help_text="Of the reply.")


class Moderation(Shape):
    model = optional(Text, "OpenAI's model that checks.", max_length=serving.MODERATION_MODEL_CHARACTERS_MAX)
    policy = optional(ModerationPolicy, help_text="What becomes of what it finds.")


class Prediction(Shape):
    type = Constant("content")
    content = fields.TextOr(Array(fields.AnyObject()), "What the reply will likely have.")


class WebSearchOptions(Shape):
    search_context_size = optional(Choice, serving.SEARCH_SIZES, "How much of what is found the model reads.")
    user_location = optional(fields.AnyObject, "Where the user is.")


class OpenAIRequest(Shape):
    """The fields that requests of chat completions and of Responses share."""

    model = request_fields.model()
    models = request_fields.models()
    temperature = request_fields.temperature(2)
    top_p = request_fields.top_p()
    tool_choice = request_fields.tool_choice(required=False)
    parallel_tool_calls = optional(Flag, "Whether the model may call several tools at once.")
    user = request_fields.user()
    safety_identifier = request_fields.user("OpenAI's newer name for user.")
    prompt_cache_key = optional(Text, "Helps OpenAI and Mistral to find the prompt in their caches.")
    stream = optional(Flag, "Whether the reply is a stream of events.", default=False)
    cache_control = optional(CacheControl, help_text="Caches the prompt at Anthropic, for five minutes or an hour.")
    service_tier = optional(
        Choice,
        serving.TIERS,
        "flex or priority: where the model has prices for it. fast is priority. The others are the usual service.",
    )
    prompt_cache_options = optional(PromptCacheOptions, help_text="How OpenAI caches the prompt.")
    moderation = optional(Moderation, help_text="What OpenAI is to check, and whether that blocks the reply.")


_STOP = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": schema.STOPS_MAX}]}
_MODALITIES = {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "string", "const": "text"}}
_LOGIT_BIAS = {"type": "object", "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}}
_REGION = {"type": "string", "pattern": f"^{REGION}$"}
_REGIONS = {"oneOf": [_REGION, {"type": "array", "items": _REGION, "minItems": 1, "maxItems": REGIONS_MAX}]}
_PRICE = {"oneOf": [{"type": "number", "minimum": 0, "maximum": schema.PRICE_MAX}, {"type": "string"}]}
_PRICES = {name: {**_PRICE, "description": f"US dollars per million tokens of the {name}."} for name in schema.PRICE_NAMES}
_MAX_PRICE = {"type": "object", "properties": _PRICES, "additionalProperties": False}


class ProviderPreferences(Shape):
    order = optional(Array, Text(), "Tried first, in turn.", max_length=schema.PROVIDERS_MAX)
    only = optional(Array, Text(), "No others are asked.", max_length=schema.PROVIDERS_MAX)
    ignore = optional(Array, Text(), "These are not asked.", max_length=schema.PROVIDERS_MAX)
    sort = optional(Choice, schema.PROVIDER_SORTS, "How the others are ordered, as of the last hour.")
    max_price = optional(SchemaField, _MAX_PRICE, "The maximum price of a model, in US dollars per million tokens.")
    min_quality = optional(fields.Number, "The least quality of the model that an alias stands for.", 0, 100)
    allow_fallbacks = optional(Flag, "false: only those of order are asked, or one provider without an order.")
    require_parameters = optional(Flag, "true: only providers are asked that are sent every field of the request.")
    data_collection = optional(Choice, schema.DATA_COLLECTION, "deny: only routes that promise not to train on the request.")
    zdr = optional(Flag, "true: only routes that promise to keep nothing of the request, nor to train on it.")
    region = optional(SchemaField, _REGIONS, "Only routes that promise to process it there: eu, or codes of countries.")


class ReasoningOptions(Shape):
    effort = optional(Choice, schema.REASONING_EFFORTS, "As reasoning_effort.")
    max_tokens = optional(
        Integer, "Instead of effort: about as many tokens. Less than max_tokens.", 1, reasoning.BUDGET_TOKENS_MAX
    )
    exclude = optional(Flag, "true: the reply shows no reasoning.")
    enabled = optional(Flag, "true: with medium effort, if nothing else is said; false: none.")


class UsageOptions(Shape):
    include = optional(Flag, "true: a stream ends with its usage. Whole replies always have it.")


@extend_schema_serializer(
    description="A null counts as absent. Fields that are not listed are passed on to providers that accept them."
)
class ChatCompletionRequest(OpenAIRequest):
    provider = optional(ProviderPreferences, help_text="Which providers may answer.")
    messages = Array(
        ChatCompletionRequestMessage(),
        "The conversation, from its beginning.",
        min_length=1,
        max_length=settings.REQUEST_MESSAGES_MAX,
    )
    max_tokens = optional(
        Integer, "Maximum tokens to generate for each choice, up to the model's max_output_tokens.", 1, schema.MAX_TOKENS_MAX
    )
    max_completion_tokens = optional(Integer, "Another name for max_tokens. Send one of the two.", 1, schema.MAX_TOKENS_MAX)
    frequency_penalty = optional(
        fields.Number, "Makes tokens less likely the more often they occur already; below 0, more likely.", -2, 2
    )
    presence_penalty = optional(fields.Number, "Makes tokens less likely that occur already; below 0, more likely.", -2, 2)
    n = optional(Integer, "How many replies.", 1, schema.CHOICES_MAX)
    stop = optional(SchemaField, _STOP, "Texts at which the model stops.")
    seed = optional(Integer, "Makes a repetition likely to give the same reply.", schema.SEED_MIN, schema.SEED_MAX)
    logit_bias = optional(SchemaField, _LOGIT_BIAS, "By token: how much likelier, or less likely, it becomes.")
    logprobs = optional(Flag, "Whether the reply has the probabilities of its tokens.")
    top_logprobs = optional(Integer, "How many other tokens it names for each. Only with logprobs.", 0, 20)
    tools = optional(Array, ChatCompletionTool(), "What the model may call.", min_length=1, max_length=schema.TOOLS_MAX)
    functions = optional(
        Array, FunctionDefinition(), "OpenAI's older form of tools.", min_length=1, max_length=schema.TOOLS_MAX
    )
    response_format = optional(ReplyFormat, help_text="The format of the reply.")
    reasoning_effort = optional(Choice, schema.REASONING_EFFORTS, "How much the model thinks.")
    reasoning = optional(ReasoningOptions, help_text="How much to reason, in OpenRouter's words, and whether to show it.")
    verbosity = optional(Choice, schema.VERBOSITIES, "How long the reply is.")
    modalities = optional(SchemaField, _MODALITIES, "Replies are text.")
    prediction = optional(Prediction, help_text="No provider is sent it: no price covers it.")
    web_search_options = optional(WebSearchOptions, help_text="No provider is sent it: no price covers it.")
    metadata = optional(
        SchemaField,
        request_fields.TAGS,
        f"Up to {schema.TAGS_MAX} tags: strings, under names of 1 to {schema.TAG_NAME_CHARACTERS_MAX} characters. "
        "The usage page groups by them.",
    )
    store = optional(Flag, "Has no effect: no prompt and no reply is stored.")
    stream_options = optional(StreamOptions, help_text="Only with stream.")
    usage = optional(UsageOptions, help_text="In OpenRouter's words.")


# --- The reply --------------------------------------------------------------------------------------------------------


_LOGPROBS_HELP = "The probabilities of the tokens, if they were asked for."
_FINISH_REASONS = "stop, length, tool_calls, content_filter, or another of the provider's."


class UrlCitation(Shape):
    url = Text("The address of the page.")
    title = Text("The title of the page.", required=False)
    start_index = Integer("Of the first character of the text that cites it.", required=False)
    end_index = Integer("Of the last one.", required=False)


class ChatCompletionAnnotation(Shape):
    type = Text("url_citation, or another of the provider's.")
    url_citation = UrlCitation(required=False, help_text="The page that the text cites.")


def _annotations() -> Any:
    return optional(Array, ChatCompletionAnnotation(), "What the text cites, as a provider sends it that searched for it.")


class ChatCompletionMessage(Shape):
    role = Text("assistant")
    content = Text("The text. It may be null beside tool calls.", allow_blank=True, allow_null=True)
    refusal = optional(Text, "What the model said instead, if it refused.")
    annotations = _annotations()
    tool_calls = _tool_calls(allow_null=True, help_text="The tools that the model calls.")
    reasoning_content = optional(Text, "The thinking of the model, if its provider returns it.")
    reasoning = optional(Text, "The same text, in OpenRouter's words.")
    reasoning_details = optional(Array, ReasoningDetail(), "Send them back, so that the model goes on with what it thought.")


class ChatCompletionChoice(Shape):
    index = Integer("The number of the choice, from 0.")
    message = ChatCompletionMessage(help_text="What the model says.")
    logprobs = optional(fields.AnyObject, _LOGPROBS_HELP)
    finish_reason = Text(_FINISH_REASONS)


class PromptTokensDetails(Shape):
    cached_tokens = Count("Tokens that were read from a cache.")
    cache_write_tokens = Count("Tokens that were written to a cache.")


CompletionTokensDetails = fields.shape("CompletionTokensDetails", reasoning_tokens=Count("Tokens of the model's thinking."))

_EXACT_NUMBER = {"type": "number", "format": "decimal"}
_EXACT_DOLLARS_NUMBER = {**_EXACT_NUMBER, "minimum": 0}


class CompletionUsage(Shape):
    prompt_tokens = Count("Tokens of the prompt.")
    completion_tokens = Count("Tokens that were generated, thinking included.")
    total_tokens = Count("Both together.")
    prompt_tokens_details = PromptTokensDetails(help_text="How many of the prompt's tokens a cache had to do with.")
    completion_tokens_details = CompletionTokensDetails(help_text="How many of the generated tokens were thinking.")
    cost = SchemaField(_EXACT_DOLLARS_NUMBER, "What was charged, in US dollars, exactly. null: not known yet.", allow_null=True)


class ChatCompletion(Shape):
    id = Text("The ledger entry of the completion has the same id.")
    object = Constant("chat.completion")
    created = Integer("Unix time in seconds.")
    model = Text("The model that answered.")
    provider = Text("The provider that answered, in OpenRouter's place. x-gateway-provider, too.")
    system_fingerprint = Text("null", allow_null=True)
    choices = ChatCompletionChoice(many=True, help_text="The replies: as many as n asked for.")
    usage = CompletionUsage(help_text="The tokens that are charged.")


class CalledFunctionDelta(Shape):
    name = optional(Text, "The function, in the first delta of the call.")
    arguments = optional(Text, "More of the arguments.")


class CalledCustomToolDelta(Shape):
    name = optional(Text, "The tool, in the first delta of the call.")
    input = optional(Text, "More of the input.")


class ChatCompletionChunkToolCall(Shape):
    index = Integer("The number of the call, from 0.")
    id = optional(Text, "The id of the call, in its first delta.")
    type = optional(Text, "function or custom, in the first delta of the call.")
    function = CalledFunctionDelta(required=False, help_text="More of a call of a function.")
    custom = CalledCustomToolDelta(required=False, help_text="More of a call of a custom tool.")


class ChatCompletionChunkDelta(Shape):
    role = optional(Text, "assistant")
    content = optional(Text, "More text.")
    refusal = optional(Text, "More of what the model says instead, if it refuses.")
    annotations = _annotations()
    tool_calls = optional(Array, ChatCompletionChunkToolCall(), "More of the tools that the model calls.")
    reasoning_content = optional(Text, "More of the model's thinking.")
    reasoning = optional(Text, "The same text, in OpenRouter's words.")
    reasoning_details = optional(Array, ReasoningDetail(), "The details of it. Those of the same index belong together.")


class ChatCompletionChunkChoice(Shape):
    index = Integer("The number of the choice, from 0.")
    delta = ChatCompletionChunkDelta(help_text="What follows what was sent before.")
    logprobs = optional(fields.AnyObject, _LOGPROBS_HELP)
    finish_reason = optional(Text, f"{_FINISH_REASONS} null before the end.")


class ChatCompletionChunk(Shape):
    id = Text("The same in every chunk. The ledger entry of the completion has the same id.")
    object = Constant("chat.completion.chunk")
    created = Integer("Unix time in seconds.")
    model = Text("The model that answers.")
    provider = Text("The provider that answers.")
    choices = ChatCompletionChunkChoice(many=True, help_text="What follows. Empty in the chunk with the usage.")
    usage = optional(
        CompletionUsage,
        help_text="The tokens that are charged: in the last chunk, if it was asked for. Before, it is null for include_usage.",
    )


CHAT_COMPLETION_STREAM_EVENT = PolymorphicProxySerializer(
    component_name="ChatCompletionStreamEvent",
    serializers=[ChatCompletionChunk, specification.ErrorResponse],
    resource_type_field_name=None,
)


# --- What happened, and what would ------------------------------------------------------------------------------------


class FailedAttempt(Shape):
    provider = Text("The provider that was asked.")
    status = Integer("What it replied with. null: it did not reply.", allow_null=True)


class ChargedPromptTokensDetails(PromptTokensDetails):
    cache_write_1h_tokens = Count("Of these, those that it keeps for an hour.")


class CostDetails(Shape):
    upstream_inference_cost = SchemaField(
        _EXACT_DOLLARS_NUMBER, "The provider's price of an own key: the model's price here. null: ours served.", allow_null=True
    )


class ChargedUsage(Shape):
    prompt_tokens = Count("Tokens of the prompt.")
    completion_tokens = Count("Tokens that were generated.")
    total_tokens = Count("Both together.")
    prompt_tokens_details = ChargedPromptTokensDetails(help_text="How many of the prompt's tokens a cache had to do with.")
    web_searches = Count("Searches of the web by the provider.")
    cost = SchemaField(_EXACT_DOLLARS_NUMBER, "What was charged, in US dollars, exactly.")
    cost_details = CostDetails(help_text="The part of the provider, where an own key served.")


class CompletionTimings(Shape):
    started_at = fields.Moment("When it was admitted.")
    ended_at = fields.Moment("When it was settled. null: it runs.", allow_null=True)
    total_ms = Count("From one to the other.", allow_null=True)
    first_token_ms = Count("Of a stream: from asking the provider that answered to the first text.", allow_null=True)
    streamed_ms = Count("From the first text to the last.", allow_null=True)


@extend_schema_serializer(component_name="Completion")
class PastCompletion(Shape):
    id = Text("The id that its reply has.")
    object = Constant("completion")
    created = Integer("Unix time in seconds.")
    request_id = Text("The x-request-id of its reply.", allow_null=True)
    user = Text("As its request said: user, or else safety_identifier.", allow_null=True)
    metadata = SchemaField(request_fields.TAGS, "As its request said.")
    key = Text("The id of the key that sent it.")
    model = Text("The model that answered; while it runs, perhaps the one that was asked for.")
    provider = Text("The provider that answered, or was asked last.")
    stream = Flag("Whether its reply was a stream.")
    attempts = Count("How many times a provider was asked.", allow_null=True)
    own_key = Flag("Whether the account's own key was asked last: then the cost is the fee.")
    failed_attempts = FailedAttempt(many=True, help_text="The attempts that failed, in order.")
    data_demanded = fields.AnyObject("The demands about data, by who made them. null: none.", allow_null=True)
    data_promised = fields.AnyObject("What the route that served promises. null: nothing was demanded.", allow_null=True)
    service_tier = Choice(CHARGED_TIERS, "The tier whose prices were charged.")
    settlement = Choice(
        Completion.Settlement.choices, "How its charge was found. null: it is not settled yet.", allow_null=True
    )
    usage = ChargedUsage(allow_null=True, help_text="What was charged. null: it is not settled yet.")
    max_cost = SchemaField(_EXACT_DOLLARS_NUMBER, "What was held: the most that it could cost, in US dollars.")
    repeats = Text("The run before it under its Idempotency-Key, whose process died, or what it corrects.", allow_null=True)
    charged_before = SchemaField(_EXACT_DOLLARS_NUMBER, "What such runs were charged, and usage.cost is without.")
    timings = CompletionTimings(help_text="When it ran, and how long.")


_UNIT_PRICE = "US dollars per token, exactly."


class QuotedRoute(Shape):
    model = Text("The model that would answer.")
    provider = Text("The provider that would be asked.")
    priority = Count("The lowest is tried first.")
    weight = Integer("The share of the requests among routes of the same priority.", min_value=1)
    max_tokens = Integer("What its provider would be told, for each choice.", min_value=1)
    max_cost = SchemaField(_EXACT_DOLLARS_NUMBER, "The maximum cost of its answer, in US dollars, exactly.")


class QuotedRates(Shape):
    prompt = Text(_UNIT_PRICE)
    completion = Text(_UNIT_PRICE)


class LikelyCost(QuotedRates):
    service_tier = Choice(CHARGED_TIERS, "The tier that is asked for.")
    prompt_tokens = Count("The tokens that its prompt is likely to have.")
    above = Count("The threshold of the prices of long prompts. 0: of short ones.")
    cost = SchemaField(
        _EXACT_DOLLARS_NUMBER, "What this and max_tokens cost, in US dollars. null: as max_tokens.", allow_null=True
    )


QuoteRefusal = fields.shape("QuoteRefusal", specification.ErrorDetails, status=Integer("402 or 429"))


class Quote(Shape):
    object = Constant("quote")
    model = Text("The model that would answer; of an alias, the one that it stands for now.")
    prompt_tokens_max = Count("Maximum tokens of its prompt.")
    max_tokens = Integer("What the hold pays for. null: refused, and the request names none.", min_value=1, allow_null=True)
    max_cost = SchemaField(_EXACT_DOLLARS_NUMBER, "What would be held, in US dollars. null: as of max_tokens.", allow_null=True)
    rates = QuotedRates(help_text="The highest prices that may be charged: the hold is at these.")
    likely = LikelyCost(
        allow_null=True, help_text="At which prices it is likely to be charged. null: the model has one price for all."
    )
    available = SchemaField(_EXACT_NUMBER, "What the account and the key's spending limit leave, in US dollars.")
    affordable_max_tokens = Count("The largest max_tokens that this pays for.")
    refusal = QuoteRefusal(allow_null=True, help_text="The error that the request would get. null: none.")
    routes = QuotedRoute(many=True, help_text="In the order of their priority, then those of fallback models.")


_EXACT_DOLLARS = "US dollars, exactly."


class UsageKey(Shape):
    id = Text("The id of the key.")
    name = Text("The name of the key.", allow_blank=True)
    createdAt = fields.Moment("When the key was created.")
    expiresAt = fields.Moment("When the key expires. null: never.", allow_null=True)


class UsageLimit(Shape):
    spendingLimit = Count("Cents.")
    spendingType = Choice(SpendingType.values, "FIXED: once. RECURRING: again in each period.")
    spendingPeriod = Choice(SpendingPeriod.values, "null if FIXED.", allow_null=True)
    spentInDollars = Text(_EXACT_DOLLARS)
    heldInDollars = Text(f"Held by running requests. {_EXACT_DOLLARS}")
    remainingInCents = Integer("Rounded down.")
    remainingInDollars = Text(_EXACT_DOLLARS)
    resetsAt = fields.Moment("null if FIXED.", allow_null=True)


class UsageRateLimits(Shape):
    requestsPerMinute = Integer("How many requests of the key may begin in a minute.", allow_null=True, min_value=1)
    tokensPerMinute = Integer("How many tokens the key may use in a minute.", allow_null=True, min_value=1)
    requestsInFlight = Integer("How many requests of the key may run at a time.", min_value=1)
    accountRequestsInFlight = Integer("The same for all keys of the account together.", min_value=1)


class UsageSums(Shape):
    completions = Count("How many completions were settled.")
    promptTokens = Count("Tokens of their prompts.")
    completionTokens = Count("Tokens that they generated.")
    totalTokens = Count("Both together.")
    costInDollars = Text(_EXACT_DOLLARS)


class UsageSpans(Shape):
    today = UsageSums(help_text="Since 00:00 UTC.")
    thisMonth = UsageSums(help_text="Since the first day of the month, UTC.")
    total = UsageSums(help_text="Since the key was created.")


class UsageBalance(Shape):
    balanceInCents = Integer("Rounded down.")
    balanceInDollars = fields.Number("Rounded down to a whole cent.")
    heldInDollars = Text(f"Held by running requests. {_EXACT_DOLLARS}")
    availableInDollars = Text(f"What a new request may hold. {_EXACT_DOLLARS}")


class KeyUsage(Shape):
    object = Constant("usage")
    key = UsageKey(help_text="The key that asks.")
    limit = UsageLimit(allow_null=True, help_text="null for a key without a spending limit.")
    rateLimits = UsageRateLimits(help_text="The limits that apply. null: no limit.")
    usage = UsageSpans(help_text="Settled completions of this key, by the UTC day of their admission.")
    balance = UsageBalance(help_text="The account's.")
