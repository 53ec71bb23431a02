"""Adds the security scheme of management keys to the OpenAPI description. ``keys.apps`` imports it; it registers itself."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class ManagementKeyScheme(OpenApiAuthenticationExtension):
    target_class = "keys.key_api.authentication.ManagementAuthentication"
    name = "managementKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A management key: Authorization: Bearer <MANAGEMENT_KEY>"}
