"""How the OpenAPI description says ``Authorization: Bearer <API key>``. Imported when the app is ready; registers itself."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class BearerKeyScheme(OpenApiAuthenticationExtension):
    target_class = "keys.authentication.BearerKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API key of the gateway: Authorization: Bearer <API_KEY>"}
