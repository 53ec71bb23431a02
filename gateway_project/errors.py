"""Every error reply of the API: one class per condition, with its status, type and code.

Clients of OpenAI's API read ``code``; their retries follow ``x-should-retry`` and ``Retry-After``.
"""

import math
from datetime import date, timedelta
from typing import Any

# The longest Retry-After that is useful: with a longer one, some clients sleep that long and others retry at once.
RETRY_AFTER_SECONDS_MAX = 60


def retry_after(wait: timedelta) -> dict[str, str]:
    """Return headers that tell a client when to retry: in seconds, and in milliseconds for OpenAI's clients. Rounded up."""
    seconds = wait.total_seconds()
    return {"Retry-After": str(max(math.ceil(seconds), 1)), "retry-after-ms": str(max(math.ceil(seconds * 1000), 1))}


def reason(error: BaseException) -> str:
    """Return the first line of the error's message or its cause's, else the name of its class. Later ones may have values."""
    sentences = (str(each).strip().partition("\n")[0] for each in (error, error.__cause__) if each)
    return next(filter(None, sentences), type(error).__name__)


_AGAIN = "Send it again. OpenAI's SDKs retry automatically."
_WAIT = "Send it again after the time in the reply's Retry-After. OpenAI's SDKs retry automatically."


class ApiError(Exception):
    """``param`` names the invalid field; ``headers`` are added to the class's own; ``quotes_request``: only the caller may see
    the message, which has words of the request, or a provider's about it.
    """

    status = 500
    type = "server_error"  # OpenAI's for all that may be repeated: coding agents end their task at one that they do not know
    code = "internal_error"
    description = ""  # of the condition, in words for owners' and support's pages
    advice = ""  # what the caller can do then
    fixed_headers: dict[str, str] = {}
    details: dict[str, Any] | None = None  # for programs: further members of the error; in Messages a member of their own

    def __init__(
        self, message: str, *, param: str | None = None, headers: dict[str, str] | None = None, quotes_request: bool = False
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.quotes_request = message, param, quotes_request
        self.headers = {**self.fixed_headers, **(headers or {})}

    def body(self) -> dict[str, Any]:
        error = {"message": self.message, "type": self.type, "code": self.code, "param": self.param}
        return {"error": error | self.details if self.details else error}


# --- Invalid requests: a retry does not help --------------------------------------------------------------------


class InvalidRequest(ApiError):
    status, type, code = 400, "invalid_request_error", "invalid_request_error"
    description = "The request was invalid, or the model does not support it"
    advice = "Correct the request: the reply's message and param name what is wrong. The same request fails again."


def wrong(param: str, problem: str, *, quotes_request: bool = False) -> InvalidRequest:
    """Return an error about one field, in a sentence that begins with its name: "temperature must be a number."."""
    return InvalidRequest(f"{param} {problem.removesuffix('.')}.", param=param, quotes_request=quotes_request)


class InvalidApiKey(InvalidRequest):
    """Every message begins as OpenAI's does: LiteLLM, and so aider, tells a 401 from a bad request by these words."""

    status, code = 401, "invalid_api_key"
    fixed_headers = {"WWW-Authenticate": "Bearer"}
    description = "The key was revoked, has expired or is paused, or its account is closed"
    advice = "Use a key that is active, of an open account."


class SecretEnded(InvalidApiKey):
    description = "The key was rotated, and its former secret no longer works"
    advice = "Use the key's new secret. Whoever rotated the key has it."


class Forbidden(InvalidRequest):
    status = 403
    description = "The key may not do this"
    advice = "Use another key."


class PathNotFound(InvalidRequest):
    status = 404
    description = "Path not found"
    advice = "Correct the address, or the id in it."


class ModelNotFound(InvalidRequest):
    """Nothing is offered under the id of a model. A class for each cause follows; former versions recorded this one for all."""

    status, code = 404, "model_not_found"
    description = "The model does not exist, is not available, or the key may not use it"
    advice = "Use a model that GET /v1/models lists for the key."
    told = "does not exist or you do not have access to it."  # in the message; ``reason`` says the same to programs
    details = {"reason": "unknown"}


class ModelUnknown(ModelNotFound):
    description = "The model does not exist, or is not offered"
    advice = "Correct the model's id, or use a model that GET /v1/models lists for the key."


class ModelNotAllowed(ModelNotFound):
    """The key may not use the model. Its caller is told what it is told of an unknown one, to the letter."""

    description = "The key may not use the model"
    advice = "Add the model to those that the key may use, or use a model that GET /v1/models lists for the key."


class ModelNotServed(ModelNotFound):
    """The model is in the catalog, and none of its providers can be asked: there is no key, or no route to one is enabled."""

    description = "The model is not available here yet: no provider is connected"
    advice = "Use a model that GET /v1/models lists for the key, or ask the operator to connect a provider of this one."
    told = "is not available here yet: no provider is connected."
    details = {"reason": "no_provider"}


class ModelNotOffered(ModelNotFound):
    """The model is disabled or has no price, and the key's list of models names it: others are not told that there is one."""

    description = "The model is not offered at present"
    advice = "Use another model that GET /v1/models lists for the key, or ask the operator about this one."
    told = "is not offered at present."
    details = {"reason": "not_offered"}


class ModelNotRanked(ModelNotFound):
    description = "No model that can be called is ranked under this id"
    advice = "Name a model that GET /v1/models lists for the key, or another ranking."
    details = {"reason": "no_ranked_model"}


class DataDemandUnmet(InvalidRequest):
    """No route promises what is demanded about data. ``demands`` are all that are in force, as the catalog has them."""

    status, code = 404, "data_demand_unmet"
    description = "No provider of the model promises what is demanded about data"
    advice = "Use another model. Or change what the request, its key or its account demands: the reply says whose it is."
    demands: Any = ()


class PreviousResponseNotFound(InvalidRequest):
    code = "previous_response_not_found"
    description = "The previous response, or one before it, was unknown, deleted or expired"
    advice = "Send the whole conversation as input."


class MethodNotAllowed(InvalidRequest):
    status = 405
    description = "Method not allowed"
    advice = "Use a method that the reply's Allow header names."


class RequestTimeout(InvalidRequest):
    status = 408
    description = "The body did not arrive in time, or the caller left"
    advice = _AGAIN


class LengthRequired(InvalidRequest):
    status = 411
    description = "The request had no Content-Length"
    advice = "Send a Content-Length header. Most HTTP libraries do so automatically."


class RequestInProgress(InvalidRequest):
    status, code = 409, "request_in_progress"
    fixed_headers = {"Retry-After": "1"}
    description = "The first request with the same Idempotency-Key was running"
    advice = _WAIT


class ReplyUnreadable(InvalidRequest):
    status, code = 409, "reply_unreadable"
    fixed_headers = {"x-should-retry": "false"}
    description = "The reply stored for the Idempotency-Key, or the stored response, cannot be decrypted"
    advice = "Send it with another Idempotency-Key, or the whole conversation. Then it runs, and costs, again."


class RequestTooLarge(InvalidRequest):
    status = 413
    description = "The body was too large"
    advice = "Send a smaller body: shorter messages, or smaller images."


class MaximumReached(InvalidRequest):
    description = "The account had reached a maximum"
    advice = "Remove what you no longer use. The reply's message says what to remove."


class UnsupportedMediaType(InvalidRequest):
    status = 415
    description = "The body was not sent as JSON"
    advice = "Send Content-Type: application/json."


# --- Credits and limits ----------------------------------------------------------------------------------------


class MoneyRefused(ApiError):
    """The funds of the account, or what may be spent, do not pay for it: ``limit_source`` is account, key, run or budget.

    ``held_nanos`` are held of it by running requests; of a key those that count from ``first_day`` on; of a run or a budget
    those that count on ``counted_id``.
    """

    limit_source = "account"
    counted_id = ""
    reached: Any = None  # what an alert tells of the limit or budget that refuses, if most of it is spent
    description = "The account's credits or the key's limit did not pay for it"
    advice = "Add credit, raise the key's limit, or send a smaller max_tokens."

    def __init__(
        self,
        message: str,
        *,
        limit_source: str | None = None,
        held_nanos: int = 0,
        first_day: date | None = None,
        resets_at: str | None = None,
    ) -> None:
        super().__init__(message)
        self.limit_source = limit_source or self.limit_source
        self.held_nanos, self.first_day = held_nanos, first_day
        resets = {"resets_at": resets_at} if resets_at else {}
        # One division is rounded once, so that the shortest digits that JSON writes for it are the exact ones.
        held = {"held": held_nanos / 1_000_000_000, "held_since": None}
        self.details = {"limit_source": self.limit_source, **resets, **held}


class InsufficientQuota(MoneyRefused):
    status, type, code = 402, "insufficient_quota", "insufficient_quota"
    fixed_headers = {"x-should-retry": "false"}
    description = "The account had too few credits"
    advice = "Add credit or send a smaller max_tokens. The maximum cost of a request must be available."


class SpendingLimitReached(InsufficientQuota):
    limit_source = "key"
    description = "The key's spending limit"
    advice = "Raise the key's spending limit, wait until it resets, or send a smaller max_tokens."


class BudgetExceeded(InsufficientQuota):
    code = "budget_exceeded"
    limit_source = "run"
    description = "The budget of the run or of the month, or the run's deadline"
    advice = "Begin another run with a budget of its own, or have the monthly budget raised. A smaller max_tokens may fit."


class RateLimitExceeded(ApiError):
    """Pass ``Retry-After`` in ``headers``."""

    status, type, code = 429, "rate_limit_error", "rate_limit_exceeded"
    description = "Too many requests or tokens per minute, or too many bytes at a time"
    advice = f"{_WAIT} If that happens often, ask for less at a time, or have the limit raised."


class TooManyInFlight(RateLimitExceeded):
    fixed_headers = retry_after(timedelta(seconds=1))
    description = "Too many requests at a time"
    advice = f"{_WAIT} If that happens often, send fewer requests at a time."


class TooManyInFlightOfModel(TooManyInFlight):
    description = "Too many requests for the model at a time"
    advice = f"{_WAIT} If that happens often, send fewer requests for this model at a time."


class TooMuchUnpaid(RateLimitExceeded):
    description = "Earlier requests cost more than was charged for them"
    advice = f"{_WAIT} If that happens often, use a model whose streams begin sooner, or do not stream."


class TiedUp(RateLimitExceeded, MoneyRefused):
    fixed_headers = retry_after(timedelta(seconds=1))
    description = "Running requests held the money"
    advice = f"{_WAIT} Running requests release what they do not use. A smaller max_tokens holds less."


# --- Failures of providers and of the gateway -------------------------------------------------------------------


class UpstreamFailed(ApiError):
    status, code = 502, "upstream_error"
    description = "The provider failed"
    advice = f"{_AGAIN} The request's models can name another model, which is then tried."


class UpstreamOverloaded(UpstreamFailed):
    status = 503
    description = "The provider was overloaded"
    advice = f"{_WAIT} The request's models can name another model, which is then tried."


class UpstreamNotAsked(UpstreamFailed):
    """No provider of the model may be asked now: it refuses our key, or requests to it failed, perhaps for our own network."""

    status = 503
    description = "The provider was not asked for a moment, after requests to it failed"
    advice = f"{_WAIT} The request's models can name another model, which is then tried."


class UpstreamTimeout(UpstreamFailed):
    status = 504
    description = "The provider did not answer in time"
    advice = f"{_AGAIN} Stream long replies."


class OwnKeyRefused(InvalidRequest):
    """The provider does not accept the account's own key. Ours is not asked: the owner did not allow that, or it failed too."""

    status, code = 424, "own_key_refused"
    fixed_headers = {"x-should-retry": "false"}
    description = "The account's own key was refused by its provider"
    advice = "Replace the key under Settings, Provider keys, or allow ours to serve when yours fails."


class OwnKeyExhausted(RateLimitExceeded):
    code = "own_key_exhausted"
    description = "The account's own key had no quota left at its provider"
    advice = "Raise the key's quota at the provider, send less at a time, or allow ours to serve when yours fails."


class ServiceUnavailable(ApiError):
    status, code = 503, "service_unavailable"
    fixed_headers = {"Retry-After": "2"}
    description = "The gateway was restarted, had no room, or its database was unavailable"
    advice = _WAIT


class NoRoom(ServiceUnavailable):
    """Others send so much that the request has no place: of a flood, the log has one ERROR per minute."""

    description = "The gateway had no room"


class HostUnavailable(ServiceUnavailable):
    """Another host may have what this one lacks: its database or its disk."""

    description = "A host had no database, or no room on its disk"


class InternalError(ApiError):
    description = "The gateway failed"
    advice = f"{_AGAIN} If it fails again, tell support the id of the request."
