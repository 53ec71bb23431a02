"""The panel of refusals on the admin's home page, and the sections of an account's page about its keys."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, Sum
from django.http import HttpRequest
from django.urls import reverse

from billing.models import Account
from gateway_project import bar_chart
from gateway_project.db import everywhere, pool
from gateway_project.desk import panels
from gateway_project.desk.panels import Content, Panel, Section
from keys import summaries
from keys.desk.forms import RatesForm, RevokeForm, SupportLimitForm
from keys.models import RefusalCount
from keys.refusal_history import summaries as refusal_summaries

REASONS_SHOWN, KEYS_SHOWN = 6, 50
_ACTS = ((SupportLimitForm, "Limit"), (RatesForm, "Rates"), (RevokeForm, "Revoke"))


def _refusals(now: datetime) -> Content:
    (today, _), (yesterday, _), a_week_ago = panels.windows(now)
    counts = RefusalCount.objects.filter(Q(hour__gte=yesterday) | Q(hour__range=a_week_ago))
    columns = ("hour", "status", "code", "error")
    ordered = counts.values_list(*columns).annotate(sum=Sum("number")).order_by(*columns)
    by_hour, by_reason = Counter[datetime](), Counter[tuple[str, str]]()
    for hour, status, code, error, number in everywhere.gather(ordered.all, may_miss=True):
        by_hour[hour] += int(number)
        if hour >= today:
            by_reason[refusal_summaries.describe_error(error), f"{status} {code}"] += int(number)
    shown = by_reason.most_common(REASONS_SHOWN)
    rows = [panels.Row(words, f"{number:,}", code=code) for (words, code), number in shown]
    others = by_reason.total() - sum(number for _, number in shown)
    rows += [panels.Row("Other reasons", f"{others:,}")] * bool(others)
    chart = bar_chart.build_hours(by_hour, now, "Refusals of each hour")
    return panels.compare(panels.sum_windows(by_hour, now), words="before they ran", rows=rows, chart=chart)


def _spending(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"chart": summaries.build_chart(account, pool.database_time().astimezone(UTC).date())}


def _keys(request: HttpRequest, account: Account) -> dict[str, Any]:
    keys = summaries.keys_newest_first(account).select_related("account")
    acts = [(act.name, words) for act, words in _ACTS if request.user.has_perm(act.permission)]
    rows = []
    for summary in summaries.summarize_keys(keys[:KEYS_SHOWN], pool.database_time()):
        possible = () if summary.is_revoked else acts
        links = [{"words": words, "address": reverse(f"admin:keys_apikey_{act}", args=[summary.id])} for act, words in possible]
        rows.append({"summary": summary, "acts": links})
    return {"keys": rows, "has_acts": bool(acts), "count": keys.count()}


def _refusals_of_account(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"refusals": refusal_summaries.sum_by_reason(account, pool.database_time())}


PANELS = [Panel(14, "refusals", "Refused requests", "keys.refusalcount", _refusals, "?o=-1")]
_TEMPLATES = "admin/keys/account"
SECTIONS = [
    Section(10, "spending", "Spending", "keys.view_apikey", f"{_TEMPLATES}/spending.html", _spending),
    Section(30, "keys", "Keys", "keys.view_apikey", f"{_TEMPLATES}/keys.html", _keys),
    Section(
        60, "refusals", "Refusals in the last 24 hours", "keys.view_apikey", f"{_TEMPLATES}/refusals.html", _refusals_of_account
    ),
]
