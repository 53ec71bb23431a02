"""Keys and their spending as plain values for pages, with as many queries for one key as for many."""

from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import BigIntegerField, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from billing import money
from billing.alerts import summaries as alerts
from billing.alerts.payload import camel_case
from billing.models import Account
from gateway_project import bar_chart
from gateway_project.text import dollars, timestamps
from keys import lifetimes, secret
from keys.limits import rate_limits, requests_in_flight, spending
from keys.limits.spending import SpendingWindow
from keys.models import ApiKey, SpendingDay

CHART_DAYS = 30
RECENT_DAYS = 30
_EXPORTED = (
    *("spending_type", "spending_period", "requests_per_minute", "tokens_per_minute", "allowed_models", "tags"),
    *("data_policy", "data_regions"),
)


class Limit(SpendingWindow):
    """A key's spending limit, and what is spent and left of it."""

    def __init__(self, key: ApiKey, window: SpendingWindow, now: datetime) -> None:
        super().__init__(**vars(window))
        used_nanos = min(self.spent_nanos + self.held_nanos, self.limit_nanos)
        self.used_percent = used_nanos * 100 // self.limit_nanos if self.limit_nanos else 100  # rounded down
        self.spent, self.held, self.left = dollars.show_parts([self.spent_nanos, self.held_nanos, self.available_nanos])
        self.terms = key.spending_limit.terms
        self.resets = key.spending_limit.resets  # when, in words: "every day at 00:00 UTC"; "" for a limit that does not
        self.raised_until = key.raised_until if key.raised_until and key.raised_until > now else None  # if it is raised now


class Summary:
    """One key, as plain values. Templates format the amounts."""

    def __init__(self, key: ApiKey, totals: dict[str, Any], window: SpendingWindow | None, now: datetime) -> None:
        self.id, self.name, self.hint = key.pk, key.name, mask_secret(key)
        self.created_at, self.expires_at, self.revoked_at = key.created_at, key.expires_at, key.revoked_at
        self.state = describe_state(key, now)
        self.is_revoked, self.is_paused = key.revoked_at is not None, self.state == "Paused"
        self.last_used: date | None = totals.get("last_day")
        self.is_idle = getattr(key, "is_idle", False)  # only pages with lists of keys annotate it
        self.spent_in_total_nanos = int(totals.get("total_nanos", 0))
        spent = dict(zip(totals.get("days") or [], totals.get("nanos") or [], strict=True))
        days = _last_days(now.date(), RECENT_DAYS)
        self.spending = bar_chart.build([(day, nanos := spent.get(day, 0), dollars.show(nanos).shown) for day in days])
        self.limit = Limit(key, window, now) if window else None
        self.rates = describe_rates(key)  # limits per minute and requests at a time, in words
        self.models: list[str] = key.allowed_models or []  # that it may use; all of them, if there are none here
        self.tags: list[str] = key.tags or []
        self.data = key.data_words
        # Until when a former secret works, if one does.
        self.former_end = max(key.working_former_digests(now).values(), default=None)


def summarize_keys(keys: Iterable[ApiKey], now: datetime) -> list[Summary]:
    """Summarize each key. Two queries for all of ``keys``, whose accounts must be loaded."""
    keys = list(keys)
    windows = spending.read_windows(keys)
    days: Any = SpendingDay.objects.filter(key__in=[key.pk for key in keys]).values("key_id")
    recent: dict[str, Any] = {"filter": Q(day__gt=now.date() - timedelta(days=RECENT_DAYS)), "order_by": "day"}
    lists = {"days": ArrayAgg("day", **recent), "nanos": ArrayAgg("spent_nanos", **recent)}
    totals = {row["key_id"]: row for row in days.annotate(last_day=Max("day"), total_nanos=Sum("spent_nanos"), **lists)}
    return [Summary(key, totals.get(key.pk, {}), windows[key.pk], now) for key in keys]


def keys_newest_first(account: Account) -> QuerySet[ApiKey]:
    """Return the account's keys: first those not revoked, each newest first."""
    return account.keys.order_by(F("revoked_at").desc(nulls_first=True), "-id")


def find_needing_attention(account: Account, now: datetime) -> dict[str, QuerySet[ApiKey]]:
    """Return the keys that an owner should look at, by the values of the list's filter."""
    keys = account.keys.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)
    since = now - timedelta(days=RECENT_DAYS)
    used = SpendingDay.objects.filter(key=OuterRef("pk"), day__gt=since.date())
    return {
        "idle": keys.filter(~Exists(used), created_at__lt=since),
        "unlimited": keys.filter(spending_limit_cents=None),
        "endless": keys.filter(expires_at=None),
        "long": lifetimes.find_outliving(account),
    }


