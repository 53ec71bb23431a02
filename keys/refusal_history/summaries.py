"""The history of refusals as plain values for pages: for a key hour by hour and one by one, for an account by error."""

from datetime import datetime
from typing import NamedTuple

from django.db.models import QuerySet, Sum

from billing.models import Account
from gateway_project import bar_chart, errors
from keys.models import ApiKey, RefusalCount, RefusedRequest
from keys.refusal_history import tables


class RefusedKey(NamedTuple):
    id: str
    name: str
    number: int


class Reason:
    """Why requests were refused, how often, and with which keys, the most refused first."""

    def __init__(self, error: str, status: int, code: str, keys: list[RefusedKey]) -> None:
        self.words, self.status, self.code = describe_error(error), status, code
        self.number = sum(key.number for key in keys)
        self.keys = sorted(keys, key=lambda key: -key.number)


def describe_error(error: str) -> str:
    """Return why a request was refused, in words; the name of the class for one of a later version."""
    known = _class(error)
    return known.description if known else error


def advise(error: str) -> str:
    """Return what the caller can do, in words; "" for a class of a later version."""
    known = _class(error)
    return known.advice if known else ""


def _class(error: str) -> type[errors.ApiError] | None:
    found = vars(errors).get(error)
    return found if isinstance(found, type) and issubclass(found, errors.ApiError) else None


def of_account(account: Account) -> QuerySet[RefusedRequest]:
    """Return the last refusals of the account's keys, the latest first."""
    return RefusedRequest.objects.filter(key__account=account).select_related("key").order_by("-at", "-id")


def read_latest(key: ApiKey, limit: int = tables.LATEST_MAX) -> list[RefusedRequest]:
    """Return the key's last refusals, the latest first."""
    return list(key.refused_requests.order_by("-at")[:limit])


def sum_by_reason(account: Account, now: datetime) -> list[Reason]:
    """Return why the account's keys were refused in the last 24 hours, the most frequent reason first."""
    counts = RefusalCount.objects.filter(key__account=account, hour__gte=bar_chart.last_hours(now)[0])
    keys: dict[tuple[str, int, str], list[RefusedKey]] = {}
    for row in counts.values("status", "code", "error", "key_id", "key__name").annotate(sum=Sum("number")):
        refused = RefusedKey(row["key_id"], row["key__name"], int(row["sum"]))
        keys.setdefault((row["error"], row["status"], row["code"]), []).append(refused)
    reasons = [Reason(*reason, refused) for reason, refused in keys.items()]
    return sorted(reasons, key=lambda reason: -reason.number)


def build_chart(key: ApiKey, now: datetime) -> bar_chart.Chart | None:
    """Build a chart of the key's refusals in each of the last 24 hours; None if there were none."""
    rows = key.refusal_counts.filter(hour__gte=bar_chart.last_hours(now)[0]).values("hour").annotate(sum=Sum("number"))
    return bar_chart.build_hours({row["hour"]: int(row["sum"]) for row in rows}, now)
