"""Describes Anthropic's errors and headers in the OpenAPI document, at the paths of Messages. A hook of drf-spectacular."""

from typing import Any

_MESSAGES = "/v1/messages"
_PATHS = (_MESSAGES, "/v1/messages/quote", "/v1/messages/count_tokens")
_ERROR = {"$ref": "#/components/schemas/AnthropicErrorResponse"}
_REQUEST_ID = {
    "request-id": {"description": "The same as x-request-id, for Anthropic's clients.", "schema": {"type": "string"}}
}


def describe_errors(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Give the errors of Messages their own shape, and an overloaded provider the status of Anthropic's."""
    content = {"application/json": {"schema": _ERROR}}
    for operation in (each for path in _PATHS for each in result["paths"][path].values()):
        responses = operation["responses"]
        for status, response in responses.items():
            response["headers"] = {**response.get("headers", {}), **_REQUEST_ID}
            if status != "200":
                response["content"] = content
    responses = result["paths"][_MESSAGES]["post"]["responses"]
    responses["529"] = {**responses["default"], "description": "overloaded_error"}
    return result
