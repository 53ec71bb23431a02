"""The panels of completions on the admin's home page, and the sections of an account's page about them."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse

from billing import statement_pages
from billing.models import Account
from billing.staff import approvals
from completions.catalog import change_alerts
from completions.catalog.change_alerts import Told
from completions.catalog.sync import diff
from completions.history import explanation, reading
from completions.models import CatalogProposal, Completion, CompletionHour, LanguageModel, Price, PriceRequest, Route
from completions.statistics import hours as completions_of_hours
from completions.statistics import measurements
from gateway_project import bar_chart
from gateway_project.db import cell, everywhere
from gateway_project.desk.panels import Content, Panel, Row, Section
from gateway_project.text import dollars

HOURS = 24
_HOUR = timedelta(hours=1)
_DAYS_COMPARED = 7
FAILING_PERCENT, FAILING_ATTEMPTS = 5, 5  # a route with fewer attempts in an hour says little
LOW_NANOS = dollars.NANOS_PER_DOLLAR
ROWS_SHOWN, CHANGES_SHOWN, COMPLETIONS_SHOWN = 8, 30, 10


def _spending(now: datetime) -> Content:
    hours = _read_hours(now, _DAYS_COMPARED + 1)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    spent_nanos = _spent_nanos(hours, today, now)
    days = [ago * 24 * _HOUR for ago in range(1, _DAYS_COMPARED + 1)]
    before = [_spent_nanos(hours, today - ago, now - ago) for ago in days]
    mean_nanos = sum(before) // len(before)
    spent, yesterday, mean = dollars.show_column([spent_nanos, before[0], mean_nanos])
    words = f"By this time it was {yesterday.shown} yesterday, and {mean.shown} on average in the last {_DAYS_COMPARED} days."
    values = [(hour, found.cost_nanos if found else 0) for hour, found in _last_hours(hours, now)]
    bars = [(hour, nanos, dollars.show(nanos).shown) for hour, nanos in values]
    return Content(spent.shown, words, exact=spent.exact, chart=bar_chart.build(bars, "Spending of the last 24 hours"))


def _spent_nanos(hours: dict[datetime, CompletionHour], since: datetime, until: datetime) -> int:
    """Return what was spent from a full hour until ``until``: of a last hour that is over, the share that had passed then."""
    last = until.replace(minute=0, second=0, microsecond=0)
    full = sum(each.cost_nanos for hour, each in hours.items() if since <= hour < last)
    if last not in hours:
        return full
    is_running = max(hours) == last
    share_seconds = 3_600 if is_running else (until - last).seconds
    return full + hours[last].cost_nanos * share_seconds // 3_600


def _first_token(now: datetime) -> Content:
    hours = _last_hours(_read_hours(now, 1), now)
    measured = [(hour, found) for hour, found in hours if found and found.first_token_p50_ms is not None]
    if not measured:
        return Content("-", "No streams in the last 24 hours.")
    _, last = measured[-1]
    values = [(hour, (found and found.first_token_p99_ms) or 0) for hour, found in hours]
    half, most = map(measurements.format_seconds, (last.first_token_p50_ms, last.first_token_p99_ms))
    words = f"for half of the streams since {last.hour:%H:%M} UTC; 99 % began within {most}"
    bars = [(hour, value, measurements.format_seconds(value)) for hour, value in values]
    chart = bar_chart.build(bars, "Within which 99 % began, in the last 24 hours")
    return Content(half, words, exact=f"{last.first_token_p50_ms:,} ms", chart=chart)


def _read_hours(now: datetime, days: int) -> dict[datetime, CompletionHour]:
    return completions_of_hours.read(now - (24 * days + 1) * _HOUR)


def _last_hours(hours: dict[datetime, CompletionHour], now: datetime) -> Sequence[tuple[datetime, CompletionHour | None]]:
    """Return the last HOURS hours with their row, the current one last."""
    current = now.replace(minute=0, second=0, microsecond=0)
    return [(hour, hours.get(hour)) for hour in (current - ago * _HOUR for ago in reversed(range(HOURS)))]


def _routes(now: datetime) -> Content:
    measured = measurements.measure(now - _HOUR)
    enabled = Route.objects.filter(is_enabled=True, provider__is_enabled=True, model__is_enabled=True)
    routes = list(enabled.order_by("model_id", "id"))
    rows = [row for route in routes if (row := _trouble(route, measured, now))]
    number = len(rows)
    words = f"of {len(routes)} routes failed often in the last hour or are paused after failures"
    return Content(str(number), words, rows=rows[:ROWS_SHOWN], needs_attention=number > 0)


def _trouble(route: Route, measured: dict[measurements.Route, measurements.Measured], now: datetime) -> Row | None:
    found = measured.get((route.provider_id, route.model_id), measurements.NOTHING)
    words = []
    if route.rests_until and route.rests_until > now:
        words.append(f"paused until {route.rests_until:%H:%M:%S} UTC")
    if found.attempts >= FAILING_ATTEMPTS and found.failed_percent >= FAILING_PERCENT:
        words.append(f"{found.failed_percent:.0f} % of {found.attempts:,} attempts failed")
    if not words:
        return None
    return Row(str(route), "; ".join(words), reverse("admin:completions_route_change", args=[route.pk]))


def _proposals(now: datetime) -> Content:
    number = CatalogProposal.objects.filter(state=CatalogProposal.State.PENDING).count()
    return Content(str(number), "differences between providers' lists and the catalog wait", needs_attention=number > 0)


def _prices(now: datetime) -> Content:
    number, rows = approvals.waiting(PriceRequest).count(), _unrated_tiers(now)
    words = "price waits for approval" if number == 1 else "prices wait for approval"
    return Content(str(number), words, rows=rows[:ROWS_SHOWN], needs_attention=number > 0 or bool(rows))


def _unrated_tiers(now: datetime) -> list[Row]:
    """Return the routes that served a service tier that the price in force still has no rates for."""
    routes = Route.objects.filter(unrated_tier_at__gte=now - HOURS * _HOUR).order_by("model_id", "id")
    prices = {price.model_id: price for price in Price.objects.in_force().filter(model__in=routes.values("model"))}
    return [
        Row(
            str(route),
            f"served the {route.unrated_tier} tier and was charged at the standard rates: enter rates for that tier",
            reverse("admin:completions_languagemodel_price", args=[route.model_id]),
        )
        for route in routes
        if route.model_id not in prices or route.unrated_tier not in prices[route.model_id].sheet.tiers
    ]


def _changes(now: datetime) -> Content:
    prices = list(Price.objects.filter(effective_from__gt=now).select_related("model").order_by("effective_from", "pk"))
    ends = list(LanguageModel.objects.filter(ends_on__gte=now.date()).order_by("ends_on", "pk"))
    told = change_alerts.count_told({*(price.model_id for price in prices), *(model.pk for model in ends)})
    rows = [(price.effective_from.date(), _changed_price(price, told)) for price in prices[:CHANGES_SHOWN]]
    rows += [(model.ends_on, _end(model, told)) for model in ends[:CHANGES_SHOWN] if model.ends_on]
    rows.sort(key=lambda row: (row[0], row[1].name))
    words = "prices that begin later, and models that end"
    return Content(str(len(prices) + len(ends)), words, rows=[row for _, row in rows[:CHANGES_SHOWN]])


def _changed_price(price: Price, told: Counter[Told]) -> Row:
    before = price.model.prices.before(price.effective_from)
    change = diff.describe_price_change(diff.price_values(before) if before else {}, diff.price_values(price))
    words = f"{change}, from {price.effective_from:%Y-%m-%d %H:%M} UTC"
    return _change_row(price.model, words, told[Told(price.model_id, price.pk, None)])


def _end(model: LanguageModel, told: Counter[Told]) -> Row:
    successor = f", its successor is {model.successor_id}" if model.successor_id else ""
    return _change_row(model, f"ends on {model.ends_on}{successor}", told[Told(model.pk, None, str(model.ends_on))])


def _change_row(model: LanguageModel, words: str, told: int) -> Row:
    accounts = f"{told:,} {'account was' if told == 1 else 'accounts were'} told" if told else "no account was told yet"
    return Row(model.pk, f"{words}; {accounts}", reverse("admin:completions_languagemodel_change", args=[quote(model.pk)]))


def _low_accounts(now: datetime) -> Content:
    values = [Completion.least_id(now - 24 * _HOUR), measurements.COMPLETIONS_MAX, LOW_NANOS, ROWS_SHOWN]
    cells = everywhere.run(lambda: cell.execute(_LOW_ACCOUNTS, values), may_miss=True)
    number = sum(found[0][3] for found in cells if found)
    lowest = sorted(chain.from_iterable(cells), key=lambda found: found[2])[:ROWS_SHOWN]
    shown = dollars.show_column([nanos for _, _, nanos, _ in lowest], is_floored=True)
    rows = [
        Row(name, available.shown, reverse("admin:billing_account_change", args=[pk]))
        for (pk, name, _, _), available in zip(lowest, shown, strict=True)
    ]
    return Content(
        str(number), "accounts used in the last 24 hours have less than $1 left", rows=rows, needs_attention=number > 0
    )


# An index on balances would have to be updated with each completion. So this reads the accounts that completions lead to.
_LOW_ACCOUNTS = """
    SELECT id, name, balance_nanos - held_nanos, count(*) OVER ()
    FROM billing_account
    WHERE is_active AND id = ANY (ARRAY(
        SELECT DISTINCT account_id
        FROM (SELECT account_id FROM completions_completion WHERE id >= %s ORDER BY id DESC LIMIT %s) AS newest
    )) AND balance_nanos - held_nanos < %s
    ORDER BY 3, id LIMIT %s
