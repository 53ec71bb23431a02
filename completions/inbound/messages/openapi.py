"""Describes Anthropic's errors and headers in the OpenAPI document, at the paths of Messages. A hook of drf-spectacular."""

from typing import Any

_MESSAGES = "/v1/messages"
_PATHS = (_MESSAGES, "/v1/messages/quote", "/v1/messages/count_tokens")
_TEXT = {"type": "string"}
_NAME = "AnthropicError"
_SCHEMA = {
    "type": "object",
    "required": ["type", "error", "request_id"],
    "properties": {
        "type": {"type": "string", "enum": ["error"]},
        "error": {"type": "object", "required": ["type", "message"], "properties": {"type": _TEXT, "message": _TEXT}},
        "request_id": _TEXT,
    },
}
_REQUEST_ID = {"request-id": {"description": "The same as x-request-id, for Anthropic's clients.", "schema": _TEXT}}


def describe_errors(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Give the errors of Messages their own shape, and an overloaded provider the status of Anthropic's."""
    result["components"]["schemas"][_NAME] = _SCHEMA
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_NAME}"}}}
    for operation in (each for path in _PATHS for each in result["paths"][path].values()):
        responses = operation["responses"]
        for status, response in responses.items():
            response["headers"] = {**response.get("headers", {}), **_REQUEST_ID}
            if status != "200":
                response["content"] = content
    responses = result["paths"][_MESSAGES]["post"]["responses"]
    responses["529"] = {**responses["default"], "description": "overloaded_error"}
    return result
