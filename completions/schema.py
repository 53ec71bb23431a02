"""The request body of POST /v1/chat/completions: JSON -> ChatRequest, or InvalidRequest whose ``param`` names the field.

Checked here is what the gateway itself understands; every other field is kept for upstreams that understand it. A null
counts as absent, as OpenAI's clients expect.
"""

from typing import Any

from django.conf import settings

from completions.chat import ChatRequest
from gateway_project import errors

ROLES = ("system", "user", "assistant")
MODEL_CHARACTERS_MAX = 200
MAX_TOKENS_MAX = 2**31 - 1


def parse(fields: dict[str, Any], *, body_bytes: int) -> ChatRequest:
    """Check the body. Raises InvalidRequest."""
    stream = _boolean(fields, "stream")
    _number(fields, "temperature", 0, 2)
    _number(fields, "top_p", 0, 1)
    _one_choice(fields)
    model, messages = _model(fields), _messages(fields)
    max_tokens_field = _max_tokens_field(fields)
    return ChatRequest(
        model=model,
        messages=messages,
        max_tokens=_max_tokens(fields, max_tokens_field),
        stream=stream,
        include_usage=_include_usage(fields, stream),
        fields=fields,
        body_bytes=body_bytes,
        max_tokens_field=max_tokens_field,
    )


def _model(fields: dict[str, Any]) -> str:
    model = fields.get("model")
    if model is None:
        raise _refused("model", "is required")
    if not isinstance(model, str):
        raise _refused("model", "must be a string")
    if not 0 < len(model) <= MODEL_CHARACTERS_MAX:
        raise _refused("model", f"must have 1 to {MODEL_CHARACTERS_MAX} characters")
    return model


def _messages(fields: dict[str, Any]) -> list[dict[str, Any]]:
    messages = fields.get("messages")
    if messages is None:
        raise _refused("messages", "is required")
    if not isinstance(messages, list):
        raise _refused("messages", "must be an array")
    if not 1 <= len(messages) <= settings.REQUEST_MESSAGES_MAX:
        raise _refused("messages", f"must have 1 to {settings.REQUEST_MESSAGES_MAX} items")
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]")
    return messages


def _check_message(message: Any, path: str) -> None:
    if not isinstance(message, dict):
        raise _refused(path, "must be an object")
    role = message.get("role")
    if role is None:
        raise _refused(f"{path}.role", "is required")
    if role not in ROLES:
        raise _refused(f"{path}.role", f"must be one of {', '.join(ROLES)}")
    content = message.get("content")
    if content is None:
        raise _refused(f"{path}.content", "is required")
    if not isinstance(content, str):
        raise _refused(f"{path}.content", "must be a string")


def _max_tokens_field(fields: dict[str, Any]) -> str:
    """The name that the cap came by: ``max_tokens``, or ``max_completion_tokens`` as OpenAI calls it today."""
    if fields.get("max_completion_tokens") is None:
        return "max_tokens"
    if fields.get("max_tokens") is not None:
        raise _refused("max_completion_tokens", "must not be given together with max_tokens")
    return "max_completion_tokens"


def _max_tokens(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise _refused(name, "must be an integer")
    if not 1 <= value <= MAX_TOKENS_MAX:
        raise _refused(name, f"must be between 1 and {MAX_TOKENS_MAX}")
    return value


def _number(fields: dict[str, Any], name: str, minimum: int, maximum: int) -> None:
    value = fields.get(name)
    if value is None:
        return
    if type(value) not in (int, float):
        raise _refused(name, "must be a number")
    if not minimum <= value <= maximum:
        raise _refused(name, f"must be between {minimum}.0 and {maximum}.0")


def _boolean(fields: dict[str, Any], name: str, within: str = "") -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _refused(within + name, "must be true or false")
    return value


def _one_choice(fields: dict[str, Any]) -> None:
    value = fields.get("n")
    # Each further choice would cost as much again as the one the hold pays for. True == 1, hence the type.
    if value is not None and (type(value) is not int or value != 1):
        raise _refused("n", "must be 1: one choice is generated for each request")


def _include_usage(fields: dict[str, Any], stream: bool) -> bool:
    options = fields.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict):
        raise _refused("stream_options", "must be an object")
    if not stream:
        raise _refused("stream_options", "is only allowed when stream is true")
    return _boolean(options, "include_usage", within="stream_options.")


def _refused(param: str, what: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(f"{param} {what}.", param=param)
