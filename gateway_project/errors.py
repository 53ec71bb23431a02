"""Every error reply of the API: one class per condition, with its status, type and code.

The body is always ``{"error": {"message", "type", "code", "param"}}``. Clients of OpenAI's API read ``code``; their
retries follow ``x-should-retry`` and ``Retry-After``.
"""

import math
from datetime import timedelta
from typing import Any

# The longest Retry-After that is useful: with a longer one, some clients sleep that long and others retry at once.
RETRY_AFTER_SECONDS_MAX = 60


def retry_after(wait: timedelta) -> dict[str, str]:
    """Return headers that tell a client when to retry: in seconds, and in milliseconds for OpenAI's clients. Rounded up."""
    seconds = wait.total_seconds()
    return {"Retry-After": str(max(math.ceil(seconds), 1)), "retry-after-ms": str(max(math.ceil(seconds * 1000), 1))}


def reason(error: BaseException) -> str:
    """Return the first line of the error's message, of its cause's message, or else the name of its class. Never nothing.

    Errors of the database go on with values of rows, and those of connections with advice.
    """
    sentences = (str(each).strip().partition("\n")[0] for each in (error, error.__cause__) if each)
    return next(filter(None, sentences), type(error).__name__)


class ApiError(Exception):
    """Base class. ``param`` names the invalid field; ``headers`` are added to the class's own.

    ``quotes_request``: the message has words of the request, or a provider's about it. Nobody but the caller may see them.
    """

    status = 500
    type = "api_error"
    code = "internal_error"
    fixed_headers: dict[str, str] = {}
    details: dict[str, Any] | None = None  # for programs, in the one language that has a place for them: Messages

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
        quotes_request: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = {**self.fixed_headers, **(headers or {})}
        self.quotes_request = quotes_request

    def body(self) -> dict[str, Any]:
        """Return the JSON body as a dict."""
        return {"error": {"message": self.message, "type": self.type, "code": self.code, "param": self.param}}


# --- Invalid requests: a retry does not help --------------------------------------------------------------------


class InvalidRequest(ApiError):
    status, type, code = 400, "invalid_request_error", "invalid_request_error"


def wrong(param: str, problem: str, *, quotes_request: bool = False) -> InvalidRequest:
    """Return an error about one field, in a sentence that begins with its name: "temperature must be a number."."""
    return InvalidRequest(f"{param} {problem.removesuffix('.')}.", param=param, quotes_request=quotes_request)


class InvalidApiKey(InvalidRequest):
    """The key is missing, unknown, revoked or expired, or its account is closed.

    Every message begins as OpenAI's does: LiteLLM, and so aider, tells a 401 from a bad request by these words.
    """

    status, code = 401, "invalid_api_key"
    fixed_headers = {"WWW-Authenticate": "Bearer"}


class SecretEnded(InvalidApiKey):
    """The key was rotated, and this former secret of it works no longer. Other requests of the key are not affected."""


class Forbidden(InvalidRequest):
    status = 403


class PathNotFound(InvalidRequest):
    status = 404


class ModelNotFound(InvalidRequest):
    status, code = 404, "model_not_found"


class PreviousResponseNotFound(InvalidRequest):
    """A request goes on from a response that the account has not stored, or no longer."""

    code = "previous_response_not_found"


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


class ReplyUnreadable(InvalidRequest):
    """The reply stored for an Idempotency-Key is encrypted with a key that the gateway no longer has."""

    status, code = 409, "reply_unreadable"
    fixed_headers = {"x-should-retry": "false"}


class RequestTooLarge(InvalidRequest):
    status = 413


class MaximumReached(InvalidRequest):
    """The account has reached a maximum. The message says which, and what to do."""


class UnsupportedMediaType(InvalidRequest):
    status = 415


# --- Credits and limits ----------------------------------------------------------------------------------------


class InsufficientQuota(ApiError):
    """The account has too few credits, even if all its holds were released."""

    status, type, code = 402, "insufficient_quota", "insufficient_quota"
    fixed_headers = {"x-should-retry": "false"}


class RateLimitExceeded(ApiError):
    """The limit of requests or tokens per minute. Pass ``Retry-After`` in ``headers``."""

    status, type, code = 429, "rate_limit_error", "rate_limit_exceeded"


class TooManyInFlight(RateLimitExceeded):
    """The key, or its account, has as many requests in flight as it may."""

    fixed_headers = retry_after(timedelta(seconds=1))


class TooManyInFlightOfModel(TooManyInFlight):
    """The key has as many requests for the model in flight as each key may."""


class TooMuchUnpaid(RateLimitExceeded):
    """The account's requests cost the operator more than it may leave unpaid in an hour."""


class TiedUp(RateLimitExceeded):
    """The account's credits or the key's spending limit would suffice, but running requests hold them."""

    fixed_headers = retry_after(timedelta(seconds=1))


class SpendingLimitReached(RateLimitExceeded):
    """The key's own limit leaves nothing, or too little for this request. Pass ``Retry-After`` only when the limit resets."""

    fixed_headers = {"x-should-retry": "false"}


# --- Failures of upstreams and of the gateway -------------------------------------------------------------------


class UpstreamFailed(ApiError):
    status, code = 502, "upstream_error"


class UpstreamOverloaded(UpstreamFailed):
    status = 503


class UpstreamNotAsked(UpstreamFailed):
    """No provider of the model may be asked now: it refuses our key, or requests to it failed, perhaps for our own network."""

    status = 503


class UpstreamTimeout(UpstreamFailed):
    status = 504


class ServiceUnavailable(ApiError):
    """The database is unavailable, the gateway runs as many requests as it can, or it is being restarted."""

    status, code = 503, "service_unavailable"
    fixed_headers = {"Retry-After": "2"}


class InternalError(ApiError):
    """An unexpected exception. The reply names only the request id."""
