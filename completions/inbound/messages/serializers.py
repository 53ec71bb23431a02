"""Serializers that describe Anthropic's Messages for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.inbound.messages import content as message_content
from completions.inbound.messages import request, tools
from completions.request import reasoning, schema
from gateway_project.web.openapi.fields import Constant, OneOf, SchemaField, TextOr, one_of, optional

DISPLAYS = ("summarized", "omitted")
_OBJECT = {"type": "object", "additionalProperties": True}
_BLOCK = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string", "description": "What it is: text, image, tool_result, tool_use ..."}},
    "additionalProperties": True,
}
_STOP_REASONS = "end_turn, max_tokens, stop_sequence, tool_use, refusal, or another of Anthropic's."
_STOP_SEQUENCE = "The text at which the model stopped, if its provider tells."
_INDEX = "The number of the block, from 0."


def _blocks(**options: Any) -> TextOr:
    return TextOr(serializers.ListField(child=SchemaField(_BLOCK)), **options)


# --- Requests ---------------------------------------------------------------------------------------------------------


class MessageParamSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=message_content.ROLES, help_text="Who speaks.")
    content = _blocks(help_text="Text, or blocks.")


class MessageToolSerializer(serializers.Serializer[Any]):
    type = serializers.CharField(
        required=False,
        help_text="custom, web_search_20250305, or a tool of Anthropic's own that runs at the caller, such as bash_20250124.",
    )
    name = serializers.CharField(help_text="The name by which the model calls it.")
    description = serializers.CharField(required=False, help_text="What it does, for the model.")
    input_schema = SchemaField(_OBJECT, required=False, help_text="A JSON schema of its input. Anthropic's own have none.")
    input_examples = serializers.ListField(
        required=False, child=SchemaField(_OBJECT), help_text="Examples of its input, for Claude."
    )
    max_uses = serializers.IntegerField(
        required=False, min_value=1, max_value=tools.SEARCHES_MAX, help_text="Maximum searches of the web. Required with it."
    )
    defer_loading = serializers.BooleanField(required=False, help_text="Whether Claude is told of it only when it is found.")


class MessageThinkingSerializer(serializers.Serializer[Any]):
    type = serializers.ChoiceField(
        choices=request.THINKING_TYPES,
        help_text="Whether the model thinks; adaptive: as it sees fit; between_tools: not before its reply.",
    )
    budget_tokens = serializers.IntegerField(
        required=False,
        min_value=reasoning.THINKING_TOKENS_MIN,
        help_text="Maximum tokens of thinking, less than max_tokens. Where the type is enabled.",
    )
    display = serializers.ChoiceField(choices=DISPLAYS, required=False, help_text="Whether the reply shows the thinking.")


class MessageOutputConfigSerializer(serializers.Serializer[Any]):
    effort = serializers.ChoiceField(choices=request.EFFORTS, required=False, help_text="How much the model thinks.")
    format = SchemaField(_OBJECT, required=False, help_text="The format of the reply: json_schema, with a schema.")


class MessageTokensCountRequestSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(
        min_length=1, max_length=schema.MODEL_CHARACTERS_MAX, help_text="An id of GET /v1/models that is available."
    )
    messages = serializers.ListField(
        child=MessageParamSerializer(),
        min_length=1,
        max_length=settings.REQUEST_MESSAGES_MAX,
        help_text="The conversation, from its beginning.",
    )
    system = _blocks(required=False, allow_null=True, help_text="What the model is told first: text, or blocks of text.")
    tools = optional(
        serializers.ListField,
        child=MessageToolSerializer(),
        max_length=schema.TOOLS_MAX,
        help_text="What the model may call.",
    )
    tool_choice = optional(SchemaField, _OBJECT, help_text="auto, any, none, or a tool by its name.")
    thinking = MessageThinkingSerializer(required=False, allow_null=True, help_text="Whether the model thinks first.")
    output_config = MessageOutputConfigSerializer(
        required=False, allow_null=True, help_text="How much the model thinks, and the format of its reply."
    )
    cache_control = optional(SchemaField, _OBJECT, help_text="Caches the prompt, for five minutes or an hour.")


@extend_schema_serializer(description="A null counts as absent. A field that is not listed is refused.")
class MessageRequestSerializer(MessageTokensCountRequestSerializer):
    max_tokens = serializers.IntegerField(
        min_value=1,
        max_value=schema.MAX_TOKENS_MAX,
        help_text="Maximum tokens to generate. A model that generates fewer is asked for its maximum.",
    )
    models = optional(
        serializers.ListField,
        child=serializers.CharField(min_length=1, max_length=schema.MODEL_CHARACTERS_MAX),
        max_length=schema.FALLBACKS_MAX,
        help_text="Models to try in turn when the first cannot serve the request.",
    )
    provider = optional(SchemaField, _OBJECT, help_text="Which providers may answer: order, only and ignore.")
    stop_sequences = optional(
        serializers.ListField,
        child=serializers.CharField(),
        max_length=schema.STOPS_MAX,
        help_text="Texts at which the model stops.",
    )
    temperature = optional(
        serializers.FloatField, min_value=0, max_value=1, help_text="How much chance decides: the higher, the more varied."
    )
    top_p = optional(
        serializers.FloatField,
        min_value=0,
        max_value=1,
        help_text="The model chooses among the likeliest tokens that together have this probability.",
    )
    top_k = optional(
        serializers.IntegerField,
        min_value=1,
        max_value=request.TOP_K_MAX,
        help_text="The model chooses among so many of the likeliest tokens.",
    )
    context_management = optional(SchemaField, _OBJECT, help_text="May only ask to keep the whole conversation.")
    metadata = optional(SchemaField, _OBJECT, help_text="user_id, a string: your own id of who asks.")
    service_tier = optional(
        serializers.ChoiceField, choices=("auto", "standard_only"), help_text="standard_only: no other tier."
    )
    stream = serializers.BooleanField(
        required=False, allow_null=True, default=False, help_text="Whether the reply is a stream of events."
    )


# --- Replies ----------------------------------------------------------------------------------------------------------


class TextBlockSerializer(serializers.Serializer[Any]):
    type = Constant("text")
    text = serializers.CharField(help_text="What the model says.")
    citations = optional(serializers.ListField, child=SchemaField(_OBJECT), help_text="What it cites, as Anthropic sends it.")


class ThinkingBlockSerializer(serializers.Serializer[Any]):
    type = Constant("thinking")
    thinking = serializers.CharField(help_text="What the model shows of its thinking.")
    signature = serializers.CharField(help_text="Anthropic's mark of its own models' thinking. Empty for other models.")


class RedactedThinkingBlockSerializer(serializers.Serializer[Any]):
    type = Constant("redacted_thinking")
    data = serializers.CharField(help_text="Thinking that only Anthropic can read.")  # type: ignore[assignment]


class ToolUseBlockSerializer(serializers.Serializer[Any]):
    type = Constant("tool_use")
    id = serializers.CharField(help_text="The id of the call. Its result repeats it as tool_use_id.")
    name = serializers.CharField(help_text="The tool that the model calls.")
    input = SchemaField(_OBJECT, help_text="What the model gives to it.")


class ServerToolUseBlockSerializer(serializers.Serializer[Any]):
    type = Constant("server_tool_use")
    id = serializers.CharField(help_text="The id of the search. What it found repeats it as tool_use_id.")
    name = Constant("web_search")
    input = SchemaField(_OBJECT, help_text="What is searched for.")


class WebSearchToolResultBlockSerializer(serializers.Serializer[Any]):
    type = Constant("web_search_tool_result")
    tool_use_id = serializers.CharField(help_text="The id of the search.")
    content = SchemaField({}, help_text="What it found, or why it failed, as Anthropic sends it.")


def _content_block(**options: Any) -> OneOf:
    blocks = [
        TextBlockSerializer,
        ThinkingBlockSerializer,
        RedactedThinkingBlockSerializer,
        ToolUseBlockSerializer,
        ServerToolUseBlockSerializer,
        WebSearchToolResultBlockSerializer,
    ]
    return OneOf("ContentBlock", blocks, **options)


class OutputTokensDetailsSerializer(serializers.Serializer[Any]):
    thinking_tokens = serializers.IntegerField(min_value=0, help_text="Tokens of the model's thinking.")


class MessageUsageSerializer(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField(
        min_value=0, help_text="Without those that were read from a cache or written to one."
    )
    cache_creation_input_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were written to a cache.")
    cache_read_input_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were read from a cache.")
    output_tokens = serializers.IntegerField(min_value=0, help_text="Tokens that were generated, thinking included.")
    output_tokens_details = OutputTokensDetailsSerializer(help_text="How many of them were thinking.")
    cache_creation = optional(
        SchemaField, _OBJECT, help_text="Tokens written to a cache, by how long it keeps them: Anthropic's."
    )
    service_tier = optional(serializers.CharField, help_text="The tier that answered. Anthropic's.")
    server_tool_use = optional(SchemaField, _OBJECT, help_text="How often tools ran at Anthropic: web_search_requests.")
    cost = SchemaField(
        {"type": "number", "minimum": 0}, allow_null=True, help_text="In US dollars, exactly. null: not known yet."
    )


class MessageSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The ledger entry of the completion has the same id.")
    type = Constant("message")
    role = Constant("assistant")
    model = serializers.CharField(help_text="The model that answered.")
    content = serializers.ListField(
        child=_content_block(), help_text="What the model says, thinks and calls. Empty in message_start."
    )
    stop_reason = serializers.CharField(allow_null=True, help_text=f"{_STOP_REASONS} null in message_start.")
    stop_sequence = serializers.CharField(allow_null=True, help_text=_STOP_SEQUENCE)
    usage = MessageUsageSerializer(help_text="The tokens that are charged; in message_start an estimate.")


class MessageTokensCountSerializer(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField(min_value=1, help_text="The tokens of the prompt, as estimated.")


class AnthropicErrorDetailsSerializer(serializers.Serializer[Any]):
    type = serializers.CharField(help_text="The kind of error, as Anthropic's API has it. For programs.")
    message = serializers.CharField(help_text="For people; the words may change. It begins with the field that is wrong.")
    details = SchemaField(
        _OBJECT,
        required=False,
        help_text="For programs: of a refused thread, a model that is not found, or a refusal for money.",
    )


@extend_schema_serializer(description="An error, as Anthropic's API has it.")
class AnthropicErrorResponseSerializer(serializers.Serializer[Any]):
    type = Constant("error")
    error = AnthropicErrorDetailsSerializer(help_text="What is wrong.")
    request_id = serializers.CharField(allow_null=True, help_text="The id of the request. Quote it when you ask for help.")


# --- Events of a stream -----------------------------------------------------------------------------------------------


@extend_schema_serializer(description="The beginning of the message.")
class MessageStartEventSerializer(serializers.Serializer[Any]):
    type = Constant("message_start")
    message = MessageSerializer(help_text="The message, before it has content.")


@extend_schema_serializer(description="The beginning of a block.")
class ContentBlockStartEventSerializer(serializers.Serializer[Any]):
    type = Constant("content_block_start")
    index = serializers.IntegerField(min_value=0, help_text=_INDEX)
    content_block = _content_block(help_text="The block, before it has text or input.")


class TextDeltaSerializer(serializers.Serializer[Any]):
    type = Constant("text_delta")
    text = serializers.CharField(help_text="More text.")


class InputJsonDeltaSerializer(serializers.Serializer[Any]):
    type = Constant("input_json_delta")
    partial_json = serializers.CharField(help_text="More of the JSON of the input.")


class ThinkingDeltaSerializer(serializers.Serializer[Any]):
    type = Constant("thinking_delta")
    thinking = serializers.CharField(help_text="More of the model's thinking.")


class SignatureDeltaSerializer(serializers.Serializer[Any]):
    type = Constant("signature_delta")
    signature = serializers.CharField(help_text="The signature of the thinking, at its end.")


class CitationsDeltaSerializer(serializers.Serializer[Any]):
    type = Constant("citations_delta")
    citation = SchemaField(_OBJECT, help_text="What the text cites, as Anthropic sends it.")


_DELTAS = [
    TextDeltaSerializer,
    InputJsonDeltaSerializer,
    ThinkingDeltaSerializer,
    SignatureDeltaSerializer,
    CitationsDeltaSerializer,
]


@extend_schema_serializer(description="More of a block.")
class ContentBlockDeltaEventSerializer(serializers.Serializer[Any]):
    type = Constant("content_block_delta")
    index = serializers.IntegerField(min_value=0, help_text=_INDEX)
    delta = OneOf("ContentBlockDelta", _DELTAS, help_text="What follows what was sent of the block before.")


@extend_schema_serializer(description="The end of a block.")
class ContentBlockStopEventSerializer(serializers.Serializer[Any]):
    type = Constant("content_block_stop")
    index = serializers.IntegerField(min_value=0, help_text=_INDEX)


class MessageDeltaSerializer(serializers.Serializer[Any]):
    stop_reason = serializers.CharField(allow_null=True, help_text=_STOP_REASONS)
    stop_sequence = serializers.CharField(allow_null=True, help_text=_STOP_SEQUENCE)


@extend_schema_serializer(description="Why the model stopped, and what it cost.")
class MessageDeltaEventSerializer(serializers.Serializer[Any]):
    type = Constant("message_delta")
    delta = MessageDeltaSerializer(help_text="Why the model stopped.")
    usage = MessageUsageSerializer(help_text="The tokens that are charged.")


@extend_schema_serializer(description="The end of the message.")
class MessageStopEventSerializer(serializers.Serializer[Any]):
    type = Constant("message_stop")


STREAM_EVENT = one_of(
    "MessageStreamEvent",
    [
        MessageStartEventSerializer,
        ContentBlockStartEventSerializer,
        ContentBlockDeltaEventSerializer,
        ContentBlockStopEventSerializer,
        MessageDeltaEventSerializer,
        MessageStopEventSerializer,
        AnthropicErrorResponseSerializer,
    ],
)
