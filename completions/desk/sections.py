"""The sections of an account's page about completions: the latest ones, and the monthly statements."""

from typing import Any

from django.http import HttpRequest

from billing import statement_pages
from billing.models import Account
from completions.history import explanation, reading
from gateway_project.desk.panels import Section

COMPLETIONS_SHOWN = 10
_TEMPLATES = "admin/completions/account"


def _latest(request: HttpRequest, account: Account) -> dict[str, Any]:
    latest = reading.read_page(account.pk, reading.Selection(), limit=COMPLETIONS_SHOWN)
    return {
        "completions": [
            {
                "completion": each,
                "state": each.get_settlement_display() if each.settlement else "running",
                "tokens": explanation.total_tokens(each),
            }
            for each in latest.completions
        ]
    }


def _months(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"months": statement_pages.months_of(account)}


SECTIONS = [
    Section(40, "completions", "Latest completions", "completions.view_completion", f"{_TEMPLATES}/completions.html", _latest),
    Section(55, "months", "Monthly statements", "billing.view_ledgerentry", f"{_TEMPLATES}/months.html", _months),
]
