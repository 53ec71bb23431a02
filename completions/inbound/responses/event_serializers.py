"""Serializers that describe the events of a stream of OpenAI's Responses for OpenAPI, under OpenAI's names of them."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from completions.inbound.responses.serializers import (
    ModelResponseSerializer,
    ReasoningSummaryTextSerializer,
    output_content,
    output_item,
)
from gateway_project.web.openapi.fields import Constant, SchemaField, one_of
from gateway_project.web.openapi.specification import ErrorDetailsSerializer

_OBJECT = {"type": "object", "additionalProperties": True}


def _logprobs() -> serializers.ListField:
    return serializers.ListField(
        child=SchemaField(_OBJECT), help_text="The probabilities of the tokens, if they were asked for."
    )


class _EventSerializer(serializers.Serializer[Any]):
    sequence_number = serializers.IntegerField(min_value=0, help_text="The number of the event, from 0.")


class _OfResponseSerializer(_EventSerializer):
    response = ModelResponseSerializer(help_text="The response, as it is now.")


class _OfItemSerializer(_EventSerializer):
    item_id = serializers.CharField(help_text="The id of the item.")
    output_index = serializers.IntegerField(min_value=0, help_text="The place of the item in the output, from 0.")


class _OfPartSerializer(_OfItemSerializer):
    content_index = serializers.IntegerField(min_value=0, help_text="The place of the part in the message, from 0.")


class _OfSummarySerializer(_OfItemSerializer):
    summary_index = serializers.IntegerField(min_value=0, help_text="The place of the part in the summary, from 0.")


# --- The response -----------------------------------------------------------------------------------------------------


@extend_schema_serializer(description="The first event.")
class ResponseCreatedEventSerializer(_OfResponseSerializer):
    type = Constant("response.created")


@extend_schema_serializer(description="The second event.")
class ResponseInProgressEventSerializer(_OfResponseSerializer):
    type = Constant("response.in_progress")


@extend_schema_serializer(description="The last event, with the whole reply and its usage.")
class ResponseCompletedEventSerializer(_OfResponseSerializer):
    type = Constant("response.completed")


@extend_schema_serializer(description="The last event of a reply that was cut short, with its usage.")
class ResponseIncompleteEventSerializer(_OfResponseSerializer):
    type = Constant("response.incomplete")


@extend_schema_serializer(description="The last event of a stream that failed.")
class ResponseFailedEventSerializer(_OfResponseSerializer):
    type = Constant("response.failed")


@extend_schema_serializer(description="The event before the last of a stream that failed.")
class ResponseErrorEventSerializer(_EventSerializer):
    type = Constant("error")
    code = serializers.CharField(help_text="For programs.")
    message = serializers.CharField(help_text="For people; the words may change.")
    param = serializers.CharField(allow_null=True, help_text="The field or parameter that is wrong.")
    error = ErrorDetailsSerializer(help_text="The same again, for clients that look for it here.")


# --- Items and parts --------------------------------------------------------------------------------------------------


@extend_schema_serializer(description="The beginning of an item.")
class ResponseOutputItemAddedEventSerializer(_EventSerializer):
    type = Constant("response.output_item.added")
    output_index = serializers.IntegerField(min_value=0, help_text="The place of the item in the output, from 0.")
    item = output_item(help_text="The item, before it has text or arguments.")


@extend_schema_serializer(description="The end of an item.")
class ResponseOutputItemDoneEventSerializer(_EventSerializer):
    type = Constant("response.output_item.done")
    output_index = serializers.IntegerField(min_value=0, help_text="The place of the item in the output, from 0.")
    item = output_item(help_text="The whole item.")


@extend_schema_serializer(description="The beginning of a part of a message.")
class ResponseContentPartAddedEventSerializer(_OfPartSerializer):
    type = Constant("response.content_part.added")
    part = output_content(help_text="The part, before it has text.")


@extend_schema_serializer(description="The end of a part of a message.")
class ResponseContentPartDoneEventSerializer(_OfPartSerializer):
    type = Constant("response.content_part.done")
    part = output_content(help_text="The whole part.")


@extend_schema_serializer(description="The beginning of what the model shows of its thinking.")
class ResponseReasoningSummaryPartAddedEventSerializer(_OfSummarySerializer):
    type = Constant("response.reasoning_summary_part.added")
    part = ReasoningSummaryTextSerializer(help_text="The part, before it has text.")


@extend_schema_serializer(description="The end of what the model shows of its thinking.")
class ResponseReasoningSummaryPartDoneEventSerializer(_OfSummarySerializer):
    type = Constant("response.reasoning_summary_part.done")
    part = ReasoningSummaryTextSerializer(help_text="The whole part.")


# --- What the model says ----------------------------------------------------------------------------------------------


@extend_schema_serializer(description="More text.")
class ResponseTextDeltaEventSerializer(_OfPartSerializer):
    type = Constant("response.output_text.delta")
    delta = serializers.CharField(help_text="More text.")
    logprobs = _logprobs()


@extend_schema_serializer(description="The end of a text.")
class ResponseTextDoneEventSerializer(_OfPartSerializer):
    type = Constant("response.output_text.done")
    text = serializers.CharField(help_text="The whole text.")
    logprobs = _logprobs()


@extend_schema_serializer(description="What a text cites.")
class ResponseOutputTextAnnotationAddedEventSerializer(_OfPartSerializer):
    type = Constant("response.output_text.annotation.added")
    annotation_index = serializers.IntegerField(min_value=0, help_text="The place of the annotation, from 0.")
    annotation = SchemaField({"type": "object", "additionalProperties": True}, help_text="As OpenAI sends it.")


@extend_schema_serializer(description="More of what the model says instead, because it refuses.")
class ResponseRefusalDeltaEventSerializer(_OfPartSerializer):
    type = Constant("response.refusal.delta")
    delta = serializers.CharField(help_text="More text.")


@extend_schema_serializer(description="The end of a refusal.")
class ResponseRefusalDoneEventSerializer(_OfPartSerializer):
    type = Constant("response.refusal.done")
    refusal = serializers.CharField(help_text="The whole text.")


@extend_schema_serializer(description="More of the model's thinking.")
class ResponseReasoningSummaryTextDeltaEventSerializer(_OfSummarySerializer):
    type = Constant("response.reasoning_summary_text.delta")
    delta = serializers.CharField(help_text="More text.")


@extend_schema_serializer(description="The end of the model's thinking.")
class ResponseReasoningSummaryTextDoneEventSerializer(_OfSummarySerializer):
    type = Constant("response.reasoning_summary_text.done")
    text = serializers.CharField(help_text="The whole text.")


@extend_schema_serializer(description="More of the arguments of a function.")
class ResponseFunctionCallArgumentsDeltaEventSerializer(_OfItemSerializer):
    type = Constant("response.function_call_arguments.delta")
    delta = serializers.CharField(help_text="More of the JSON.")


@extend_schema_serializer(description="The end of the arguments of a function.")
class ResponseFunctionCallArgumentsDoneEventSerializer(_OfItemSerializer):
    type = Constant("response.function_call_arguments.done")
    name = serializers.CharField(help_text="The function that the model calls.")
    arguments = serializers.CharField(help_text="A JSON object, as text.")


@extend_schema_serializer(description="More of the input of a custom tool.")
class ResponseCustomToolCallInputDeltaEventSerializer(_OfItemSerializer):
    type = Constant("response.custom_tool_call_input.delta")
    delta = serializers.CharField(help_text="More of the input.")


@extend_schema_serializer(description="The end of the input of a custom tool.")
class ResponseCustomToolCallInputDoneEventSerializer(_OfItemSerializer):
    type = Constant("response.custom_tool_call_input.done")
    input = serializers.CharField(help_text="The whole input.")


STREAM_EVENT = one_of(
    "ResponseStreamEvent",
    [
        ResponseCreatedEventSerializer,
        ResponseInProgressEventSerializer,
        ResponseOutputItemAddedEventSerializer,
        ResponseContentPartAddedEventSerializer,
        ResponseTextDeltaEventSerializer,
        ResponseOutputTextAnnotationAddedEventSerializer,
        ResponseTextDoneEventSerializer,
        ResponseRefusalDeltaEventSerializer,
        ResponseRefusalDoneEventSerializer,
        ResponseContentPartDoneEventSerializer,
        ResponseReasoningSummaryPartAddedEventSerializer,
        ResponseReasoningSummaryTextDeltaEventSerializer,
        ResponseReasoningSummaryTextDoneEventSerializer,
        ResponseReasoningSummaryPartDoneEventSerializer,
        ResponseFunctionCallArgumentsDeltaEventSerializer,
        ResponseFunctionCallArgumentsDoneEventSerializer,
        ResponseCustomToolCallInputDeltaEventSerializer,
        ResponseCustomToolCallInputDoneEventSerializer,
        ResponseOutputItemDoneEventSerializer,
        ResponseCompletedEventSerializer,
        ResponseIncompleteEventSerializer,
        ResponseFailedEventSerializer,
        ResponseErrorEventSerializer,
    ],
)
