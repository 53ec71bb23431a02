"""GET /v1/models and GET /v1/models/{id}. A header of the request says whether they are OpenAI's or Anthropic's."""

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from completions.catalog import lookup
from completions.catalog.lookup import Listing
from completions.inbound import descriptions
from completions.inbound.completion_view import RatedView, json_reply
from completions.inbound.model_lists import anthropic, openai
from completions.inbound.model_lists.serializers import Model, ModelList
from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.web import query_parameters

_AVAILABLE = {"true": True, "false": False, "all": None}
_AVAILABLE_PARAMETER = OpenApiParameter(
    "available",
    # True and False are read, too, as Python writes them. Described, they would be the same names in generated clients.
    type={"type": "string", "enum": [*_AVAILABLE, "1", "0"], "default": "true"},
    description="Models that can be called with this key now (1 means true), those that cannot (0 means false), or all.",
)


class ModelListView(RatedView):
    @descriptions.key_read(
        "listModels",
        "List the models",
        "Models with their prices and limits, by id. A key that is restricted to some models sees only those.",
        ModelList,
        errors.InvalidRequest,
        parameters=[_AVAILABLE_PARAMETER],
    )
    def get(self, request: Request) -> HttpResponse:
        allowed, available = self.key.allowed_models or None, _available(request)
        parameters = (tuple(allowed) if allowed else None, available)
        if "HTTP_ANTHROPIC_VERSION" in request.META:
            if (listings := _listings.get(parameters)) is None:
                _listings.put(parameters, listings := lookup.list_models(allowed, available=available))
            return json_reply(anthropic.page(listings, request.query_params))
        rendered = _rendered_lists.get(parameters)
        if rendered is None:
            rendered = _render(lookup.list_models(allowed, available=available))
            _rendered_lists.put(parameters, rendered)
        return HttpResponse(rendered, content_type="application/json")


# By the models that a key may use (None: all), and the parameter ``available``. To make a list takes longer than a completion.
_rendered_lists: TTLCache[tuple[tuple[str, ...] | None, bool | None], bytes] = TTLCache(
    seconds=settings.CATALOG_CACHE_SECONDS, entries_max=100
)
# The same, for pages in Anthropic's shape.
_listings: TTLCache[tuple[tuple[str, ...] | None, bool | None], list[Listing]] = TTLCache(
    seconds=settings.CATALOG_CACHE_SECONDS, entries_max=100
)


def _render(listings: list[Listing]) -> bytes:
    whole = {"total_count": len(listings), "links": {"next": None}}  # OpenRouter's SDKs refuse a list without them
    return bytes(JSONRenderer().render({"object": "list", "data": [openai.model_object(each) for each in listings], **whole}))


class ModelView(RatedView):
    @descriptions.key_read(
        "retrieveModel", "Retrieve a model", "One model. The slashes in its id are not encoded.", Model, errors.ModelNotFound
    )
    def get(self, request: Request, model_id: str) -> Response:
        listing = lookup.find_listing(model_id, self.key.allowed_models or None)
        shape = anthropic.model_object if "HTTP_ANTHROPIC_VERSION" in request.META else openai.model_object
        return Response(shape(listing))


def _available(request: Request) -> bool | None:
    """Return the parameter ``available``; None for all models. Raises InvalidRequest."""
    given = request.query_params.get("available", "true")
    words = _AVAILABLE | query_parameters.BOOLEANS
    if given not in words:
        raise errors.wrong("available", "must be true, false or all")
    return words[given]
