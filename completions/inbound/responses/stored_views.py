"""GET and DELETE /v1/responses/{id}, and its input items. They are reads of the key, and work for every key of the account."""

from collections.abc import Sequence
from typing import Any

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from completions.charging import stored_responses
from completions.inbound import descriptions
from completions.inbound.completion_view import RatedView, json_reply
from completions.inbound.responses import background, keeping
from completions.inbound.responses import request as responses_request
from completions.inbound.responses.serializers import DeletedResponse, ModelResponse, ResponseItemList
from completions.models import StoredResponse
from completions.request.fields import read_limit
from gateway_project import errors, large_work
from gateway_project.web import query_parameters

ITEMS_DEFAULT, ITEMS_MAX = 20, 100
_ERRORS = (errors.InvalidRequest, errors.PathNotFound, errors.ReplyUnreadable)
_INCLUDE = OpenApiParameter(
    "include",
    {"type": "array", "items": {"type": "string", "enum": list(responses_request.INCLUDED)}},
    description="What else the reply has: reasoning.encrypted_content, what is to be sent back of the model's reasoning.",
)
_PAGING = [
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": ITEMS_MAX, "default": ITEMS_DEFAULT},
        description="How many items.",
    ),
    OpenApiParameter("order", {"type": "string", "enum": ["asc", "desc"], "default": "desc"}, description="The last first."),
    OpenApiParameter("after", str, description="The id of the item before the first."),
]


class _ReadsStored(RatedView):
    def find(self, response_id: str, *columns: str) -> StoredResponse:
        """Return a response of the account, with some of its texts. Raises PathNotFound."""
        found = stored_responses.find(response_id, self.key.account_id, *columns)
        if found is None:
            raise errors.PathNotFound(f"Response with id {response_id[:100]!r} not found.", param="id")
        return found


class StoredResponseView(_ReadsStored):
    """One stored response of the account."""

    @descriptions.key_read(
        "retrieveResponse",
        "Retrieve a stored response",
        "A response that is stored, as it was replied.",
        ModelResponse,
        *_ERRORS,
        parameters=[_INCLUDE],
    )
    def get(self, request: Request, response_id: str) -> HttpResponse:
        included = _included(request)
        if query_parameters.BOOLEANS.get(request.query_params.get("stream", "false")) is not False:
            raise errors.wrong("stream", "must be false: a stored response is replied as a whole")
        return json_reply(_describe(self.find(response_id, "sealed_output", "sealed_reply"), included))

    @descriptions.key_read(
        "deleteResponse",
        "Delete a stored response",
        "No request can continue from it, or from a response that continued from it.",
        DeletedResponse,
        *_ERRORS,
    )
    def delete(self, request: Request, response_id: str) -> HttpResponse:
        stored_responses.delete(self.find(response_id))
        return json_reply({"id": response_id, "object": "response.deleted", "deleted": True})


class CancelledResponseView(_ReadsStored):
    """A response that runs in the background, and is to end."""

    @descriptions.key_read(
        "cancelResponse",
        "Cancel a response in the background",
        "What it says is not stored. It is charged as its provider charges, like a request whose client left.",
        ModelResponse,
        *_ERRORS,
        request=None,
    )
    def post(self, request: Request, response_id: str) -> HttpResponse:
        found = self.find(response_id, *stored_responses.TEXTS)
        if not found.is_background:
            raise errors.wrong("id", "must be that of a response with background: true")
        if not background.is_ended(found):
            stored_responses.cancel(found)
            found = self.find(response_id, *stored_responses.TEXTS)
        return json_reply(_describe(found))


class InputItemsView(_ReadsStored):
    """The input of a stored response, page by page."""

    @descriptions.key_read(
        "listResponseInputItems",
        "List the input of a stored response",
        "The items of its own input: without those of the responses that it went on from.",
        ResponseItemList,
        *_ERRORS,
        parameters=_PAGING,
    )
    def get(self, request: Request, response_id: str) -> HttpResponse:
        limit = read_limit(request.query_params, ITEMS_DEFAULT, ITEMS_MAX)
        order = request.query_params.get("order", "desc")
        if order not in ("asc", "desc"):
            raise errors.wrong("order", "must be asc or desc")
        found = self.find(response_id, "sealed_input")
        if not found.stored_bytes:
            raise errors.PathNotFound("The response has no input that is stored: it is not complete.", param="id")
        with large_work.turn(found.stored_bytes):
            items = [_identified(item, found.pk, index) for index, item in enumerate(keeping.read_input(found))]
        if order == "desc":
            items.reverse()
        return json_reply(_page(items, limit, request.query_params.get("after")))


def _describe(found: StoredResponse, included: Sequence[str] = ()) -> dict[str, Any]:
    with large_work.turn(found.stored_bytes):
        response, shows_sealed = keeping.read_reply(found)
        if not found.stored_bytes:
            return {**response, **background.state(found, response)}
        output: list[Any] = list(keeping.read_output(found))
        if not shows_sealed and responses_request.ENCRYPTED not in included:
            output = [keeping.without_sealed(item) for item in output]
    return {**response, "output": output}


def _included(request: Request) -> list[str]:
    included = [*request.query_params.getlist("include"), *request.query_params.getlist("include[]")]
    for name in included:
        if name not in responses_request.INCLUDED:
            raise errors.wrong("include", f"must be one of {', '.join(responses_request.INCLUDED)}")
    return included


def _identified(item: msgspec.Raw, response_id: str, index: int) -> dict[str, Any]:
    """Return an item of an input with an id: its own, or one that is always the same."""
    fields: dict[str, Any] = msgspec.json.decode(item)
    given = fields.get("id")
    return {**fields, "id": given if isinstance(given, str) else f"item_{response_id.removeprefix('chatcmpl-')}_{index}"}


def _page(items: list[dict[str, Any]], limit: int, after: str | None) -> dict[str, Any]:
    ids = [item["id"] for item in items]
    if after is not None and after not in ids:
        raise errors.wrong("after", "must be the id of an item of this input")
    begin = 0 if after is None else ids.index(after) + 1
    page = items[begin : begin + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": begin + limit < len(items),
    }
