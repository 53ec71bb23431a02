"""Sections of an account's page: thirty days of spending, the keys with their limits, and why they were refused."""

from datetime import UTC
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from billing.models import Account
from gateway_project.db import pool
from gateway_project.desk.panels import Section
from keys import summaries
from keys.desk.forms import RatesForm, RevokeForm, SupportLimitForm
from keys.refusal_history import summaries as refusal_summaries

KEYS_SHOWN = 50
_ACTS = ((SupportLimitForm, "Limit"), (RatesForm, "Rates"), (RevokeForm, "Revoke"))


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


def _refusals(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"refusals": refusal_summaries.sum_by_reason(account, pool.database_time())}


_TEMPLATES = "admin/keys/account"
SECTIONS = [
    Section(10, "spending", "Spending", "keys.view_apikey", f"{_TEMPLATES}/spending.html", _spending),
    Section(30, "keys", "Keys", "keys.view_apikey", f"{_TEMPLATES}/keys.html", _keys),
    Section(60, "refusals", "Refusals in the last 24 hours", "keys.view_apikey", f"{_TEMPLATES}/refusals.html", _refusals),
]
