"""The history of refusals as plain values for pages: for a key hour by hour and one by one, for an account by error."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet, Sum

from billing.models import Account
from gateway_project import bar_chart
from keys.models import ApiKey, RefusalCount, RefusedRequest
from keys.refusal_history import tables

HOURS = 24
_HOUR = timedelta(hours=1)

_WORDS = {
    "InvalidRequest": "The request was invalid, or the model does not support it",
    "InvalidApiKey": "The key was revoked, has expired or is paused, or its account is closed",
    "SecretEnded": "The key was rotated, and its former secret no longer works",
    "Forbidden": "The key may not do this",
    "PathNotFound": "Path not found",
    "PreviousResponseNotFound": "The previous response, or one before it, was unknown, deleted or expired",
    "ModelNotFound": "The model does not exist, is not available, or the key may not use it",
    "MethodNotAllowed": "Method not allowed",
    "RequestTimeout": "The body did not arrive in time, or the caller left",
    "LengthRequired": "The request had no Content-Length",
    "RequestInProgress": "The first request with the same Idempotency-Key was running",
    "ReplyUnreadable": "The reply stored for the Idempotency-Key, or the stored response, cannot be decrypted",
    "RequestTooLarge": "The body was too large",
    "MaximumReached": "The account had reached a maximum",
    "UnsupportedMediaType": "The body was not sent as JSON",
    "InsufficientQuota": "The account had too few credits",
    "RateLimitExceeded": "Too many requests or tokens per minute, or too many bytes at a time",
    "TooManyInFlight": "Too many requests at a time",
    "TooManyInFlightOfModel": "Too many requests for the model at a time",
    "TooMuchUnpaid": "Earlier requests cost more than was charged for them",
    "TiedUp": "Running requests held the money",
    "SpendingLimitReached": "The key's spending limit",
    "UpstreamFailed": "The provider failed",
    "UpstreamOverloaded": "The provider was overloaded",
    "UpstreamNotAsked": "The provider was not asked for a moment, after requests to it failed",
    "UpstreamTimeout": "The provider did not answer in time",
    "ServiceUnavailable": "The gateway was restarted, had no room, or its database was unavailable",
    "InternalError": "The gateway failed",
}

_AGAIN = "Send it again. OpenAI's SDKs retry automatically."
_WAIT = "Send it again after the time in the reply's Retry-After. OpenAI's SDKs retry automatically."
_ADVICE = {
    "InvalidRequest": "Correct the request: the reply's message and param name what is wrong. The same request fails again.",
    "InvalidApiKey": "Use a key that is active, of an open account.",
    "SecretEnded": "Use the key's new secret. Whoever rotated the key has it.",
    "Forbidden": "Use another key.",
    "PathNotFound": "Correct the address, or the id in it.",
    "PreviousResponseNotFound": "Send the whole conversation as input.",
    "ModelNotFound": "Use a model that GET /v1/models lists for the key.",
    "MethodNotAllowed": "Use a method that the reply's Allow header names.",
    "RequestTimeout": _AGAIN,
    "LengthRequired": "Send a Content-Length header. Most HTTP libraries do so automatically.",
    "RequestInProgress": _WAIT,
    "ReplyUnreadable": "Send it with another Idempotency-Key, or the whole conversation. Then it runs, and costs, again.",
    "RequestTooLarge": "Send a smaller body: shorter messages, or smaller images.",
    "MaximumReached": "Remove what you no longer use. The reply's message says what to remove.",
    "UnsupportedMediaType": "Send Content-Type: application/json.",
    "InsufficientQuota": "Add credit or send a smaller max_tokens. The maximum cost of a request must be available.",
    "RateLimitExceeded": f"{_WAIT} If that happens often, ask for less at a time, or have the limit raised.",
    "TooManyInFlight": f"{_WAIT} If that happens often, send fewer requests at a time.",
    "TooManyInFlightOfModel": f"{_WAIT} If that happens often, send fewer requests for this model at a time.",
    "TooMuchUnpaid": f"{_WAIT} If that happens often, use a model whose streams begin sooner, or do not stream.",
    "TiedUp": f"{_WAIT} Running requests release what they do not use. A smaller max_tokens holds less.",
    "SpendingLimitReached": "Raise the key's spending limit, wait until it resets, or send a smaller max_tokens.",
    "UpstreamFailed": f"{_AGAIN} The request's models can name another model, which is then tried.",
    "UpstreamOverloaded": f"{_WAIT} The request's models can name another model, which is then tried.",
    "UpstreamNotAsked": f"{_WAIT} The request's models can name another model, which is then tried.",
    "UpstreamTimeout": f"{_AGAIN} Stream long replies.",
    "ServiceUnavailable": _WAIT,
    "InternalError": f"{_AGAIN} If it fails again, tell support the id of the request.",
}


@dataclass(frozen=True)
class RefusedKey:
    """A key and how often it was refused."""

    id: str
    name: str
    number: int


@dataclass(frozen=True)
class Reason:
    """Why requests were refused, in words and as callers saw it, how often, and with which keys, the most refused first."""

    words: str
    status: int
    code: str
    number: int
    keys: list[RefusedKey]


@dataclass(frozen=True)
class HourBar(bar_chart.Bar):
    hour: datetime
    number: int


@dataclass(frozen=True)
class Chart(bar_chart.Chart):
    """The refusals of each hour, in all, and in the hour with the most."""

    bars: list[HourBar]
    total: int
    highest: int


def describe_error(error: str) -> str:
    """Return why a request was refused, in words. ``error`` is the class of the error; a class of a later version is itself."""
    return _WORDS.get(error, error)


def advise(error: str) -> str:
    """Return what the caller can do after a refusal, in words; empty for a class of a later version."""
    return _ADVICE.get(error, "")


def of_account(account: Account) -> QuerySet[RefusedRequest]:
    """Return the last refusals of the account's keys, the latest first: of each key LATEST_MAX at most."""
    return RefusedRequest.objects.filter(key__account=account).select_related("key").order_by("-at", "-id")


