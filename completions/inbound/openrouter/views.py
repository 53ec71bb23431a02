"""GET /v1/key and GET /v1/generation, as OpenRouter has them. They are reads of the key."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from completions.inbound.completion_view import RatedView, json_reply
from completions.inbound.openrouter.generation import describe_generation
from completions.inbound.openrouter.key import describe_key
from completions.inbound.openrouter.serializers import GenerationObject, KeyObject
from gateway_project import errors
from gateway_project.web.openapi import specification
from gateway_project.web.openapi.descriptions import extend_schema

_ID = OpenApiParameter("id", str, required=True, description="The id of a completion of the account.")


class KeyView(RatedView):
    """What the key has used and may use. Also when it is used up."""

    @extend_schema(
        operation_id="retrieveCurrentKey",
        summary="Retrieve the key, in OpenRouter's format",
        description="What the key has used and may use, in OpenRouter's format. GET /v1/usage says more.",
        responses={200: KeyObject, **specification.error_responses(errors.InvalidApiKey, errors.RateLimitExceeded)},
    )
    def get(self, request: Request) -> HttpResponse:
        return json_reply(describe_key(self.key))


class GenerationView(RatedView):
    """What happened to a completion of the account, once it is settled."""

    @extend_schema(
        operation_id="retrieveGeneration",
        summary="Retrieve a completion, in OpenRouter's format",
        description="Who answered a completion of the account, its tokens and its exact cost, in OpenRouter's format.",
        parameters=[_ID],
        responses={
            200: GenerationObject,
            **specification.error_responses(
                errors.InvalidRequest, errors.InvalidApiKey, errors.PathNotFound, errors.RateLimitExceeded
            ),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        if not (completion_id := request.query_params.get("id")):
            raise errors.wrong("id", "is required")
        return json_reply(describe_generation(completion_id, self.key.account_id))
