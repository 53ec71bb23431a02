"""What completions show of an account: the latest ones, and the monthly statements."""

from typing import Any

from django.http import HttpRequest

from billing import statement_pages
from billing.models import Account
from completions.history import explanation, reading
from gateway_project.desk.panels import Section

COMPLETIONS_SHOWN = 10


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


SECTIONS = [
    Section(
        40,
        "completions",
        "Latest completions",
        "completions.view_completion",
        "admin/completions/account/completions.html",
        _latest,
    ),
    Section(
        55,
        "months",
        "Monthly statements",
        "billing.view_ledgerentry",
        "admin/completions/account/months.html",
        lambda request, account: {"months": statement_pages.months_of(account)},
    ),
]