def read_latest(key: ApiKey, limit: int = tables.LATEST_MAX) -> list[RefusedRequest]:
    """Return the key's last refusals, the latest first. Those of the last seconds may not be written yet."""
    return list(key.refused_requests.order_by("-at")[:limit])


def sum_by_reason(account: Account, now: datetime) -> list[Reason]:
    """Return why the account's keys were refused in the last HOURS hours, the most frequent reason first."""
    counts = RefusalCount.objects.filter(key__account=account, hour__gte=last_hours(now)[0])
    return _reasons(counts.values("status", "code", "error", "key_id", "key__name").annotate(sum=Sum("number")))


def _reasons(rows: Iterable[Any]) -> list[Reason]:
    keys: dict[tuple[str, int, str], list[RefusedKey]] = {}
    for row in rows:
        refused = RefusedKey(row["key_id"], row["key__name"], int(row["sum"]))
        keys.setdefault((row["error"], row["status"], row["code"]), []).append(refused)
    reasons = [
        Reason(describe_error(error), status, code, sum(key.number for key in refused), _most_refused_first(refused))
        for (error, status, code), refused in keys.items()
    ]
    return sorted(reasons, key=lambda reason: -reason.number)


def _most_refused_first(keys: Collection[RefusedKey]) -> list[RefusedKey]:
    return sorted(keys, key=lambda key: -key.number)


def build_chart(key: ApiKey, now: datetime) -> Chart | None:
    """Build a chart of the key's refusals in each of the last HOURS hours; None if there were none."""
    hours = last_hours(now)
    rows = key.refusal_counts.filter(hour__gte=hours[0]).values("hour").annotate(sum=Sum("number"))
    numbers = {row["hour"]: int(row["sum"]) for row in rows}
    highest = max(numbers.values(), default=0)
    if not highest:
        return None
    bars = [_bar(place, hour, numbers.get(hour, 0), highest) for place, hour in enumerate(hours)]
    return Chart(bars, total=sum(numbers.values()), highest=highest)


def _bar(place: int, hour: datetime, number: int, highest: int) -> HourBar:
    return HourBar(*bar_chart.height_and_left(place, number, highest), hour, number)


def last_hours(now: datetime) -> list[datetime]:
    """Return the beginnings of the last HOURS hours, of which the current one is the last."""
    current = now.replace(minute=0, second=0, microsecond=0)
    return [current - ago * _HOUR for ago in reversed(range(HOURS))]
