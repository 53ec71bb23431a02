"""The OpenAPI description at /api/openapi.json, which drf-spectacular generates from the views once per process."""

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer


@require_safe
def document(request: HttpRequest) -> HttpResponse:
    """Reply with the description. It is the same for every client and changes only with the code."""
    return HttpResponse(
        _rendered_document(), content_type="application/json", headers={"Cache-Control": "public, max-age=3600"}
    )


@cache
def _rendered_document() -> bytes:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    rendered: bytes = OpenApiJsonRenderer().render(schema)
    return rendered


def describe_errors(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Add the error reply, which has the same shape everywhere, to every operation. A hook of drf-spectacular."""
    result.setdefault("components", {}).setdefault("schemas", {})["Error"] = _ERROR_SCHEMA
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"]["default"] = {"description": "An error", "content": content}
    return result


_TEXT = {"type": "string"}
_ERROR_FIELDS = {"message": _TEXT, "type": _TEXT, "code": _TEXT, "param": {"type": "string", "nullable": True}}
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "object", "required": list(_ERROR_FIELDS), "properties": _ERROR_FIELDS}},
}
