"""Adds a serializer field of the project to the OpenAPI description, before which it is loaded."""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension


class TextOrDescription(OpenApiSerializerFieldExtension):
    target_class = "gateway_project.web.openapi.fields.TextOr"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        return {"oneOf": [{"type": "string"}, auto_schema._map_serializer_field(self.target.other, direction)]}
