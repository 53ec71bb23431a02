"""What the OpenAPI description says of every endpoint for completions."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter

from completions.charging import idempotency
from gateway_project import errors
from gateway_project.web.openapi import specification

AUTH: Any = [{"apiKey": []}]  # the scheme of keys.openapi, which does not show how a key's status is read
IDEMPOTENCY_KEY = OpenApiParameter(
    idempotency.HEADER,
    {"type": "string", "minLength": 1, "maxLength": idempotency.CHARACTERS_MAX, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="A repetition with the same key and the same body gets the reply of the first, and is charged once.",
)
_ATTEMPTED: list[int | str] = [200, 400, 502, 503, 504]  # the statuses of replies after an attempt at a provider
HEADERS = [
    specification.response_header("x-gateway-provider", str, "The provider that answered, or was tried last.", _ATTEMPTED),
    specification.response_header("x-gateway-attempts", int, "How many times a provider was asked.", _ATTEMPTED),
    specification.response_header(
        "x-gateway-failed-providers", str, "The provider of each attempt that failed, in their order.", _ATTEMPTED
    ),
    specification.response_header(
        "x-gateway-max-cost", str, "What was held: the most that it can cost, in US dollars.", _ATTEMPTED
    ),
    specification.response_header("x-gateway-cost", str, "The cost in US dollars, exactly. Not of a stream.", [200]),
    specification.response_header(
        "x-gateway-ranking", str, "The ranking that chose the model, as an id to send as model.", _ATTEMPTED
    ),
    specification.response_header(
        "x-gateway-finish-reason", str, "Of a whole reply: the provider's finish reason, if unknown: it became stop.", [200]
    ),
    specification.response_header(
        "x-gateway-ignored-fields", str, "Fields of the request that the provider was not sent.", [200]
    ),
    specification.response_header(
        "Idempotent-Stored", str, "false: a repetition with the same key is refused, because this reply is not kept.", [200]
    ),
    specification.response_header("Idempotent-Replayed", str, "true: the reply of an earlier request, charged once.", [200]),
]
MAX_TOKENS = specification.response_header(
    "x-gateway-max-tokens", int, "The model's maximum, where max_tokens is more: that many were asked for.", _ATTEMPTED
)
QUOTE = (
    "Decides a completion as it would be decided now, and tells what it would hold, which is the most that it can cost, by"
    " which routes. No provider is asked; nothing is held, charged or counted against its limits. It counts as a read."
)
ERRORS = (
    errors.InvalidRequest,
    errors.InvalidApiKey,
    errors.InsufficientQuota,
    errors.ModelNotFound,
    errors.RequestTimeout,
    errors.RequestInProgress,
    errors.ReplyUnreadable,
    errors.RequestTooLarge,
    errors.UnsupportedMediaType,
    errors.RateLimitExceeded,
    errors.UpstreamFailed,
    errors.UpstreamOverloaded,
    errors.UpstreamNotAsked,
    errors.UpstreamTimeout,
)
READ_ERRORS = (  # of an endpoint that reads the body of a completion, and asks no provider
    errors.InvalidRequest,
    errors.InvalidApiKey,
    errors.ModelNotFound,
    errors.RequestTimeout,
    errors.RequestTooLarge,
    errors.UnsupportedMediaType,
    errors.RateLimitExceeded,
)
