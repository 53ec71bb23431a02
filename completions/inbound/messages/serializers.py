"""Serializers that describe Anthropic's Messages for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from functools import partial
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_serializer

from completions.inbound import request_fields
from completions.inbound.messages import content as message_content
from completions.inbound.messages import request, tools
from completions.request import reasoning, schema
from gateway_project.web.openapi import fields
from gateway_project.web.openapi.fields import AnyObject, Array, Choice, Constant, Count, Flag, Integer, Shape, Text, optional

DISPLAYS = ("summarized", "omitted")
_TYPE = {"type": "string", "description": "What it is: text, image, tool_result, tool_use ..."}
_BLOCK = {"type": "object", "required": ["type"], "properties": {"type": _TYPE}, "additionalProperties": True}
_STOP_REASONS = "end_turn, max_tokens, stop_sequence, tool_use, refusal, or another of Anthropic's."
_STOP_SEQUENCE = "The text at which the model stopped, if its provider tells."
_INDEX = "The number of the block, from 0."


def _blocks(**options: Any) -> fields.TextOr:
    return fields.TextOr(Array(fields.SchemaField(_BLOCK)), **options)


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
    input_schema = AnyObject("A JSON schema of its input. Anthropic's own have none.", required=False)
    input_examples = Array(AnyObject(), "Examples of its input, for Claude.", required=False)
    max_uses = Integer("Maximum searches of the web. Required with it.", 1, tools.SEARCHES_MAX, required=False)
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
    format = AnyObject("The format of the reply: json_schema, with a schema.", required=False)


class MessageTokensCountRequest(Shape):
    model = request_fields.model()
    messages = Array(
        MessageParam(), "The conversation, from its beginning.", min_length=1, max_length=settings.REQUEST_MESSAGES_MAX
    )
    system = _blocks(required=False, allow_null=True, help_text="What the model is told first: text, or blocks of text.")
    tools = optional(Array, MessageTool(), "What the model may call.", max_length=schema.TOOLS_MAX)
    tool_choice = optional(AnyObject, "auto, any, none, or a tool by its name.")
    thinking = optional(MessageThinking, help_text="Whether the model thinks first.")
    output_config = optional(MessageOutputConfig, help_text="How much the model thinks, and the format of its reply.")
    cache_control = optional(AnyObject, "Caches the prompt, for five minutes or an hour.")


@extend_schema_serializer(description="A null counts as absent. A field that is not listed is refused.")
class MessageRequest(MessageTokensCountRequest):
    max_tokens = Integer(
        "Maximum tokens to generate. A model that generates fewer is asked for its maximum.", 1, schema.MAX_TOKENS_MAX
    )
    models = request_fields.models()
    provider = optional(AnyObject, "Which providers may answer: order, only and ignore.")
    stop_sequences = optional(Array, Text(), "Texts at which the model stops.", max_length=schema.STOPS_MAX)
    temperature = request_fields.temperature(1)
    top_p = request_fields.top_p()
    top_k = optional(Integer, "The model chooses among so many of the likeliest tokens.", 1, request.TOP_K_MAX)
    context_management = optional(AnyObject, "May only ask to keep the whole conversation.")
    metadata = optional(AnyObject, "user_id, a string: your own id of who asks.")
    service_tier = optional(Choice, ("auto", "standard_only"), "standard_only: no other tier.")
    stream = optional(Flag, "Whether the reply is a stream of events.", default=False)


def _block(kind: str, **members: Any) -> fields.Described:
    return fields.variant(f"{fields.component_name(kind)}Block", kind, **members)


def _event(kind: str, about: str, **members: Any) -> fields.Described:
    return fields.variant(f"{fields.component_name(kind)}Event", kind, Shape, about, **members)


_BLOCKS = [
    _block(
        "text",
        text=Text("What the model says."),
        citations=optional(Array, AnyObject(), "What it cites, as Anthropic sends it."),
    ),
    _block(
        "thinking",
        thinking=Text("What the model shows of its thinking."),
        signature=Text("Anthropic's mark of its own models' thinking. Empty for other models."),
    ),
    _block("redacted_thinking", data=Text("Thinking that only Anthropic can read.")),
    _block(
        "tool_use",
        id=Text("The id of the call. Its result repeats it as tool_use_id."),
        name=Text("The tool that the model calls."),
        input=AnyObject("What the model gives to it."),
    ),
    _block(
        "server_tool_use",
        id=Text("The id of the search. What it found repeats it as tool_use_id."),
        name=Constant("web_search"),
        input=AnyObject("What is searched for."),
    ),
    _block(
        "web_search_tool_result",
        tool_use_id=Text("The id of the search."),
        content=fields.SchemaField({}, "What it found, or why it failed, as Anthropic sends it."),
    ),
]
_content_block = partial(fields.OneOf, "ContentBlock", _BLOCKS)
OutputTokensDetails = fields.shape("OutputTokensDetails", thinking_tokens=Count("Tokens of the model's thinking."))


class MessageUsage(Shape):
    input_tokens = Count("Without those that were read from a cache or written to one.")
    cache_creation_input_tokens = Count("Tokens that were written to a cache.")
    cache_read_input_tokens = Count("Tokens that were read from a cache.")
    output_tokens = Count("Tokens that were generated, thinking included.")
    output_tokens_details = OutputTokensDetails(help_text="How many of them were thinking.")
    cache_creation = optional(AnyObject, "Tokens written to a cache, by how long it keeps them: Anthropic's.")
    service_tier = optional(Text, "The tier that answered. Anthropic's.")
    server_tool_use = optional(AnyObject, "How often tools ran at Anthropic: web_search_requests.")
    cost = fields.SchemaField({"type": "number", "minimum": 0}, "In US dollars, exactly. null: not known yet.", allow_null=True)


class Message(Shape):
    id = Text("The ledger entry of the completion has the same id.")
    type = Constant("message")
    role = Constant("assistant")
    model = Text("The model that answered.")
    content = Array(_content_block(), "What the model says, thinks and calls. Empty in message_start.")
    stop_reason = Text(f"{_STOP_REASONS} null in message_start.", allow_null=True)
    stop_sequence = Text(_STOP_SEQUENCE, allow_null=True)
    usage = MessageUsage(help_text="The tokens that are charged; in message_start an estimate.")


MessageTokensCount = fields.shape(
    "MessageTokensCount", input_tokens=Integer("The tokens of the prompt, as estimated.", min_value=1)
)


class AnthropicErrorDetails(Shape):
    type = Text("The kind of error, as Anthropic's API has it. For programs.")
    message = Text("For people; the words may change. It begins with the field that is wrong.")
    details = AnyObject("For programs: of a refused thread, a model that is not found, or a refusal for money.", required=False)


@extend_schema_serializer(description="An error, as Anthropic's API has it.")
class AnthropicErrorResponse(Shape):
    type = Constant("error")
    error = AnthropicErrorDetails(help_text="What is wrong.")
    request_id = Text("The id of the request. Quote it when you ask for help.", allow_null=True)


_DELTAS = [
    fields.variant("TextDelta", "text_delta", text=Text("More text.")),
    fields.variant("InputJsonDelta", "input_json_delta", partial_json=Text("More of the JSON of the input.")),
    fields.variant("ThinkingDelta", "thinking_delta", thinking=Text("More of the model's thinking.")),
    fields.variant("SignatureDelta", "signature_delta", signature=Text("The signature of the thinking, at its end.")),
    fields.variant("CitationsDelta", "citations_delta", citation=AnyObject("What the text cites, as Anthropic sends it.")),
]


class MessageDelta(Shape):
    stop_reason = Text(_STOP_REASONS, allow_null=True)
    stop_sequence = Text(_STOP_SEQUENCE, allow_null=True)


STREAM_EVENT = fields.one_of(
    "MessageStreamEvent",
    [
        _event(
            "message_start", "The beginning of the message.", message=Message(help_text="The message, before it has content.")
        ),
        _event(
            "content_block_start",
            "The beginning of a block.",
            index=Count(_INDEX),
            content_block=_content_block("The block, before it has text or input."),
        ),
        _event(
            "content_block_delta",
            "More of a block.",
            index=Count(_INDEX),
            delta=fields.OneOf("ContentBlockDelta", _DELTAS, "What follows what was sent of the block before."),
        ),
        _event("content_block_stop", "The end of a block.", index=Count(_INDEX)),
        _event(
            "message_delta",
            "Why the model stopped, and what it cost.",
            delta=MessageDelta(help_text="Why the model stopped."),
            usage=MessageUsage(help_text="The tokens that are charged."),
        ),
        _event("message_stop", "The end of the message."),
        AnthropicErrorResponse,
    ],
)


# --- Errors and headers ---------------------------------------------------------------------------------------------

_MESSAGES = "/v1/messages"
_PATHS = (_MESSAGES, "/v1/messages/quote", "/v1/messages/count_tokens")
_ERROR = {"$ref": "#/components/schemas/AnthropicErrorResponse"}
_REQUEST_ID = {
    "request-id": {"description": "The same as x-request-id, for Anthropic's clients.", "schema": {"type": "string"}}
}


def describe_errors(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Give errors of Messages Anthropic's shape, header and status of an overloaded provider. A hook of drf-spectacular."""
    content = {"application/json": {"schema": _ERROR}}
    for operation in (each for path in _PATHS for each in result["paths"][path].values()):
        responses = operation["responses"]
        for status, response in responses.items():
            response["headers"] = {**response.get("headers", {}), **_REQUEST_ID}
            if status != "200":
                response["content"] = content
    responses = result["paths"][_MESSAGES]["post"]["responses"]
    responses["529"] = {**responses["default"], "description": "overloaded_error"}
    return result
