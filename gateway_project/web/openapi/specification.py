"""The OpenAPI description at /api/openapi.json, which drf-spectacular generates from the views once per process."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from inspect import isclass
from pathlib import Path
from typing import Any, TypeVar

import gevent
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import get_resolver
from django.utils.module_loading import autodiscover_modules
from django.views.decorators.http import require_safe
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema_view
from drf_spectacular.utils import extend_schema as apply_schema

from gateway_project import errors
from gateway_project.web import hosts, public_page
from gateway_project.web.openapi.fields import Choice, Moment, Number, Text, shape

View = TypeVar("View", bound=Callable[..., Any])

_described: list[tuple[Callable[..., Any], dict[str, Any]]] = []


def extend_schema(**description: Any) -> Callable[[View], View]:
    """Keep what drf-spectacular's decorator of this name is called with when the description is made: it loads much.

    A class has the description of its ``post``, which it inherits.
    """

    def keep(view: View) -> View:
        _described.append((view, description))
        return view

    return keep


@require_safe
def document(request: HttpRequest) -> HttpResponseBase:
    """Reply with the description. It is the same for every client and changes only with the code."""
    headers = {"Content-Type": "application/json", "Cache-Control": "public, max-age=3600"}
    addresses = settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST  # which it names
    key = ("openapi", *addresses)
    return public_page.respond(request, key, lambda: _rendered_document(*addresses).decode(), headers=headers, is_document=True)


@cache
def _rendered_document(*addresses: str) -> bytes:
    from drf_spectacular.generators import SchemaGenerator
    from drf_spectacular.renderers import OpenApiJsonRenderer

    get_resolver().reverse_dict  # noqa: B018  loads the views of all paths
    autodiscover_modules("openapi")  # of the apps: they register security schemes and descriptions of fields
    while _described:
        view, description = _described.pop(0)
        apply = apply_schema(**description)
        extend_schema_view(post=apply)(view) if isclass(view) else apply(view)

    def render() -> bytes:
        document: bytes = OpenApiJsonRenderer().render(SchemaGenerator().get_schema(request=None, public=True))
        return document

    # In a thread, because it takes more than a second, in which the event loop serves others.
    rendered: bytes = gevent.get_hub().threadpool.apply(render)
    return rendered


def read_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_rendered_document(settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST))
    return document


ErrorDetails = shape(
    "ErrorDetails",
    message=Text("For people; the words may change."),
    type=Text("The kind of error, as OpenAI's API has it."),
    code=Text("For programs."),
    param=Text("The field or parameter that is wrong.", allow_null=True),
    reason=Choice(
        ["unknown", "no_provider", "not_offered", "no_ranked_model"],
        "Of model_not_found: why. unknown also where the key may not know of the model.",
        required=False,
    ),
    limit_source=Choice(["account", "key"], "Of a refusal for money: whose money does not suffice.", required=False),
    resets_at=Moment("When the key's spending limit resets, if it does.", required=False),
    held=Number("Of a refusal for money: what running requests hold of it, in US dollars.", required=False, min_value=0),
    held_since=Moment("Since when the oldest of them runs. null: they have ended.", required=False, allow_null=True),
)
ErrorResponse = shape("ErrorResponse", error=ErrorDetails(help_text="What is wrong."))


def error_responses(*conditions: type[errors.ApiError]) -> dict[int, OpenApiResponse]:
    """Return the descriptions of the errors that an operation may reply with, by status, for ``extend_schema``."""
    by_status: dict[int, list[type[errors.ApiError]]] = {}
    of_all: list[type[errors.ApiError]] = [errors.InternalError, errors.ServiceUnavailable]
    for condition in [*conditions, *of_all]:
        by_status.setdefault(condition.status, []).append(condition)
    return {
        status: OpenApiResponse(ErrorResponse, description=" or ".join(sorted({each.code for each in group})))
        for status, group in sorted(by_status.items())
    }


def response_header(name: str, type: Any, description: str, statuses: list[int | str]) -> OpenApiParameter:
    return OpenApiParameter(name, type, OpenApiParameter.HEADER, response=statuses, description=description)


def describe(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Write references as OpenAPI 3.1 can; tell of defaults and errors. A hook of drf-spectacular, before those of the apps."""
    result["components"]["schemas"].pop("Null", None)
    simplified: dict[str, Any] = _simplified(result)
    for schema in simplified["components"]["schemas"].values():
        _describe_defaults(schema)
    for _, _, operation in operations(simplified):
        _describe_errors(operation["responses"])
    return simplified


