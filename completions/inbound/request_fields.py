"""The OpenAPI description of fields that requests of several languages have."""

from typing import Any

from completions.request import schema
from gateway_project.web.openapi.fields import Array, Number, SchemaField, Text, optional

TAGS = {
    "type": "object",
    "maxProperties": schema.TAGS_MAX,
    "propertyNames": {"minLength": 1, "maxLength": schema.TAG_NAME_CHARACTERS_MAX},
    "additionalProperties": {"type": "string", "maxLength": schema.LABEL_CHARACTERS_MAX},
}
_TOOL_CHOICE = {
    "oneOf": [{"type": "string", "enum": list(schema.TOOL_CHOICES)}, {"type": "object", "additionalProperties": True}]
}


def model(help_text: str | None = "An id of GET /v1/models that is available.") -> Text:
    return Text(help_text, min_length=1, max_length=schema.MODEL_CHARACTERS_MAX)


def models() -> Any:
    about = "Models to try in turn when the first cannot serve the request."
    return optional(Array, model(None), about, max_length=schema.FALLBACKS_MAX)


def temperature(maximum: int) -> Any:
    return optional(Number, "How much chance decides: the higher, the more varied.", 0, maximum)


def top_p() -> Any:
    about = "The model chooses among the likeliest tokens that together have this probability."
    return optional(Number, about, 0, 1)


def tool_choice(help_text: str = "none, auto, required, or an object that names a tool.", **options: Any) -> SchemaField:
    return SchemaField(_TOOL_CHOICE, help_text, allow_null=True, **options)


def user(help_text: str = "Your own id of who asks. The usage page groups by it.") -> Any:
    return optional(Text, help_text, max_length=schema.LABEL_CHARACTERS_MAX)
