"""Adds the security schemes and the x-ratelimit-* headers to the OpenAPI description, before which it is loaded."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class BearerKeyScheme(OpenApiAuthenticationExtension):
    target_class = "keys.authentication.BearerKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API key of the gateway: Authorization: Bearer <API_KEY>"}


class ManagementKeyScheme(OpenApiAuthenticationExtension):
    target_class = "keys.key_api.authentication.ManagementAuthentication"
    name = "managementKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A management key: Authorization: Bearer <MANAGEMENT_KEY>"}


def describe_rates(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Add the rate-limit headers to every reply to a key under /v1, errors included. A hook of drf-spectacular."""
    for path, operations in result["paths"].items():
        for operation in operations.values() if path.startswith("/v1/") else ():
            for status, response in operation["responses"].items():
                if status == "401":
                    continue  # the reply is to no key
                response["headers"] = {**response.get("headers", {}), **_RATE_HEADERS}
    return result


_INTEGER = {"type": "integer"}
_MEANINGS = {
    "limit": ("integer", "The key's limit of {} per minute, where it has one"),
    "remaining": ("integer", "How many {} it has left of it"),
    "reset": ("string", "The time until the whole allowance of {} is back, as 12ms, 1s or 6m0s"),
}
_RATE_HEADERS = {
    f"x-ratelimit-{name}-{what}": {"description": meaning.format(what), "schema": {"type": type}}
    for what in ("requests", "tokens")
    for name, (type, meaning) in _MEANINGS.items()
} | {
    "x-ratelimit-limit-concurrent": {"description": "How many requests of the key may run at a time", "schema": _INTEGER},
    "x-ratelimit-remaining-concurrent": {"description": "How many more of them may run now", "schema": _INTEGER},
}