"""

PANELS = [
    Panel(10, "spending", "Spending today", "completions.completion", _spending),
    Panel(26, "prices", "Prices", "completions.pricerequest", _prices, "?state=waiting"),
    Panel(30, "first-token", "Time to first token", "completions.completionhour", _first_token),
    Panel(50, "routes", "Failing and paused routes", "completions.route", _routes),
    Panel(60, "low-accounts", "Accounts near zero", "billing.account", _low_accounts),
    Panel(80, "proposals", "Proposals", "completions.catalogproposal", _proposals, "?state__exact=pending"),
    Panel(82, "changes", "What will change", "completions.price", _changes),
]


def _latest(request: HttpRequest, account: Account) -> dict[str, Any]:
    rows = []
    for each in reading.read_page(account.pk, reading.Selection(), limit=COMPLETIONS_SHOWN).completions:
        state = each.get_settlement_display() if each.settlement else "running"
        rows.append({"completion": each, "state": state, "tokens": explanation.total_tokens(each)})
    return {"completions": rows}


def _months(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"months": statement_pages.months_of(account)}


_TEMPLATES = "admin/completions/account"
SECTIONS = [
    Section(40, "completions", "Latest completions", "completions.view_completion", f"{_TEMPLATES}/completions.html", _latest),
    Section(55, "months", "Monthly statements", "billing.view_ledgerentry", f"{_TEMPLATES}/months.html", _months),
]
