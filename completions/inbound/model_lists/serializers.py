"""Serializers that describe models for OpenAPI."""

from typing import Any

from rest_framework import serializers

from completions.models import Category, ModelKind
from completions.pricing.meters import METERS, OPENROUTER_NAMES, Meter, Unit
from gateway_project.web.openapi.fields import Array, Choice, Constant, Count, Flag, Integer, SchemaField, Shape, Text, shape


def _price_field(meter: Meter) -> serializers.CharField:
    unit = "token" if meter.unit is Unit.TOKENS else meter.title.lower()
    absent = " Absent: it is refused." if meter.is_asked_for else ""
    return Text(f"{meter.explanation} US dollars for each {unit}, exactly.{absent}", required=not meter.is_asked_for)


class _Pricing(Shape):
    """Has a field for each meter."""

    def get_fields(self) -> dict[str, Any]:
        return {OPENROUTER_NAMES.get(meter.name, meter.name): _price_field(meter) for meter in METERS} | super().get_fields()


class BandPricing(_Pricing):
    prompt_tokens = Integer("A prompt with more tokens is charged whole at these prices.", min_value=1)


class TierPricing(_Pricing):
    above = BandPricing(many=True, required=False, help_text="Of long prompts. Absent: as of short ones.")


class ModelPricing(TierPricing):
    service_tiers = serializers.DictField(
        child=TierPricing(), help_text="Those of service tiers that have prices of their own, by the name of the tier."
    )


class ModelArchitecture(Shape):
    modality = Text("Both lists as one text, such as text+image->text.")
    input_modalities = Array(Text(), "text, image")
    output_modalities = Array(Text(), "text, or embeddings")


class ModelCapabilities(Shape):
    image_support = Flag("Whether it reads images.")
    function_calling = Flag("Whether it calls functions and other tools.")


class TopProvider(Shape):
    context_length = Integer("Maximum tokens of prompt and reply together.", min_value=1)
    max_completion_tokens = Integer("Maximum tokens that it generates.", min_value=1)
    is_moderated = Flag("false")


ModelLinks = shape("ModelLinks", details=Text("The path of this object."))

_NONE = {"type": "object"}


class Model(Shape):
    id = Text("What to send as model.")
    object = Constant("model")
    created = Integer("Unix time in seconds.")
    owned_by = Text("The maker of the model.")
    canonical_slug = Text("The id of the model, also where id is an alias.")
    name = Text("The name of the model, for people.")
    kind = Choice(ModelKind.values, "chat: writes text, at /v1/chat/completions. embedding: at /v1/embeddings.")
    available = Flag("Whether completions are served now.")
    category = Choice(Category.values, "What the model is made for.")
    context_window = Integer("Maximum tokens of prompt and reply together.", min_value=1)
    max_output_tokens = Integer("Maximum tokens that it generates.", min_value=1)
    pricing = ModelPricing(help_text="What its tokens cost.")
    architecture = ModelArchitecture(help_text="What it reads and writes.")
    context_length = Integer("As context_window, in OpenRouter's words.", min_value=1)
    top_provider = TopProvider(help_text="As context_window and max_output_tokens, in OpenRouter's words.")
    supported_parameters = Array(Text(), "Fields of a request that every provider of the model heeds.")
    default_parameters = SchemaField(_NONE, "null", allow_null=True)
    per_request_limits = SchemaField(_NONE, "null", allow_null=True)
    supported_voices = SchemaField(_NONE, "null", allow_null=True)
    expiration_date = serializers.DateField(
        allow_null=True, help_text="From this day on, UTC, it may not be served. null: no end is known."
    )
    successor = Text("The id of the model to use instead, if there is one.", allow_null=True)
    links = ModelLinks(help_text="Where to read more of it.")
    capabilities = ModelCapabilities(help_text="What else it can do.")
    commercial_use = Flag("Whether its license permits commercial use.")
    license = Text("The license of the model, if it is known.", allow_null=True)
    alias_of = Text("The model that the id currently stands for.", required=False)


PageLinks = shape("PageLinks", next=Text("null: there are no pages.", allow_null=True))


class ModelList(Shape):
    object = Constant("list")
    data = Model(many=True, help_text="The models, by id, and after them the aliases.")  # type: ignore[assignment]
    total_count = Count("How many there are.")
    links = PageLinks(help_text="Where the next page is.")