def select_keys(account: Account, *, search: str = "", tag: str = "", spent_until: date | None = None) -> QuerySet[ApiKey]:
    """Return the keys with these words in their name, or this id, and with this tag.

    They are the newest first, or in the order of what they spent in the last RECENT_DAYS until ``spent_until``.
    """
    keys = keys_newest_first(account)
    if search:
        keys = keys.filter(Q(name__icontains=search) | Q(pk=search))
    if tag:
        keys = keys.filter(tags__contains=[tag])
    if spent_until is None:
        return keys
    days = SpendingDay.objects.filter(key=OuterRef("pk"), day__gt=spent_until - timedelta(days=RECENT_DAYS))
    spent = days.order_by().values("key").annotate(sum=Sum("spent_nanos")).values("sum")
    recent = Coalesce(Subquery(spent), 0, output_field=BigIntegerField())
    return keys.annotate(recent_nanos=recent).order_by("-recent_nanos", "-id")


def find_names(account: Account, *, limit: int, ids: Collection[str] | None = None, text: str | None = None) -> dict[str, str]:
    """Return the names of keys of the account by their ids, the newest first."""
    keys = account.keys.order_by("-id")
    if ids is not None:
        keys = keys.filter(pk__in=ids)
    if text is not None:
        keys = keys.filter(Q(pk=text) | Q(name__iexact=text))
    return dict(keys.values_list("pk", "name")[:limit])


def mask_secret(key: ApiKey) -> str:
    return mask(key.last_four)


def mask(last_four: str) -> str:
    """Return the start and end of a secret. The id between is left out: ids sort by time, so they all begin alike."""
    return f"{secret.PREFIX}…{last_four}"


def describe_state(key: ApiKey, now: datetime) -> str:
    """Return Active, Paused, Expired, Revoked, or that the account is closed."""
    if key.revoked_at is not None:
        return "Revoked"
    if key.expires_at is not None and key.expires_at <= now:
        return "Expired"
    if not key.account.is_active:
        return "Account closed"
    return "Paused" if key.paused_at is not None else "Active"


def describe_limit_of(key: ApiKey, now: datetime) -> str:
    """Return the key's limit in words, with its raise until that ends: "$5.00 per day, raised to $20.00 until ..."."""
    words = str(key.spending_limit)
    if key.raised_until is None or key.raised_limit_cents is None or key.raised_until <= now:
        return words
    raised = dollars.format_cents(key.raised_limit_cents)
    return f"{words}, raised to {raised} until {timestamps.in_words(key.raised_until)}"


def describe_rates(key: ApiKey) -> str:
    """Return how much the key may ask, in words: "60 requests per minute, and 100 requests at a time"."""
    per_minute = rate_limits.describe_limits(rate_limits.effective_limits(key, key.account))
    return ", and ".join(filter(None, (per_minute, requests_in_flight.describe_maximum(key))))


def describe_window(window: SpendingWindow) -> dict[str, Any]:
    """Return what is spent and left of a limit, as replies show it."""
    return {
        "spentInDollars": dollars.format_plain(window.spent_nanos),
        "heldInDollars": dollars.format_plain(window.held_nanos),
        "remainingInCents": money.floor_cents(window.available_nanos),
        "remainingInDollars": dollars.format_plain(window.available_nanos),
        "resetsAt": window.resets_at and timestamps.iso_millis(window.resets_at),
    }


def build_chart(account: Account, today: date) -> bar_chart.Chart | None:
    """Build a chart of what the account's keys spent on each of the last CHART_DAYS UTC days; None if they spent nothing."""
    days = _last_days(today, 2 * CHART_DAYS)
    rows = SpendingDay.objects.filter(key__account=account, day__gte=days[0]).values("day").annotate(sum=Sum("spent_nanos"))
    found = {row["day"]: int(row["sum"]) for row in rows}
    spent = [(day, found.get(day, 0)) for day in days]
    shown = [(day, [nanos]) for day, nanos in spent[CHART_DAYS:]]
    return bar_chart.compare(shown, spent[:CHART_DAYS], dollars.format_exact_column)


def _last_days(today: date, number: int) -> list[date]:
    return [today - timedelta(days=ago) for ago in reversed(range(number))]


def describe_pace(account: Account, chart: bar_chart.Chart | None) -> str:
    """Return how long the balance lasts at the pace of the last whole days; "" if too little is known."""
    if chart is None:
        return ""
    latest = [bar.value for bar in chart.bars[-1 - alerts.PACE_DAYS : -1]]  # today is not over
    return alerts.describe_pace(account.balance_nanos, latest)


def read_all(account: Account) -> Iterator[dict[str, Any]]:
    """Return all keys of the account, the newest first, for the export of its data: no secrets."""
    for key in account.keys.order_by("-id"):
        yield {
            "id": key.pk,
            "name": key.name,
            "secret": mask_secret(key),
            "createdAt": timestamps.iso_millis(key.created_at),
            "expiresAt": timestamps.iso_millis(key.expires_at) if key.expires_at else None,
            "revokedAt": timestamps.iso_millis(key.revoked_at) if key.revoked_at else None,
            "spendingLimitInCents": key.spending_limit_cents,
            **{camel_case(name): getattr(key, name) for name in _EXPORTED},
        }
