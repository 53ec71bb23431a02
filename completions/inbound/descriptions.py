"""The common part of the OpenAPI descriptions of completions."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiParameter

from completions.charging import idempotency
from gateway_project import errors
from gateway_project.web.openapi import specification
from gateway_project.web.openapi.fields import Described
from keys.budgets import runs

AUTH: Any = [{"apiKey": []}]  # the scheme of keys.openapi, which does not show how a key's status is read
_IDEMPOTENCY_KEY = OpenApiParameter(
    idempotency.HEADER,
    {"type": "string", "minLength": 1, "maxLength": idempotency.CHARACTERS_MAX, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="A repetition with the same key and the same body gets the reply of the first, and is charged once.",
)
_RUN = [
    OpenApiParameter(name, {"type": "string", **bounds}, OpenApiParameter.HEADER, description=about)
    for name, bounds, about in (
        (runs.HEADER, {"pattern": f"^{runs.NAME.pattern}$"}, "The run whose budget it shares with others of its key."),
        (runs.BUDGET_HEADER, {}, "US dollars. Of the first request of the run: what all may cost together."),
        (runs.DEADLINE_HEADER, {}, "Likewise: until when they may be sent, as seconds or as a time of RFC 3339."),
    )
]
_ATTEMPTED: list[int | str] = [200, 400, 502, 503, 504]  # the statuses of replies after an attempt at a provider
_HEADERS = [
    specification.response_header(*header)
    for header in (
        ("x-gateway-provider", str, "The provider that answered, or was tried last.", _ATTEMPTED),
        ("x-gateway-attempts", int, "How many times a provider was asked.", _ATTEMPTED),
        ("x-gateway-failed-providers", str, "The provider of each attempt that failed, in their order.", _ATTEMPTED),
        ("x-gateway-max-cost", str, "What was held: the most that it can cost, in US dollars.", _ATTEMPTED),
        ("x-gateway-cost", str, "The cost in US dollars, exactly. Not of a stream.", [200]),
        ("x-gateway-ranking", str, "The ranking that chose the model, as an id to send as model.", _ATTEMPTED),
        ("x-gateway-finish-reason", str, "Of a whole reply: the provider's finish reason, if unknown: it became stop.", [200]),
        ("x-gateway-ignored-fields", str, "Fields of the request that the provider was not sent.", [200]),
        ("x-gateway-own-key", str, "used: own key. fallback: ours after it. unmet: ours, for a demand about data.", _ATTEMPTED),
        (runs.HEADER, str, "The run that it counts on.", [200]),
        (runs.BUDGET_HEADER, str, "The budget that is in force for the run, in US dollars.", [200, 402]),
        (runs.LEFT_HEADER, str, "What is left of it when the reply begins, in US dollars.", [200, 402]),
        (runs.DEADLINE_HEADER, str, "The deadline that is in force for the run.", [200, 402]),
        ("Idempotent-Stored", str, "false: a repetition with the same key is refused, because this reply is not kept.", [200]),
        ("Idempotent-Replayed", str, "true: the reply of an earlier request, charged once.", [200]),
    )
]
MAX_TOKENS = specification.response_header(
    "x-gateway-max-tokens", int, "The model's maximum, where max_tokens is more: that many were asked for.", _ATTEMPTED
)
_QUOTE = (
    "Decides a completion as it would be decided now, and tells what it would hold, which is the most that it can cost, by"
    " which routes. No provider is asked; nothing is held, charged or counted against its limits. It counts as a read."
)
ESTIMATE = "The gateway's own estimate, at no cost: no provider is asked."
_BODY_ERRORS = (  # of an endpoint that reads the body of a completion
    *(errors.InvalidRequest, errors.ModelNotFound, errors.DataDemandUnmet, errors.RequestTimeout, errors.RequestTooLarge),
    errors.UnsupportedMediaType,
)
_ERRORS = (
    *(*_BODY_ERRORS, errors.InvalidApiKey, errors.InsufficientQuota, errors.BudgetExceeded, errors.RequestInProgress),
    *(errors.ReplyUnreadable, errors.RateLimitExceeded, errors.OwnKeyRefused, errors.OwnKeyExhausted),
    *(errors.UpstreamFailed, errors.UpstreamOverloaded, errors.UpstreamNotAsked, errors.UpstreamTimeout),
)


def completion(
    operation_id: str, summary: str, about: str, *, request: Described, reply: Described, event: Any = None, headers: Any = ()
) -> Callable[[specification.View], specification.View]:
    """Return the decorator of a method that generates a reply: whole, and where there are events also as a stream of them."""
    replies = {200: reply} if event is None else {(200, "application/json"): reply, (200, "text/event-stream"): event}
    return specification.extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=about,
        auth=AUTH,
        parameters=[_IDEMPOTENCY_KEY, *_RUN, *_HEADERS, *headers],
        request=request,
        responses={**replies, **specification.error_responses(*_ERRORS)},
    )


def reading(
    operation_id: str, summary: str, request: Described, reply: Described, about: str = _QUOTE, **options: Any
) -> Callable[[specification.View], specification.View]:
    """Return the decorator of a method that reads the body of a completion, and asks no provider."""
    return key_read(operation_id, summary, about, reply, *_BODY_ERRORS, request=request, **options)


def key_read(
    operation_id: str, summary: str, about: str, reply: Described, *conditions: type[errors.ApiError], **options: Any
) -> Callable[[specification.View], specification.View]:
    """Return the decorator of a method that counts as a read of its key. ``conditions`` has errors that others do not have."""
    refused = specification.error_responses(errors.InvalidApiKey, errors.RateLimitExceeded, *conditions)
    return specification.extend_schema(
        operation_id=operation_id, summary=summary, description=about, responses={200: reply, **refused}, **options
    )
