"""Serializers that describe OpenAI's Responses for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from functools import partial
from typing import Any

from drf_spectacular.utils import extend_schema_serializer

from completions.inbound import request_fields
from completions.inbound.chat_completions.serializers import OpenAIRequest, PromptTokensDetails
from completions.inbound.responses import items, request, tools
from completions.request import schema
from gateway_project.web.openapi import fields
from gateway_project.web.openapi.fields import AnyObject, Array, Choice, Constant, Count, Flag, Integer, Shape, Text, optional
from gateway_project.web.openapi.specification import ErrorDetails

_INCLUDE = {"type": "string", "enum": list(request.INCLUDED)}
_LONG = f"null if it is longer than {request.REPEATED_BYTES_MAX} bytes."


# --- What requests and replies share ----------------------------------------------------------------------------------


class ModelResponseTool(Shape):
    type = Choice(tools.TYPES, "The kind of tool.")
    name = Text("The name by which the model calls it.", required=False)
    description = Text("What it does, for the model.", required=False)
    parameters = optional(AnyObject, "Of a function: a JSON schema of its arguments.")
    strict = optional(Flag, "Of a function: whether the arguments always follow the schema.")
    format = AnyObject("Of a custom tool: text, or a grammar.", required=False)
    tools = Array(AnyObject(), "Of a namespace: functions and custom tools.", required=False)


class ModelResponseReasoning(Shape):
    effort = optional(Choice, schema.REASONING_EFFORTS, "How much the model thinks.")
    summary = optional(Choice, request.SUMMARIES, "How much of it the reply shows.")


class ModelResponseTextFormat(Shape):
    type = Choice(request.FORMATS, "Text, a JSON object, or JSON of a schema.")
    name = Text("The name of the schema.", required=False)
    schema = AnyObject("The JSON schema of the reply.", required=False)
    description = Text("What the reply is, for the model.", required=False)
    strict = optional(Flag, "Whether the reply always follows the schema.")


class ModelResponseText(Shape):
    format = optional(ModelResponseTextFormat, help_text="The format of the reply.")
    verbosity = optional(Choice, schema.VERBOSITIES, "How long the reply is.")


# --- The request ------------------------------------------------------------------------------------------------------


class ModelResponseInputItem(Shape):
    type = Choice(items.ITEM_TYPES, "What it is. An item with a role is a message without it, too.", required=False)
    role = Choice(items.ROLES, "Who speaks, in a message.", required=False)
    content = fields.TextOr(Array(AnyObject()), "Of a message: text, or parts.", required=False)


class ContextManagement(Shape):
    type = Constant("compaction")
    compact_threshold = optional(Integer, "From how many tokens on.", 1, schema.MAX_TOKENS_MAX)


@extend_schema_serializer(description="A null counts as absent. A field that is not listed is refused.")
class ModelResponseRequest(OpenAIRequest):
    input = fields.TextOr(Array(ModelResponseInputItem()), "Text of the user, or the items of the whole conversation.")
    instructions = optional(Text, "Come before the input.")
    max_output_tokens = optional(Integer, "Maximum tokens to generate.", 1, schema.MAX_TOKENS_MAX)
    provider = optional(AnyObject, "Which providers may answer: order, only and ignore.")
    tools = optional(Array, ModelResponseTool(), "What the model may call.", max_length=schema.TOOLS_MAX)
    reasoning = optional(ModelResponseReasoning, help_text="How much the model thinks, and how much of it the reply shows.")
    max_tool_calls = optional(
        Integer, "Maximum calls of tools that run at OpenAI. Required with web_search.", 1, request.SEARCHES_MAX
    )
    text = optional(ModelResponseText, help_text="The format of the reply, and how long it is to be.")
    top_logprobs = optional(
        Integer,
        "How many other tokens the reply names for each of its own, with their probabilities.",
        0,
        request.TOP_LOGPROBS_MAX,
    )
    include = optional(Array, fields.SchemaField(_INCLUDE), "What else the reply has, such as probabilities.")
    metadata = optional(fields.SchemaField, request_fields.TAGS, "Tags of your own. The usage page groups by them.")
    client_metadata = optional(AnyObject, "Codex's, about itself. No provider is sent it.")
    prompt_cache_retention = optional(Choice, request.CACHE_RETENTIONS, "How long OpenAI keeps the prompt in its cache.")
    truncation = optional(
        fields.SchemaField, {"type": "string", "const": "disabled"}, "Nothing is taken out of a conversation."
    )
    previous_response_id = optional(Text, "The id of a stored response: its whole conversation comes before the input.")
    store = optional(Flag, "Whether later requests can continue from the response, and read it.", default=True)
    background = optional(Flag, "Whether to answer at once, and to continue in the background.")
    context_management = optional(
        Array,
        ContextManagement(),
        "When to compact. The gateway does not by itself: it names the field in x-gateway-ignored-fields.",
    )
    stream_options = optional(AnyObject, "include_obfuscation, which has no effect.")


# --- Items of the output ----------------------------------------------------------------------------------------------


class OutputAnnotation(Shape):
    type = Constant("url_citation")
    url = Text("The address of the page.")
    title = Text("The title of the page.")
    start_index = Integer("Of the first character of the text that cites it.")
    end_index = Integer("Of the last one.")


def _token_logprobs() -> Array:
    return Array(AnyObject(), "The probabilities of the tokens, if they were asked for.")


class OutputText(Shape):
    type = Constant("output_text")
    text = Text("What the model says.")
    annotations = Array(OutputAnnotation(), "What the text cites after a search of the web, as OpenAI sends it.")
    logprobs = _token_logprobs()


class ReasoningSummaryText(Shape):
    type = Constant("summary_text")
    text = Text("What the model shows of its thinking.")


OutputRefusal = fields.variant("OutputRefusal", "refusal", refusal=Text("What the model says instead, because it refuses."))
_output_content = partial(fields.OneOf, "OutputContent", [OutputText, OutputRefusal])  # a field of a part of a message


class ReasoningItem(Shape):
    id = Text("The id of the item.")
    type = Constant("reasoning")
    summary = Array(ReasoningSummaryText(), "What the model shows of its thinking.")
    encrypted_content = optional(Text, "Where it is included: what the provider needs back, sealed. null: nothing.")


class _Item(Shape):
    id = Text("The id of the item.")
    status = Text("in_progress, completed or incomplete.")


class _Call(_Item):
    call_id = Text("The id of the call. Its output repeats it.")


class _NamedCall(_Call):
    name = Text("The tool that the model calls.")
    namespace = Text("The namespace that it is in, if it is in one.", required=False)


_ITEMS: list[fields.Described] = [
    fields.variant(
        "OutputMessage",
        "message",
        _Item,
        role=Constant("assistant"),
        content=Array(_output_content(), "What the model says."),
    ),
    ReasoningItem,
    fields.variant("FunctionToolCall", "function_call", _NamedCall, arguments=Text("A JSON object, as text.")),
    fields.variant("CustomToolCall", "custom_tool_call", _NamedCall, input=Text("What the model gives to it.")),
    fields.variant("LocalShellToolCall", "local_shell_call", _Call, action=AnyObject("The command, as OpenAI's API has it.")),
    fields.variant("ShellToolCall", "shell_call", _Call, action=AnyObject("The commands, as OpenAI's API has them.")),
    fields.variant(
        "ApplyPatchToolCall", "apply_patch_call", _Call, operation=AnyObject("The change of a file, as OpenAI's API has it.")
    ),
    fields.variant(
        "ComputerToolCall",
        "computer_call",
        _Call,
        actions=Array(AnyObject(), "What to do in turn, as OpenAI's API has it."),
        pending_safety_checks=Array(AnyObject(), "Always empty."),
    ),
    fields.variant(
        "ToolSearchCall",
        "tool_search_call",
        _Call,
        arguments=AnyObject("What the model searches for."),
        execution=Constant("client"),
    ),
    fields.variant(
        "WebSearchCall",
        "web_search_call",
        _Item,
        action=AnyObject("What was searched for or opened, as OpenAI's API has it."),
    ),
    fields.shape(
        "CompactionItem",
        id=Text("The id of the item."),
        type=Constant("compaction"),
        encrypted_content=Text("The summary, sealed. Send the item back in its place."),
    ),
]
_output_item = partial(fields.OneOf, "OutputItem", _ITEMS)  # a field of an item


# --- The reply --------------------------------------------------------------------------------------------------------


InputTokensDetails = fields.shape("InputTokensDetails", PromptTokensDetails)
ReasoningTokensDetails = fields.shape("ReasoningTokensDetails", reasoning_tokens=Count("Tokens of the model's thinking."))


class ModelResponseUsage(Shape):
    input_tokens = Count("Tokens of the input.")
    input_tokens_details = InputTokensDetails(help_text="How many of them a cache had to do with.")
    output_tokens = Count("Tokens that were generated, thinking included.")
    output_tokens_details = ReasoningTokensDetails(help_text="How many of them were thinking.")
    total_tokens = Count("Both together.")
    cost = fields.SchemaField({"type": "number", "minimum": 0}, "In US dollars, exactly. null: not known yet.", allow_null=True)


IncompleteDetails = fields.shape("IncompleteDetails", reason=Text("max_output_tokens or content_filter."))


class ModelResponseError(Shape):
    code = Text("For programs: server_error, or what the request was refused for.")
    message = Text("For people; the words may change.")


class ModelResponse(Shape):
    id = Text("The ledger entry of the completion has the same id.")
    object = Constant("response")
    created_at = Integer("Unix time in seconds.")
    status = Text("completed, incomplete, failed or in_progress; in the background also queued or cancelled.")
    model = Text("The model that answered.")
    output = Array(_output_item(), "What the model says, thinks and calls.")
    incomplete_details = IncompleteDetails(allow_null=True, help_text="Why it is incomplete.")
    error = ModelResponseError(allow_null=True, help_text="Why a stream failed.")
    completed_at = Integer("Always null.", allow_null=True)
    usage = ModelResponseUsage(allow_null=True, help_text="The tokens that are charged. null before the end.")
    # The fields that it repeats of the request.
    background = Flag("Whether it runs in the background.")
    instructions = Text(f"As the request said. {_LONG}", allow_null=True)
    max_output_tokens = Integer("As the request said.", allow_null=True)
    max_tool_calls = Integer("As the request said.", allow_null=True)
    metadata = fields.SchemaField(request_fields.TAGS, f"As the request said. {_LONG}", allow_null=True)
    parallel_tool_calls = Flag("As the request said; true by default.")
    previous_response_id = Text("As the request said.", allow_null=True)
    prompt_cache_key = Text(f"As the request said. {_LONG}", allow_null=True)
    reasoning = ModelResponseReasoning(help_text="As the request said.")
    safety_identifier = Text("As the request said.", allow_null=True)
    service_tier = Text("The tier that was charged, or default; until it ends, the one asked for.")
    store = Flag("Whether it is stored.")
    frequency_penalty = fields.Number("Always null.", allow_null=True)
    presence_penalty = fields.Number("Always null.", allow_null=True)
    temperature = fields.Number("As the request said.", allow_null=True)
    text = ModelResponseText(allow_null=True, help_text=f"As the request said; text by default. {_LONG}")
    tool_choice = request_fields.tool_choice(f"As the request said; auto by default. {_LONG}")
    tools = Array(ModelResponseTool(), f"As the request said. {_LONG}", allow_null=True)
    top_logprobs = Integer("As the request said; 0 by default.")
    top_p = fields.Number("As the request said.", allow_null=True)
    truncation = Text("Always disabled: nothing is taken out of a conversation.")
    user = Text("As the request said.", allow_null=True)


class CompactedResponse(Shape):
    id = Text("The ledger entry of the completion has the same id.")
    object = Constant("response.compaction")
    created_at = Integer("Unix time in seconds.")
    model = Text("The model that wrote the summary.")
    output = Array(AnyObject(), "The messages of the user, and a compaction item.")
    incomplete_details = IncompleteDetails(allow_null=True, help_text="Why the summary is incomplete.")
    usage = ModelResponseUsage(help_text="The tokens that are charged.")


# --- The events of a stream, under OpenAI's names ---------------------------------------------------------------------


class _Event(Shape):
    sequence_number = Count("The number of the event, from 0.")


class _OfItem(_Event):
    item_id = Text("The id of the item.")
    output_index = Count("The place of the item in the output, from 0.")


_OfResponse = fields.shape("_OfResponse", _Event, response=ModelResponse(help_text="The response, as it is now."))
_OfPart = fields.shape("_OfPart", _OfItem, content_index=Count("The place of the part in the message, from 0."))
_OfSummary = fields.shape("_OfSummary", _OfItem, summary_index=Count("The place of the part in the summary, from 0."))


def _event(kind: str, base: fields.Described, about: str, name: str = "", /, **members: Any) -> fields.Described:
    return fields.variant(f"Response{name or fields.component_name(kind)}Event", f"response.{kind}", base, about, **members)


@extend_schema_serializer(description="The event before the last of a stream that failed.")
class ResponseErrorEvent(_Event):
    type = Constant("error")
    code = Text("For programs.")
    message = Text("For people; the words may change.")
    param = Text("The field or parameter that is wrong.", allow_null=True)
    error = ErrorDetails(help_text="The same again, for clients that look for it here.")


STREAM_EVENT = fields.one_of(
    "ResponseStreamEvent",
    [
        _event("created", _OfResponse, "The first event."),
        _event("in_progress", _OfResponse, "The second event."),
        _event(
            "output_item.added",
            _Event,
            "The beginning of an item.",
            output_index=Count("The place of the item in the output, from 0."),
            item=_output_item("The item, before it has text or arguments."),
        ),
        _event(
            "content_part.added",
            _OfPart,
            "The beginning of a part of a message.",
            part=_output_content("The part, before it has text."),
        ),
        _event("output_text.delta", _OfPart, "More text.", "TextDelta", delta=Text("More text."), logprobs=_token_logprobs()),
        _event(
            "output_text.annotation.added",
            _OfPart,
            "What a text cites.",
            annotation_index=Count("The place of the annotation, from 0."),
            annotation=AnyObject("As OpenAI sends it."),
        ),
        _event(
            "output_text.done",
            _OfPart,
            "The end of a text.",
            "TextDone",
            text=Text("The whole text."),
            logprobs=_token_logprobs(),
        ),
        _event("refusal.delta", _OfPart, "More of what the model says instead, because it refuses.", delta=Text("More text.")),
        _event("refusal.done", _OfPart, "The end of a refusal.", refusal=Text("The whole text.")),
        _event("content_part.done", _OfPart, "The end of a part of a message.", part=_output_content("The whole part.")),
        _event(
            "reasoning_summary_part.added",
            _OfSummary,
            "The beginning of what the model shows of its thinking.",
            part=ReasoningSummaryText(help_text="The part, before it has text."),
        ),
        _event("reasoning_summary_text.delta", _OfSummary, "More of the model's thinking.", delta=Text("More text.")),
        _event("reasoning_summary_text.done", _OfSummary, "The end of the model's thinking.", text=Text("The whole text.")),
        _event(
            "reasoning_summary_part.done",
            _OfSummary,
            "The end of what the model shows of its thinking.",
            part=ReasoningSummaryText(help_text="The whole part."),
        ),
        _event(
            "function_call_arguments.delta", _OfItem, "More of the arguments of a function.", delta=Text("More of the JSON.")
        ),
        _event(
            "function_call_arguments.done",
            _OfItem,
            "The end of the arguments of a function.",
            name=Text("The function that the model calls."),
            arguments=Text("A JSON object, as text."),
        ),
        _event(
            "custom_tool_call_input.delta", _OfItem, "More of the input of a custom tool.", delta=Text("More of the input.")
        ),
        _event(
            "custom_tool_call_input.done", _OfItem, "The end of the input of a custom tool.", input=Text("The whole input.")
        ),
        _event(
            "output_item.done",
            _Event,
            "The end of an item.",
            output_index=Count("The place of the item in the output, from 0."),
            item=_output_item("The whole item."),
        ),
        _event("completed", _OfResponse, "The last event, with the whole reply and its usage."),
        _event("incomplete", _OfResponse, "The last event of a reply that was cut short, with its usage."),
        _event("failed", _OfResponse, "The last event of a stream that failed."),
        ResponseErrorEvent,
    ],
)


# --- Stored responses -------------------------------------------------------------------------------------------------


class DeletedResponse(Shape):
    id = Text("The id of the response.")
    object = Constant("response.deleted")
    deleted = Flag("Always true.")


class ResponseItemList(Shape):
    object = Constant("list")
    data = Array(AnyObject(), "Items, each with an id.")  # type: ignore[assignment]
    first_id = Text("The id of the first of them.", allow_null=True)
    last_id = Text("The id of the last of them.", allow_null=True)
    has_more = Flag("Whether there are more after the last.")


class InputTokensCount(Shape):
    object = Constant("response.input_tokens")
    input_tokens = Count("The likely tokens of the input.")
