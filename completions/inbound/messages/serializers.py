"""Serializers that describe Anthropic's Messages for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_serializer

from completions.inbound.messages import content as message_content
from completions.inbound.messages import request, tools
from completions.request import reasoning, schema
from gateway_project.web.openapi.fields import (
    Array,
    Choice,
    Constant,
    Count,
    Flag,
    Integer,
    Number,
    OneOf,
    SchemaField,
    Shape,
    Text,
    TextOr,
    one_of,
    optional,
    shape,
)

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
    return TextOr(Array(SchemaField(_BLOCK)), **options)


class MessageParam(Shape):
    role = Choice(message_content.ROLES, "Who speaks.")
    content = _blocks(help_text="Text, or blocks.")


class MessageTool(Shape):
    type = Text(
        "custom, web_search_20250305, or a tool of Anthropic's own that runs at the caller, such as bash_20250124.",
        required=False,
    )
    name = Text("The name by which the model calls it.")
    description = Text("What it does, for the model.", required=False)
    input_schema = SchemaField(_OBJECT, "A JSON schema of its input. Anthropic's own have none.", required=False)
    input_examples = Array(SchemaField(_OBJECT), "Examples of its input, for Claude.", required=False)
    max_uses = Integer(
        "Maximum searches of the web. Required with it.", required=False, min_value=1, max_value=tools.SEARCHES_MAX
    )
    defer_loading = Flag("Whether Claude is told of it only when it is found.", required=False)


class MessageThinking(Shape):
    type = Choice(
        request.THINKING_TYPES, "Whether the model thinks; adaptive: as it sees fit; between_tools: not before its reply."
    )
    budget_tokens = Integer(
        "Maximum tokens of thinking, less than max_tokens. Where the type is enabled.",
        required=False,
        min_value=reasoning.THINKING_TOKENS_MIN,
    )
    display = Choice(DISPLAYS, "Whether the reply shows the thinking.", required=False)


class MessageOutputConfig(Shape):
    effort = Choice(request.EFFORTS, "How much the model thinks.", required=False)
    format = SchemaField(_OBJECT, "The format of the reply: json_schema, with a schema.", required=False)


class MessageTokensCountRequest(Shape):
    model = Text("An id of GET /v1/models that is available.", min_length=1, max_length=schema.MODEL_CHARACTERS_MAX)
    messages = Array(
        MessageParam(), "The conversation, from its beginning.", min_length=1, max_length=settings.REQUEST_MESSAGES_MAX
    )
    system = _blocks(required=False, allow_null=True, help_text="What the model is told first: text, or blocks of text.")
    tools = optional(Array, MessageTool(), "What the model may call.", max_length=schema.TOOLS_MAX)
    tool_choice = optional(SchemaField, _OBJECT, "auto, any, none, or a tool by its name.")
    thinking = optional(MessageThinking, help_text="Whether the model thinks first.")
    output_config = optional(MessageOutputConfig, help_text="How much the model thinks, and the format of its reply.")
    cache_control = optional(SchemaField, _OBJECT, "Caches the prompt, for five minutes or an hour.")


@extend_schema_serializer(description="A null counts as absent. A field that is not listed is refused.")
class MessageRequest(MessageTokensCountRequest):
    max_tokens = Integer(
        "Maximum tokens to generate. A model that generates fewer is asked for its maximum.",
        min_value=1,
        max_value=schema.MAX_TOKENS_MAX,
    )
    models = optional(
        Array,
        Text(min_length=1, max_length=schema.MODEL_CHARACTERS_MAX),
        "Models to try in turn when the first cannot serve the request.",
        max_length=schema.FALLBACKS_MAX,
    )
    provider = optional(SchemaField, _OBJECT, "Which providers may answer: order, only and ignore.")
    stop_sequences = optional(Array, Text(), "Texts at which the model stops.", max_length=schema.STOPS_MAX)
    temperature = optional(Number, "How much chance decides: the higher, the more varied.", min_value=0, max_value=1)
    top_p = optional(
        Number, "The model chooses among the likeliest tokens that together have this probability.", min_value=0, max_value=1
    )
    top_k = optional(
        Integer, "The model chooses among so many of the likeliest tokens.", min_value=1, max_value=request.TOP_K_MAX
    )
    context_management = optional(SchemaField, _OBJECT, "May only ask to keep the whole conversation.")
    metadata = optional(SchemaField, _OBJECT, "user_id, a string: your own id of who asks.")
    service_tier = optional(Choice, ("auto", "standard_only"), "standard_only: no other tier.")
    stream = optional(Flag, "Whether the reply is a stream of events.", default=False)


_BLOCKS = [
    shape(
        "TextBlock",
        type=Constant("text"),
        text=Text("What the model says."),
        citations=optional(Array, SchemaField(_OBJECT), "What it cites, as Anthropic sends it."),
    ),
    shape(
        "ThinkingBlock",
        type=Constant("thinking"),
        thinking=Text("What the model shows of its thinking."),
        signature=Text("Anthropic's mark of its own models' thinking. Empty for other models."),
    ),
    shape("RedactedThinkingBlock", type=Constant("redacted_thinking"), data=Text("Thinking that only Anthropic can read.")),
    shape(
        "ToolUseBlock",
        type=Constant("tool_use"),
        id=Text("The id of the call. Its result repeats it as tool_use_id."),
        name=Text("The tool that the model calls."),
        input=SchemaField(_OBJECT, "What the model gives to it."),
    ),
    shape(
        "ServerToolUseBlock",
        type=Constant("server_tool_use"),
        id=Text("The id of the search. What it found repeats it as tool_use_id."),
        name=Constant("web_search"),
        input=SchemaField(_OBJECT, "What is searched for."),
    ),
    shape(
        "WebSearchToolResultBlock",
        type=Constant("web_search_tool_result"),
        tool_use_id=Text("The id of the search."),
        content=SchemaField({}, "What it found, or why it failed, as Anthropic sends it."),
    ),
]


def _content_block(help_text: str | None = None) -> OneOf:
    return OneOf("ContentBlock", _BLOCKS, help_text)


OutputTokensDetails = shape("OutputTokensDetails", thinking_tokens=Count("Tokens of the model's thinking."))


class MessageUsage(Shape):
    input_tokens = Count("Without those that were read from a cache or written to one.")
    cache_creation_input_tokens = Count("Tokens that were written to a cache.")
    cache_read_input_tokens = Count("Tokens that were read from a cache.")
    output_tokens = Count("Tokens that were generated, thinking included.")
    output_tokens_details = OutputTokensDetails(help_text="How many of them were thinking.")
    cache_creation = optional(SchemaField, _OBJECT, "Tokens written to a cache, by how long it keeps them: Anthropic's.")
    service_tier = optional(Text, "The tier that answered. Anthropic's.")
    server_tool_use = optional(SchemaField, _OBJECT, "How often tools ran at Anthropic: web_search_requests.")
    cost = SchemaField({"type": "number", "minimum": 0}, "In US dollars, exactly. null: not known yet.", allow_null=True)


class Message(Shape):
    id = Text("The ledger entry of the completion has the same id.")
    type = Constant("message")
    role = Constant("assistant")
    model = Text("The model that answered.")
    content = Array(_content_block(), "What the model says, thinks and calls. Empty in message_start.")
    stop_reason = Text(f"{_STOP_REASONS} null in message_start.", allow_null=True)
    stop_sequence = Text(_STOP_SEQUENCE, allow_null=True)
    usage = MessageUsage(help_text="The tokens that are charged; in message_start an estimate.")


MessageTokensCount = shape("MessageTokensCount", input_tokens=Integer("The tokens of the prompt, as estimated.", min_value=1))


class AnthropicErrorDetails(Shape):
    type = Text("The kind of error, as Anthropic's API has it. For programs.")
    message = Text("For people; the words may change. It begins with the field that is wrong.")
    details = SchemaField(
        _OBJECT, "For programs: of a refused thread, a model that is not found, or a refusal for money.", required=False
    )


@extend_schema_serializer(description="An error, as Anthropic's API has it.")
class AnthropicErrorResponse(Shape):
    type = Constant("error")
    error = AnthropicErrorDetails(help_text="What is wrong.")
    request_id = Text("The id of the request. Quote it when you ask for help.", allow_null=True)


_DELTAS = [
    shape("TextDelta", type=Constant("text_delta"), text=Text("More text.")),
    shape("InputJsonDelta", type=Constant("input_json_delta"), partial_json=Text("More of the JSON of the input.")),
    shape("ThinkingDelta", type=Constant("thinking_delta"), thinking=Text("More of the model's thinking.")),
    shape("SignatureDelta", type=Constant("signature_delta"), signature=Text("The signature of the thinking, at its end.")),
    shape(
        "CitationsDelta",
        type=Constant("citations_delta"),
        citation=SchemaField(_OBJECT, "What the text cites, as Anthropic sends it."),
    ),
]


class MessageDelta(Shape):
    stop_reason = Text(_STOP_REASONS, allow_null=True)
    stop_sequence = Text(_STOP_SEQUENCE, allow_null=True)


STREAM_EVENT = one_of(
    "MessageStreamEvent",
    [
        shape(
            "MessageStartEvent",
            Shape,
            "The beginning of the message.",
            type=Constant("message_start"),
            message=Message(help_text="The message, before it has content."),
        ),
        shape(
            "ContentBlockStartEvent",
            Shape,
            "The beginning of a block.",
            type=Constant("content_block_start"),
            index=Count(_INDEX),
            content_block=_content_block("The block, before it has text or input."),
        ),
        shape(
            "ContentBlockDeltaEvent",
            Shape,
            "More of a block.",
            type=Constant("content_block_delta"),
            index=Count(_INDEX),
            delta=OneOf("ContentBlockDelta", _DELTAS, "What follows what was sent of the block before."),
        ),
        shape("ContentBlockStopEvent", Shape, "The end of a block.", type=Constant("content_block_stop"), index=Count(_INDEX)),
        shape(
            "MessageDeltaEvent",
            Shape,
            "Why the model stopped, and what it cost.",
            type=Constant("message_delta"),
            delta=MessageDelta(help_text="Why the model stopped."),
            usage=MessageUsage(help_text="The tokens that are charged."),
        ),
        shape("MessageStopEvent", Shape, "The end of the message.", type=Constant("message_stop")),
        AnthropicErrorResponse,
    ],
)