def add_addresses(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Add at which addresses the paths are served, and the examples, from their file. The last hook of drf-spectacular."""
    examples = json.loads(_EXAMPLES.read_text())
    api_host, base_host = settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST
    # Relative to the address of this description, where the gateway's own name is not known.
    result["servers"] = [{"url": hosts.configured_url(base_host) or "/"}]
    for path, _, operation in operations(result):
        if path.startswith("/v1/") and api_host != base_host:
            operation["servers"] = [{"url": hosts.configured_url(api_host)}]
        _add_examples(operation, examples.get(operation["operationId"], {}))
    return result


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, the method and the description of each operation."""
    for path, by_method in document["paths"].items():
        for method, operation in by_method.items():
            yield path, method, operation


def _simplified(part: Any) -> Any:
    """Write references as generators of clients read them.

    A description stands beside its reference without the ``allOf`` of 3.0: openapi-typescript would take away the ``type`` by
    which objects in it are told apart. Null is a type, not a component: no language has a class so named.
    """
    if part == _NULL_REFERENCE:
        return {"type": "null"}
    if isinstance(part, list):
        return [_simplified(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {name: _simplified(value) for name, value in part.items()}
    if isinstance(found.get("allOf"), list) and len(found["allOf"]) == 1:
        found |= found.pop("allOf")[0]
    return found


def _describe_defaults(schema: dict[str, Any]) -> None:
    """Tell the default of an optional field in its description.

    openapi-typescript takes a field with a ``default`` for one that is always there, and requires it of who sends a request.
    """
    for name, field in schema.get("properties", {}).items():
        if "default" in field and name not in schema.get("required", []):
            default = json.dumps(field.pop("default"))
            field["description"] = f"{field.get('description', '')} Default: {default}.".lstrip()


def _describe_errors(responses: dict[str, Any]) -> None:
    """Add the error reply, which has the same shape everywhere, and the headers of errors."""
    content = {"application/json": {"schema": _ERROR_REFERENCE}}
    responses["default"] = {"description": "Any other error", "content": content}
    for status, response in responses.items():
        response["description"] = response["description"] or "Success"
        headers = response.setdefault("headers", {})
        headers.update({name: _HEADERS[name] for name in ("x-request-id", *_ERROR_HEADERS.get(status, ()))})


def _add_examples(operation: dict[str, Any], given: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", []):
        if parameter["name"] in given.get("parameters", {}):
            parameter["example"] = given["parameters"][parameter["name"]]
    if "request" in given:
        operation["requestBody"]["content"]["application/json"]["example"] = given["request"]
    success = next(response for status, response in operation["responses"].items() if status.startswith("2"))
    for kind, media in success.get("content", {}).items():
        if kind == "text/event-stream" and "events" in given:
            media["x-stream"], first = given["events"], re.search(r"^data: (.+)$", given["events"], re.MULTILINE)
            media["example"] = json.loads(first[1]) if first else None
        elif kind != "text/event-stream" and "reply" in given:
            media["example"] = given["reply"]


_EXAMPLES = Path(__file__).with_name("examples.json")
_TEXT = {"type": "string"}
_ERROR_REFERENCE = {"$ref": "#/components/schemas/ErrorResponse"}
_NULL_REFERENCE = {"$ref": "#/components/schemas/Null"}
_HEADERS: dict[str, dict[str, Any]] = {
    "x-request-id": {"description": "The id of the request. Quote it when you ask for help.", "schema": _TEXT},
    "WWW-Authenticate": {"description": "Bearer", "schema": _TEXT},
    "x-should-retry": {
        "description": "false: a retry does not help. OpenAI's clients obey it.",
        "schema": {"type": "string", "enum": ["false"]},
    },
    "Retry-After": {"description": "When to retry, in seconds.", "schema": {"type": "integer", "minimum": 1}},
    "retry-after-ms": {"description": "When to retry, in milliseconds.", "schema": {"type": "integer", "minimum": 1}},
}
_ERROR_HEADERS = {
    "401": ["WWW-Authenticate"],
    "402": ["x-should-retry"],
    "409": ["Retry-After", "x-should-retry"],
    "424": ["x-should-retry"],
    "429": ["Retry-After", "retry-after-ms", "x-should-retry"],
    "503": ["Retry-After"],
}
