"""Serializers that describe embeddings for OpenAPI. ``request`` parses requests, and ``reply`` writes replies."""

from drf_spectacular.utils import extend_schema_serializer

from completions.inbound import request_fields
from completions.inbound.chat_completions.serializers import ProviderPreferences
from completions.inbound.embeddings import request
from gateway_project.web.openapi.fields import Choice, Constant, Count, Integer, Number, SchemaField, Shape, Text, optional

_TEXT = {"type": "string", "minLength": 1}
_TOKENS = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": request.TOKEN_MAX}}
_MANY = {"type": "array", "minItems": 1, "maxItems": request.INPUTS_MAX}
_INPUT = {"oneOf": [_TEXT, _TOKENS, {**_MANY, "items": _TEXT}, {**_MANY, "items": _TOKENS}]}
_EMBEDDING = {"oneOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string", "format": "byte"}]}


@extend_schema_serializer(description="A null counts as absent. Other fields are refused.")
class EmbeddingRequest(Shape):
    model = request_fields.model("An id of GET /v1/models whose kind is embedding.")
    input = SchemaField(
        _INPUT, f"A text, or an array of tokens; or many. At most {request.TOKENS_MAX:,} tokens in total, as estimated."
    )
    dimensions = optional(
        Integer, "How many numbers each embedding has. A model that cannot choose refuses it.", 1, request.DIMENSIONS_MAX
    )
    encoding_format = optional(
        Choice,
        request.ENCODING_FORMATS,
        "float (the default): numbers. base64: numbers of 32 bits each, the lowest byte first.",
    )
    user = request_fields.user("An id of your end user.")
    metadata = optional(SchemaField, request_fields.TAGS, "Tags of your own.")
    provider = optional(ProviderPreferences, help_text="Which providers may answer.")


class EmbeddingResult(Shape):
    object = Constant("embedding")
    index = Count("The place of its input.")
    embedding = SchemaField(_EMBEDDING, "The numbers, or base64 of them, as encoding_format asked for.")


class EmbeddingUsage(Shape):
    prompt_tokens = Count("Tokens of the input.")
    total_tokens = Count("The same: nothing is generated.")
    cost = Number("US dollars, exactly.", allow_null=True)


class EmbeddingList(Shape):
    id = Text("For GET /v1/completions/{completion_id}.")
    object = Constant("list")
    data = EmbeddingResult(many=True, help_text="An embedding for each input.")  # type: ignore[assignment]
    model = Text("The model that answered.")
    usage = EmbeddingUsage(help_text="The tokens that are charged.")
