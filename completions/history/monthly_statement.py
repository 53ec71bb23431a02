"""/dashboard/ledger/<year>/<month>/: what a month changed, by type and by model, to print.

The balances and the sums by type are those of the ledger, found by index seeks. Those by model are the sums of the usage page.
"""

import re
from datetime import date, timedelta
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from billing.accounts.list_forms import begin_of
from billing.accounts.member_pages import member_of, plain_page
from billing.accounts.roles import Permission
from billing.ledger import reading
from billing.models import Account
from billing.payments import booking
from completions.usage import figures
from gateway_project import identifiers
from gateway_project.db import pool
from gateway_project.text import dollars


@plain_page()
def show_month(request: HttpRequest, account: Account, year: int, month: int) -> HttpResponse:
    """Show the statement of a calendar month in UTC. Billing details are for those who may pay."""
    payer = booking.describe_payer(account) if member_of(request).may[Permission.PAY.name] else {}
    context = {**read(account, year, month), "seller": settings.SELLER_LINES, "payer": payer}
    return render(request, "dashboard/month.html", context)


def number_of(account: Account, month: date) -> str:
    """Return the number of the statement: of the account, as its receipts have it, and of the month."""
    return f"{identifiers.ending(account.pk)}-{month:%Y-%m}"


def parse_number(number: str) -> tuple[str, date] | None:
    """Return the end of the account's id, and the month, of the number of a statement; None if it is none."""
    match = re.fullmatch(r"(?:statement )?([0-9a-f]{8})-(\d{4})-(\d{2})", number, re.IGNORECASE | re.ASCII)
    try:
        return (match[1].lower(), date(int(match[2]), int(match[3]), 1)) if match else None
    except ValueError:
        return None


def read(account: Account, year: int, month: int) -> dict[str, Any]:
    """Return what a month changed, for a template. Raises Http404 for a month that has not begun."""
    now = pool.database_time()
    try:
        first_day = date(year, month, 1)
    except (ValueError, OverflowError):
        raise Http404 from None
    if first_day > now.date():
        raise Http404
    next_day = (first_day + timedelta(days=31)).replace(day=1)
    since, until = begin_of(first_day), begin_of(next_day)
    before = [reading.read_before(account, moment) for moment in (since, until)]
    opening_nanos, closing_nanos = (entry.balance_after_nanos if entry else 0 for entry in before)
    titles = reading.sum_by_title(account, since, until)
    models = [(group.value, used) for group, used in figures.read_groups(account, since, until, figures.MODEL)]
    shown_nanos = [opening_nanos, closing_nanos, *(nanos for _, nanos in titles.values())]
    shown_nanos += [used.cost_nanos for _, used in models]
    return {
        "number": number_of(account, first_day),
        "month": first_day,
        "until": next_day,
        "last_day": next_day - timedelta(days=1),
        "is_running": until > now,
        "opening_nanos": opening_nanos,
        "closing_nanos": closing_nanos,
        "last": before[1],
        "decimals": dollars.exact_decimals(shown_nanos),
        "types": [{"title": title, "number": number, "nanos": nanos} for title, (number, nanos) in titles.items()],
        "models": models,
        "used_in_all": figures.read_total(account, since, until),
        "is_behind": figures.is_behind(account),
    }
