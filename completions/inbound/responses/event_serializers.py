"""Serializers that describe the events of a stream of OpenAI's Responses for OpenAPI, under OpenAI's names of them."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer

from completions.inbound.responses.serializers import (
    ModelResponse,
    ReasoningSummaryText,
    output_content,
    output_item,
    token_logprobs,
)
from gateway_project.web.openapi.fields import (
    AnyObject,
    Constant,
    Count,
    Described,
    Shape,
    Text,
    component_name,
    one_of,
    shape,
    variant,
)
from gateway_project.web.openapi.specification import ErrorDetails


class _Event(Shape):
    sequence_number = Count("The number of the event, from 0.")


class _OfItem(_Event):
    item_id = Text("The id of the item.")
    output_index = Count("The place of the item in the output, from 0.")


_OfResponse = shape("_OfResponse", _Event, response=ModelResponse(help_text="The response, as it is now."))
_OfPart = shape("_OfPart", _OfItem, content_index=Count("The place of the part in the message, from 0."))
_OfSummary = shape("_OfSummary", _OfItem, summary_index=Count("The place of the part in the summary, from 0."))


def _event(kind: str, base: Described, about: str, name: str = "", /, **fields: Any) -> Described:
    return variant(f"Response{name or component_name(kind)}Event", f"response.{kind}", base, about, **fields)


@extend_schema_serializer(description="The event before the last of a stream that failed.")
class ResponseErrorEvent(_Event):
    type = Constant("error")
    code = Text("For programs.")
    message = Text("For people; the words may change.")
    param = Text("The field or parameter that is wrong.", allow_null=True)
    error = ErrorDetails(help_text="The same again, for clients that look for it here.")


STREAM_EVENT = one_of(
    "ResponseStreamEvent",
    [
        _event("created", _OfResponse, "The first event."),
        _event("in_progress", _OfResponse, "The second event."),
        _event(
            "output_item.added",
            _Event,
            "The beginning of an item.",
            output_index=Count("The place of the item in the output, from 0."),
            item=output_item("The item, before it has text or arguments."),
        ),
        _event(
            "content_part.added",
            _OfPart,
            "The beginning of a part of a message.",
            part=output_content("The part, before it has text."),
        ),
        _event("output_text.delta", _OfPart, "More text.", "TextDelta", delta=Text("More text."), logprobs=token_logprobs()),
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
            logprobs=token_logprobs(),
        ),
        _event("refusal.delta", _OfPart, "More of what the model says instead, because it refuses.", delta=Text("More text.")),
        _event("refusal.done", _OfPart, "The end of a refusal.", refusal=Text("The whole text.")),
        _event("content_part.done", _OfPart, "The end of a part of a message.", part=output_content("The whole part.")),
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
            item=output_item("The whole item."),
        ),
        _event("completed", _OfResponse, "The last event, with the whole reply and its usage."),
        _event("incomplete", _OfResponse, "The last event of a reply that was cut short, with its usage."),
        _event("failed", _OfResponse, "The last event of a stream that failed."),
        ResponseErrorEvent,
    ],
)
