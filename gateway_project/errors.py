"""LEAF. Everything the gateway can refuse with: one class a condition, its status, type and code on the class.

The body is always ``{"error": {"message", "type", "code", "param"}}``. Clients of OpenAI's API read ``code``; their
retries follow ``x-should-retry`` and ``Retry-After``.
"""

import math
from datetime import timedelta
from typing import Any

# The longest wait worth asking for: told to wait longer, some clients sleep through it and others come back at once.
CLIENT_PATIENCE_SECONDS = 60


def retry_after(wait: timedelta) -> dict[str, str]:
    """The headers that say so: in seconds for everybody, in milliseconds for OpenAI's clients. Rounded up."""
    seconds = wait.total_seconds()
    return {"Retry-After": str(max(math.ceil(seconds), 1)), "retry-after-ms": str(max(math.ceil(seconds * 1000), 1))}


class ApiError(Exception):
    """Base of every refusal. ``param`` names the field at fault; ``headers`` are added to the class's own."""

    status = 500
    type = "api_error"
    code = "internal_error"
    fixed_headers: dict[str, str] = {}

    def __init__(self, message: str, *, param: str | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = {**self.fixed_headers, **(headers or {})}

    def body(self) -> dict[str, Any]:
        """The JSON body, as a dict."""
        return {"error": {"message": self.message, "type": self.type, "code": self.code, "param": self.param}}


# --- The request is wrong: repeating it will not help ----------------------------------------------------------


class InvalidRequest(ApiError):
    status, type, code = 400, "invalid_request_error", "invalid_request_error"


def wrong(param: str, what: str) -> InvalidRequest:
    """About one field, in a sentence that begins with its name: "temperature must be a number."."""
    return InvalidRequest(f"{param} {what}.", param=param)


class InvalidApiKey(InvalidRequest):
    status, code = 401, "invalid_api_key"
    fixed_headers = {"WWW-Authenticate": "Bearer"}


class Forbidden(InvalidRequest):
    status = 403


class PathNotFound(InvalidRequest):
    status = 404


class ModelNotFound(InvalidRequest):
    status, code = 404, "model_not_found"


class MethodNotAllowed(InvalidRequest):
    status = 405


class RequestTimeout(InvalidRequest):
    status = 408


class LengthRequired(InvalidRequest):
    status = 411


class RequestInProgress(InvalidRequest):
    """A request with the same Idempotency-Key is still running."""

    status, code = 409, "request_in_progress"
    fixed_headers = {"Retry-After": "1"}


class RequestTooLarge(InvalidRequest):
    status = 413


class UnsupportedMediaType(InvalidRequest):
    status = 415


# --- The money does not allow it -------------------------------------------------------------------------------


class InsufficientQuota(ApiError):
    """The account has too few credits, held or not."""

    status, type, code = 402, "insufficient_quota", "insufficient_quota"
    fixed_headers = {"x-should-retry": "false"}


class RateLimitExceeded(ApiError):
    """Requests or tokens per minute. Give ``Retry-After``."""

    status, type, code = 429, "rate_limit_error", "rate_limit_exceeded"


class TiedUp(RateLimitExceeded):
    """Funds, or the key's window, would do but are held by running requests."""

    fixed_headers = retry_after(timedelta(seconds=1))


class SpendingLimitReached(RateLimitExceeded):
    """The key's own limit. ``Retry-After`` only where the limit resets."""

    fixed_headers = {"x-should-retry": "false"}


# --- Somebody else failed, or we did ---------------------------------------------------------------------------


class UpstreamFailed(ApiError):
    status, code = 502, "upstream_error"


class UpstreamOverloaded(UpstreamFailed):
    status = 503


class UpstreamTimeout(UpstreamFailed):
    status = 504


class ServiceUnavailable(ApiError):
    """Our own store is away."""

    status, code = 503, "service_unavailable"
    fixed_headers = {"Retry-After": "2"}


class InternalError(ApiError):
    """A fault of ours that nobody foresaw. Says nothing but the request id."""
