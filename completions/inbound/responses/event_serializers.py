"""Serializers that describe the events of a stream of OpenAI's Responses for OpenAPI, under OpenAI's names of them."""

from drf_spectacular.utils import extend_schema_serializer

from completions.inbound.responses.serializers import (
    OBJECT,
    ModelResponse,
    ReasoningSummaryText,
    output_content,
    output_item,
    token_logprobs,
)
from gateway_project.web.openapi.fields import Constant, Count, SchemaField, Shape, Text, one_of, shape
from gateway_project.web.openapi.specification import ErrorDetailsSerializer


class _Event(Shape):
    sequence_number = Count("The number of the event, from 0.")


class _OfItem(_Event):
    item_id = Text("The id of the item.")
    output_index = Count("The place of the item in the output, from 0.")


_OfResponse = shape("_OfResponse", _Event, response=ModelResponse(help_text="The response, as it is now."))
_OfPart = shape("_OfPart", _OfItem, content_index=Count("The place of the part in the message, from 0."))
_OfSummary = shape("_OfSummary", _OfItem, summary_index=Count("The place of the part in the summary, from 0."))


@extend_schema_serializer(description="The event before the last of a stream that failed.")
class ResponseErrorEvent(_Event):
    type = Constant("error")
    code = Text("For programs.")
    message = Text("For people; the words may change.")
    param = Text("The field or parameter that is wrong.", allow_null=True)
    error = ErrorDetailsSerializer(help_text="The same again, for clients that look for it here.")


STREAM_EVENT = one_of(
    "ResponseStreamEvent",
    [
        shape("ResponseCreatedEvent", _OfResponse, "The first event.", type=Constant("response.created")),
        shape("ResponseInProgressEvent", _OfResponse, "The second event.", type=Constant("response.in_progress")),
        shape(
            "ResponseOutputItemAddedEvent",
            _Event,
            "The beginning of an item.",
            type=Constant("response.output_item.added"),
            output_index=Count("The place of the item in the output, from 0."),
            item=output_item("The item, before it has text or arguments."),
        ),
        shape(
            "ResponseContentPartAddedEvent",
            _OfPart,
            "The beginning of a part of a message.",
            type=Constant("response.content_part.added"),
            part=output_content("The part, before it has text."),
        ),
        shape(
            "ResponseTextDeltaEvent",
            _OfPart,
            "More text.",
            type=Constant("response.output_text.delta"),
            delta=Text("More text."),
            logprobs=token_logprobs(),
        ),
        shape(
            "ResponseOutputTextAnnotationAddedEvent",
            _OfPart,
            "What a text cites.",
            type=Constant("response.output_text.annotation.added"),
            annotation_index=Count("The place of the annotation, from 0."),
            annotation=SchemaField(OBJECT, "As OpenAI sends it."),
        ),
        shape(
            "ResponseTextDoneEvent",
            _OfPart,
            "The end of a text.",
            type=Constant("response.output_text.done"),
            text=Text("The whole text."),
            logprobs=token_logprobs(),
        ),
        shape(
            "ResponseRefusalDeltaEvent",
            _OfPart,
            "More of what the model says instead, because it refuses.",
            type=Constant("response.refusal.delta"),
            delta=Text("More text."),
        ),
        shape(
            "ResponseRefusalDoneEvent",
            _OfPart,
            "The end of a refusal.",
            type=Constant("response.refusal.done"),
            refusal=Text("The whole text."),
        ),
        shape(
            "ResponseContentPartDoneEvent",
            _OfPart,
            "The end of a part of a message.",
            type=Constant("response.content_part.done"),
            part=output_content("The whole part."),
        ),
        shape(
            "ResponseReasoningSummaryPartAddedEvent",
            _OfSummary,
            "The beginning of what the model shows of its thinking.",
            type=Constant("response.reasoning_summary_part.added"),
            part=ReasoningSummaryText(help_text="The part, before it has text."),
        ),
        shape(
            "ResponseReasoningSummaryTextDeltaEvent",
            _OfSummary,
            "More of the model's thinking.",
            type=Constant("response.reasoning_summary_text.delta"),
            delta=Text("More text."),
        ),
        shape(
            "ResponseReasoningSummaryTextDoneEvent",
            _OfSummary,
            "The end of the model's thinking.",
            type=Constant("response.reasoning_summary_text.done"),
            text=Text("The whole text."),
        ),
        shape(
            "ResponseReasoningSummaryPartDoneEvent",
            _OfSummary,
            "The end of what the model shows of its thinking.",
            type=Constant("response.reasoning_summary_part.done"),
            part=ReasoningSummaryText(help_text="The whole part."),
        ),
        shape(
            "ResponseFunctionCallArgumentsDeltaEvent",
            _OfItem,
            "More of the arguments of a function.",
            type=Constant("response.function_call_arguments.delta"),
            delta=Text("More of the JSON."),
        ),
        shape(
            "ResponseFunctionCallArgumentsDoneEvent",
            _OfItem,
            "The end of the arguments of a function.",
            type=Constant("response.function_call_arguments.done"),
            name=Text("The function that the model calls."),
            arguments=Text("A JSON object, as text."),
        ),
        shape(
            "ResponseCustomToolCallInputDeltaEvent",
            _OfItem,
            "More of the input of a custom tool.",
            type=Constant("response.custom_tool_call_input.delta"),
            delta=Text("More of the input."),
        ),
        shape(
            "ResponseCustomToolCallInputDoneEvent",
            _OfItem,
            "The end of the input of a custom tool.",
            type=Constant("response.custom_tool_call_input.done"),
            input=Text("The whole input."),
        ),
        shape(
            "ResponseOutputItemDoneEvent",
            _Event,
            "The end of an item.",
            type=Constant("response.output_item.done"),
            output_index=Count("The place of the item in the output, from 0."),
            item=output_item("The whole item."),
        ),
        shape(
            "ResponseCompletedEvent",
            _OfResponse,
            "The last event, with the whole reply and its usage.",
            type=Constant("response.completed"),
        ),
        shape(
            "ResponseIncompleteEvent",
            _OfResponse,
            "The last event of a reply that was cut short, with its usage.",
            type=Constant("response.incomplete"),
        ),
        shape("ResponseFailedEvent", _OfResponse, "The last event of a stream that failed.", type=Constant("response.failed")),
        ResponseErrorEvent,
    ],
)
