"""Serializers that describe OpenAI's Responses for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.inbound.chat_completions.serializers import TAGS, ServingSerializer
from completions.inbound.responses import items, request, tools
from completions.request import schema
from gateway_project.web.openapi.fields import Constant, OneOf, SchemaField, TextOr, optional

_OBJECT = {"type": "object", "additionalProperties": True}
_TOOL_CHOICE = {"oneOf": [{"type": "string", "enum": list(schema.TOOL_CHOICES)}, _OBJECT]}
_INCLUDE = {"type": "string", "enum": list(request.INCLUDED)}
_LONG = f"null if it is longer than {request.REPEATED_BYTES_MAX} bytes."
_STATUS = "in_progress, completed or incomplete."


# --- What requests and replies share ----------------------------------------------------------------------------------


class ModelResponseToolSerializer(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=tools.TYPES, help_text="The kind of tool.")
    name = serializers.CharField(required=False, help_text="The name by which the model calls it.")
    description = serializers.CharField(required=False, help_text="What it does, for the model.")
    parameters = optional(SchemaField, _OBJECT, help_text="Of a function: a JSON schema of its arguments.")
    strict = optional(serializers.BooleanField, help_text="Of a function: whether the arguments always follow the schema.")
    format = SchemaField(_OBJECT, required=False, help_text="Of a custom tool: text, or a grammar.")
    tools = serializers.ListField(
        child=SchemaField(_OBJECT), required=False, help_text="Of a namespace: functions and custom tools."
    )


class ModelResponseReasoningSerializer(serializers.Serializer[Any]):
    effort = optional(serializers.ChoiceField, choices=schema.REASONING_EFFORTS, help_text="How much the model thinks.")
    summary = optional(serializers.ChoiceField, choices=request.SUMMARIES, help_text="How much of it the reply shows.")


class ModelResponseTextFormatSerializer(serializers.Serializer[Any]):
    type = serializers.ChoiceField(choices=request.FORMATS, help_text="Text, a JSON object, or JSON of a schema.")
    name = serializers.CharField(required=False, help_text="The name of the schema.")
    schema = SchemaField(_OBJECT, required=False, help_text="The JSON schema of the reply.")
    description = serializers.CharField(required=False, help_text="What the reply is, for the model.")
    strict = optional(serializers.BooleanField, help_text="Whether the reply always follows the schema.")


class ModelResponseTextSerializer(serializers.Serializer[Any]):
    format = ModelResponseTextFormatSerializer(required=False, allow_null=True, help_text="The format of the reply.")
    verbosity = optional(serializers.ChoiceField, choices=schema.VERBOSITIES, help_text="How long the reply is.")


# --- The request ------------------------------------------------------------------------------------------------------


class ModelResponseInputItemSerializer(serializers.Serializer[Any]):
    type = serializers.ChoiceField(
        choices=items.ITEM_TYPES, required=False, help_text="What it is. An item with a role is a message without it, too."
    )
    role = serializers.ChoiceField(choices=items.ROLES, required=False, help_text="Who speaks, in a message.")
    content = TextOr(
        serializers.ListField(child=SchemaField(_OBJECT)), required=False, help_text="Of a message: text, or parts."
    )


class ContextManagementSerializer(serializers.Serializer[Any]):
    type = Constant("compaction")
    compact_threshold = optional(
        serializers.IntegerField, min_value=1, max_value=schema.MAX_TOKENS_MAX, help_text="From how many tokens on."
    )


@extend_schema_serializer(description="A null counts as absent. A field that is not listed is refused.")
class ModelResponseRequestSerializer(ServingSerializer):
    model = serializers.CharField(
        min_length=1, max_length=schema.MODEL_CHARACTERS_MAX, help_text="An id of GET /v1/models that is available."
    )
    input = TextOr(
        serializers.ListField(child=ModelResponseInputItemSerializer()),
        help_text="Text of the user, or the items of the whole conversation.",
    )
    instructions = optional(serializers.CharField, help_text="Come before the input.")
    max_output_tokens = optional(
        serializers.IntegerField, min_value=1, max_value=schema.MAX_TOKENS_MAX, help_text="Maximum tokens to generate."
    )
    models = optional(
        serializers.ListField,
        child=serializers.CharField(min_length=1, max_length=schema.MODEL_CHARACTERS_MAX),
        max_length=schema.FALLBACKS_MAX,
        help_text="Models to try in turn when the first cannot serve the request.",
    )
    provider = optional(SchemaField, _OBJECT, help_text="Which providers may answer: order, only and ignore.")
    tools = optional(
        serializers.ListField,
        child=ModelResponseToolSerializer(),
        max_length=schema.TOOLS_MAX,
        help_text="What the model may call.",
    )
    tool_choice = optional(SchemaField, _TOOL_CHOICE, help_text="none, auto, required, or an object that names a tool.")
    parallel_tool_calls = optional(serializers.BooleanField, help_text="Whether the model may call several tools at once.")
    reasoning = ModelResponseReasoningSerializer(
        required=False, allow_null=True, help_text="How much the model thinks, and how much of it the reply shows."
    )
    max_tool_calls = optional(
        serializers.IntegerField,
        min_value=1,
        max_value=request.SEARCHES_MAX,
        help_text="Maximum calls of tools that run at OpenAI. Required with web_search.",
    )
    text = ModelResponseTextSerializer(
        required=False, allow_null=True, help_text="The format of the reply, and how long it is to be."
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
    top_logprobs = optional(
        serializers.IntegerField,
        min_value=0,
        max_value=request.TOP_LOGPROBS_MAX,
        help_text="How many other tokens the reply names for each of its own, with their probabilities.",
    )
    include = optional(
        serializers.ListField, child=SchemaField(_INCLUDE), help_text="What else the reply has, such as probabilities."
    )
    metadata = optional(SchemaField, TAGS, help_text="Tags of your own. The usage page groups by them.")
    client_metadata = optional(SchemaField, _OBJECT, help_text="Codex's, about itself. No provider is sent it.")
    user = optional(
        serializers.CharField,
        max_length=schema.LABEL_CHARACTERS_MAX,
        help_text="Your own id of who asks. The usage page groups by it.",
    )
    safety_identifier = optional(
        serializers.CharField, max_length=schema.LABEL_CHARACTERS_MAX, help_text="OpenAI's newer name for user."
    )
    prompt_cache_key = optional(serializers.CharField, help_text="Helps OpenAI and Mistral to find the prompt in their caches.")
    prompt_cache_retention = optional(
        serializers.ChoiceField, choices=request.CACHE_RETENTIONS, help_text="How long OpenAI keeps the prompt in its cache."
    )
    truncation = optional(
        SchemaField, {"type": "string", "const": "disabled"}, help_text="Nothing is taken out of a conversation."
    )
    previous_response_id = optional(
        serializers.CharField, help_text="The id of a stored response: its whole conversation comes before the input."
    )
    store = optional(
        serializers.BooleanField, default=True, help_text="Whether later requests can continue from the response, and read it."
    )
    background = optional(serializers.BooleanField, help_text="Whether to answer at once, and to continue in the background.")
    context_management = optional(
        serializers.ListField,
        child=ContextManagementSerializer(),
        help_text="When to compact. The gateway does not by itself: it names the field in x-gateway-ignored-fields.",
    )
    stream = serializers.BooleanField(
        required=False, allow_null=True, default=False, help_text="Whether the reply is a stream of events."
    )
    stream_options = optional(SchemaField, _OBJECT, help_text="include_obfuscation, which has no effect.")


# --- Items of the output ----------------------------------------------------------------------------------------------


class OutputAnnotationSerializer(serializers.Serializer[Any]):
    type = Constant("url_citation")
    url = serializers.CharField(help_text="The address of the page.")
    title = serializers.CharField(help_text="The title of the page.")
    start_index = serializers.IntegerField(help_text="Of the first character of the text that cites it.")
    end_index = serializers.IntegerField(help_text="Of the last one.")


class OutputTextSerializer(serializers.Serializer[Any]):
    type = Constant("output_text")
    text = serializers.CharField(help_text="What the model says.")
    annotations = serializers.ListField(
        child=OutputAnnotationSerializer(), help_text="What the text cites after a search of the web, as OpenAI sends it."
    )
    logprobs = serializers.ListField(
        child=SchemaField(_OBJECT), help_text="The probabilities of the tokens, if they were asked for."
    )


class OutputRefusalSerializer(serializers.Serializer[Any]):
    type = Constant("refusal")
    refusal = serializers.CharField(help_text="What the model says instead, because it refuses.")


class ReasoningSummaryTextSerializer(serializers.Serializer[Any]):
    type = Constant("summary_text")
    text = serializers.CharField(help_text="What the model shows of its thinking.")


def output_content(**options: Any) -> OneOf:
    """Return a field of a part of a message."""
    parts = [OutputTextSerializer, OutputRefusalSerializer]
    return OneOf("OutputContent", parts, **options)


class OutputMessageSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the item.")
    type = Constant("message")
    status = serializers.CharField(help_text=_STATUS)
    role = Constant("assistant")
    content = serializers.ListField(child=output_content(), help_text="What the model says.")


class ReasoningItemSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the item.")
    type = Constant("reasoning")
    summary = serializers.ListField(child=ReasoningSummaryTextSerializer(), help_text="What the model shows of its thinking.")
    encrypted_content = optional(
        serializers.CharField, help_text="Where it is included: what the provider needs back, sealed. null: nothing."
    )


class _CallSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the item.")
    status = serializers.CharField(help_text=_STATUS)
    call_id = serializers.CharField(help_text="The id of the call. Its output repeats it.")


class FunctionToolCallSerializer(_CallSerializer):
    type = Constant("function_call")
    name = serializers.CharField(help_text="The function that the model calls.")
    namespace = serializers.CharField(required=False, help_text="The namespace that it is in, if it is in one.")
    arguments = serializers.CharField(help_text="A JSON object, as text.")


class CustomToolCallSerializer(_CallSerializer):
    type = Constant("custom_tool_call")
    name = serializers.CharField(help_text="The custom tool that the model calls.")
    namespace = serializers.CharField(required=False, help_text="The namespace that it is in, if it is in one.")
    input = serializers.CharField(help_text="What the model gives to it.")


class LocalShellToolCallSerializer(_CallSerializer):
    type = Constant("local_shell_call")
    action = SchemaField(_OBJECT, help_text="The command, as OpenAI's API has it.")


class ShellToolCallSerializer(_CallSerializer):
    type = Constant("shell_call")
    action = SchemaField(_OBJECT, help_text="The commands, as OpenAI's API has them.")


class ApplyPatchToolCallSerializer(_CallSerializer):
    type = Constant("apply_patch_call")
    operation = SchemaField(_OBJECT, help_text="The change of a file, as OpenAI's API has it.")


class ComputerToolCallSerializer(_CallSerializer):
    type = Constant("computer_call")
    actions = serializers.ListField(child=SchemaField(_OBJECT), help_text="What to do in turn, as OpenAI's API has it.")
    pending_safety_checks = serializers.ListField(child=SchemaField(_OBJECT), help_text="Always empty.")


class ToolSearchCallSerializer(_CallSerializer):
    type = Constant("tool_search_call")
    arguments = SchemaField(_OBJECT, help_text="What the model searches for.")
    execution = Constant("client")


class WebSearchCallSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the item.")
    type = Constant("web_search_call")
    status = serializers.CharField(help_text=_STATUS)
    action = SchemaField(_OBJECT, help_text="What was searched for or opened, as OpenAI's API has it.")


class CompactionItemSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the item.")
    type = Constant("compaction")
    encrypted_content = serializers.CharField(help_text="The summary, sealed. Send the item back in its place.")


def output_item(**options: Any) -> OneOf:
    """Return a field of an item."""
    of_types = [
        OutputMessageSerializer,
        ReasoningItemSerializer,
        FunctionToolCallSerializer,
        CustomToolCallSerializer,
        LocalShellToolCallSerializer,
        ShellToolCallSerializer,
        ApplyPatchToolCallSerializer,
        ComputerToolCallSerializer,
        ToolSearchCallSerializer,
        WebSearchCallSerializer,
        CompactionItemSerializer,
    ]
    return OneOf("OutputItem", of_types, **options)


# --- The reply --------------------------------------------------------------------------------------------------------


class InputTokensDetailsSerializer(serializers.Serializer[Any]):
    cached_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were read from a cache.")
    cache_write_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were written to a cache.")


class ReasoningTokensDetailsSerializer(serializers.Serializer[Any]):
    reasoning_tokens = serializers.IntegerField(min_value=0, help_text="Tokens of the model's thinking.")


class ModelResponseUsageSerializer(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField(min_value=0, help_text="Tokens of the input.")
    input_tokens_details = InputTokensDetailsSerializer(help_text="How many of them a cache had to do with.")
    output_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were generated, thinking included.")
    output_tokens_details = ReasoningTokensDetailsSerializer(help_text="How many of them were thinking.")
    total_tokens = serializers.IntegerField(min_value=0, help_text="Both together.")
    cost = SchemaField(
        {"type": "number", "minimum": 0}, allow_null=True, help_text="In US dollars, exactly. null: not known yet."
    )


class IncompleteDetailsSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(help_text="max_output_tokens or content_filter.")


class ModelResponseErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="For programs: server_error, or what the request was refused for.")
    message = serializers.CharField(help_text="For people; the words may change.")


class ModelResponseSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The ledger entry of the completion has the same id.")
    object = Constant("response")
    created_at = serializers.IntegerField(help_text="Unix time in seconds.")
    status = serializers.CharField(
        help_text="completed, incomplete, failed or in_progress; in the background also queued or cancelled."
    )
    model = serializers.CharField(help_text="The model that answered.")
    output = serializers.ListField(child=output_item(), help_text="What the model says, thinks and calls.")
    incomplete_details = IncompleteDetailsSerializer(allow_null=True, help_text="Why it is incomplete.")
    error = ModelResponseErrorSerializer(allow_null=True, help_text="Why a stream failed.")
    completed_at = serializers.IntegerField(allow_null=True, help_text="Always null.")
    usage = ModelResponseUsageSerializer(allow_null=True, help_text="The tokens that are charged. null before the end.")
    # What it repeats of the request.
    background = serializers.BooleanField(help_text="Whether it runs in the background.")
    instructions = serializers.CharField(allow_null=True, help_text=f"As the request said. {_LONG}")
    max_output_tokens = serializers.IntegerField(allow_null=True, help_text="As the request said.")
    max_tool_calls = serializers.IntegerField(allow_null=True, help_text="As the request said.")
    metadata = SchemaField(TAGS, allow_null=True, help_text=f"As the request said. {_LONG}")
    parallel_tool_calls = serializers.BooleanField(help_text="As the request said; true by default.")
    previous_response_id = serializers.CharField(allow_null=True, help_text="As the request said.")
    prompt_cache_key = serializers.CharField(allow_null=True, help_text=f"As the request said. {_LONG}")
    reasoning = ModelResponseReasoningSerializer(help_text="As the request said.")
    safety_identifier = serializers.CharField(allow_null=True, help_text="As the request said.")
    service_tier = serializers.CharField(help_text="The tier that was charged, or default; until it ends, the one asked for.")
    store = serializers.BooleanField(help_text="Whether it is stored.")
    frequency_penalty = serializers.FloatField(allow_null=True, help_text="Always null.")
    presence_penalty = serializers.FloatField(allow_null=True, help_text="Always null.")
    temperature = serializers.FloatField(allow_null=True, help_text="As the request said.")
    text = ModelResponseTextSerializer(allow_null=True, help_text=f"As the request said; text by default. {_LONG}")
    tool_choice = SchemaField(_TOOL_CHOICE, allow_null=True, help_text=f"As the request said; auto by default. {_LONG}")
    tools = serializers.ListField(
        child=ModelResponseToolSerializer(), allow_null=True, help_text=f"As the request said. {_LONG}"
    )
    top_logprobs = serializers.IntegerField(help_text="As the request said; 0 by default.")
    top_p = serializers.FloatField(allow_null=True, help_text="As the request said.")
    truncation = serializers.CharField(help_text="Always disabled: nothing is taken out of a conversation.")
    user = serializers.CharField(allow_null=True, help_text="As the request said.")


class CompactedResponseSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The ledger entry of the completion has the same id.")
    object = Constant("response.compaction")
    created_at = serializers.IntegerField(help_text="Unix time in seconds.")
    model = serializers.CharField(help_text="The model that wrote the summary.")
    output = serializers.ListField(child=SchemaField(_OBJECT), help_text="The messages of the user, and a compaction item.")
    incomplete_details = IncompleteDetailsSerializer(allow_null=True, help_text="Why the summary is incomplete.")
    usage = ModelResponseUsageSerializer(help_text="The tokens that are charged.")


# --- Stored responses -------------------------------------------------------------------------------------------------


class DeletedResponseSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The id of the response.")
    object = Constant("response.deleted")
    deleted = serializers.BooleanField(help_text="Always true.")


class ResponseItemListSerializer(serializers.Serializer[Any]):
    object = Constant("list")
    data = serializers.ListField(  # type: ignore[assignment]
        child=SchemaField(_OBJECT), help_text="Items, each with an id."
    )
    first_id = serializers.CharField(allow_null=True, help_text="The id of the first of them.")
    last_id = serializers.CharField(allow_null=True, help_text="The id of the last of them.")
    has_more = serializers.BooleanField(help_text="Whether there are more after the last.")


class InputTokensCountSerializer(serializers.Serializer[Any]):
    object = Constant("response.input_tokens")
    input_tokens = serializers.IntegerField(min_value=0, help_text="The likely tokens of the input.")
