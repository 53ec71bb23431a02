"""The panels of completions on the admin's home page, and the sections of an account's page about them."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from django.contrib.admin.utils import quote
from django.db.models import Sum
from django.http import HttpRequest
from django.urls import reverse

from billing import statement_pages
from billing.models import Account
from billing.staff import approvals
from completions.catalog import change_alerts
from completions.catalog.change_alerts import Told
from completions.catalog.sync import diff
from completions.history import pages, reading, runs
from completions.models import (
    CatalogProposal,
    Completion,
    CompletionHour,
    Incident,
    LanguageModel,
    Price,
    PriceRequest,
    Provider,
    Route,
    UptimeSums,
)
from completions.statistics import hours as completions_of_hours
from completions.statistics import measurements
from gateway_project import bar_chart
from gateway_project.db import cell, everywhere, pool
from gateway_project.desk import panels
from gateway_project.desk.panels import Content, Panel, Row, Section
from gateway_project.monitoring.models import Process
from gateway_project.text import dollars
from keys import budget_pages
from keys.models import Run

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
FAILING_PERCENT, FAILING_ATTEMPTS = 5, 5  # a route with fewer attempts in an hour says little
LOW_NANOS = dollars.NANOS_PER_DOLLAR
ROWS_SHOWN, CHANGES_SHOWN, COMPLETIONS_SHOWN, RUNS_SHOWN = 8, 30, 10, 10


def _requests(now: datetime) -> Content:
    numbers = {hour: found.completions for hour, found in _read_hours(now).items()}
    chart = bar_chart.build_hours(numbers, now, "Requests of each hour")
    return panels.compare(panels.sum_windows(numbers, now), words="that ran", chart=chart)


def _failures(now: datetime) -> Content:
    """As the status page counts them: the failures of one account count at most as often as those of all others."""
    sums = UptimeSums.objects.filter(is_day=False, kind="model", since__gte=panels.windows(now)[-1][0])
    by_hour = sums.values_list("since").annotate(Sum("answered"), Sum("failed")).order_by("since")
    answered, failed = Counter[datetime](), Counter[datetime]()
    for hour, of_answered, of_failed in everywhere.gather(by_hour.all, may_miss=True):
        answered[hour] += int(of_answered)
        failed[hour] += int(of_failed)
    both = [panels.sum_windows(numbers, now) for numbers in (failed, answered)]
    shown = [f"{100 * bad / (bad + good):.2f} %" if bad or good else "-" for bad, good in zip(*both, strict=True)]
    return replace(panels.compare(both[0], shown, words="as the status page counts"), change="")


def _spending(now: datetime) -> Content:
    numbers = {hour: found.cost_nanos for hour, found in _read_hours(now).items()}
    nanos = panels.sum_windows(numbers, now)
    amounts = dollars.show_column(nanos)
    chart = bar_chart.build_hours(numbers, now, "Spending of each hour", lambda of_hour: dollars.show(of_hour).shown)
    return panels.compare(nanos, [each.shown for each in amounts], exact=amounts[0].exact, chart=chart)


def _first_token(now: datetime) -> Content:
    hours = _read_hours(now)
    measured = [hour for hour in bar_chart.last_hours(now) if hour in hours and hours[hour].first_token_p50_ms is not None]
    if not measured:
        return Content("-", "No streams in the last 24 hours.", before=("-", "-"))
    same = [hours.get(measured[-1] - (now - until)) for _, until in panels.windows(now)]
    half, *before = [measurements.format_seconds(each.first_token_p50_ms if each else None) for each in same]
    last, most = hours[measured[-1]], {hour: found.first_token_p99_ms or 0 for hour, found in hours.items()}
    nearly_all = measurements.format_seconds(last.first_token_p99_ms)
    words = f"for half of the streams since {last.hour:%H:%M} UTC; 99 % began within {nearly_all}"
    chart = bar_chart.build_hours(most, now, "Within which 99 % began", measurements.format_seconds)
    return Content(half, words, before=before, exact=f"{last.first_token_p50_ms:,} ms", chart=chart)


def _read_hours(now: datetime) -> dict[datetime, CompletionHour]:
    return completions_of_hours.read(panels.windows(now)[-1][0] - _HOUR)


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
    found, words = CatalogProposal.objects.filter(state=CatalogProposal.State.PENDING), "of a provider's list from the catalog"
    return panels.read_waiting(found, "created_at", f"difference {words} waits", f"differences {words} wait")


def _incidents(now: datetime) -> Content:
    found = Incident.objects.filter(began_at__lte=now, ended_at=None)
    return panels.read_waiting(
        found, "began_at", "incident on the status page is open", "incidents on the status page are open"
    )


def _provider_keys(now: datetime) -> Content:
    refused = [each.pk for each in Provider.objects.exclude(key_refused_at=None) if each.is_enabled and each.is_key_refused]
    one, many = "provider refused our key", "providers refused our keys"
    return panels.read_waiting(Provider.objects.filter(pk__in=refused), "key_refused_at", one, many)


def _dead_letters(now: datetime) -> Content:
    hosts = Process.objects.alive().order_by("seen_at").values_list("host", "gauges")
    numbers = {host: gauges.get("gateway_dead_letters", 0) for host, gauges in hosts}
    rows = [Row(host, f"{number:,}: run model-gateway dead_letters there") for host, number in numbers.items() if number]
    return Content(f"{sum(numbers.values()):,}", "settlements could not be booked", rows=rows, needs_attention=bool(rows))


def _prices(now: datetime) -> Content:
    waiting = approvals.waiting(PriceRequest, now)
    found, rows = (
        panels.read_waiting(waiting, "requested_at", "price waits for approval", "prices wait for approval"),
        _unrated_tiers(now),
    )
    return replace(found, rows=[*found.rows, *rows[:ROWS_SHOWN]], needs_attention=found.needs_attention or bool(rows))


def _unrated_tiers(now: datetime) -> list[Row]:
    """Return the routes that served a service tier that the price in force still has no rates for."""
    routes = Route.objects.filter(unrated_tier_at__gte=now - _DAY).order_by("model_id", "id")
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
    number = len(prices) + len(ends)
    words = "price or model that changes later" if number == 1 else "prices and models that change later"
    return Content(str(number), words, rows=[row for _, row in rows[:CHANGES_SHOWN]])


def _changed_price(price: Price, told: Counter[Told]) -> Row:
    before = price.model.prices.before(price.effective_from)
    change = diff.describe_price_change(before.sheet.values if before else {}, price.sheet.values)
    words = f"{change}, from {price.effective_from:%Y-%m-%d %H:%M} UTC"
    return _change_row(price.model, words, told[Told(price.model_id, price.pk, None)])


def _end(model: LanguageModel, told: Counter[Told]) -> Row:
    successor = f", its successor is {model.successor_id}" if model.successor_id else ""
    return _change_row(model, f"ends on {model.ends_on}{successor}", told[Told(model.pk, None, str(model.ends_on))])


def _change_row(model: LanguageModel, words: str, told: int) -> Row:
    accounts = f"{told:,} {'account was' if told == 1 else 'accounts were'} told" if told else "no account was told yet"
    return Row(model.pk, f"{words}; {accounts}", reverse("admin:completions_languagemodel_change", args=[quote(model.pk)]))


def _low_accounts(now: datetime) -> Content:
    values = [Completion.least_id(now - _DAY), measurements.COMPLETIONS_MAX, LOW_NANOS, ROWS_SHOWN]
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
    Panel(10, "requests", "Requests", "completions.completion", _requests),
    Panel(12, "failures", "Failed requests", "completions.completion", _failures, "?settlement__exact=released"),
    Panel(16, "spending", "Spending", "completions.completion", _spending),
    Panel(18, "first-token", "Time to first token", "completions.completionhour", _first_token),
    Panel(28, "prices", "Prices", "completions.pricerequest", _prices, "?state=waiting"),
    Panel(40, "incidents", "Open incidents", "completions.incident", _incidents),
    Panel(45, "provider-keys", "Refused provider keys", "completions.provider", _provider_keys),
    Panel(50, "routes", "Failing and paused routes", "completions.route", _routes),
    Panel(60, "low-accounts", "Accounts near zero", "billing.account", _low_accounts),
    Panel(68, "dead-letters", "Dead letters", "completions.completion", _dead_letters),
    Panel(80, "proposals", "Proposals", "completions.catalogproposal", _proposals, "?state__exact=pending"),
    Panel(82, "changes", "What will change", "completions.price", _changes),
]


def _latest(request: HttpRequest, account: Account) -> dict[str, Any]:
    page = reading.read_page(account.pk, reading.Selection(), limit=COMPLETIONS_SHOWN)
    return {"completions": list(map(pages.row, page.completions))}


def _months(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"months": statement_pages.months_of(account)}


def _own_keys(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"keys": list(account.own_keys.defer("sealed_secret").order_by("provider_id"))}


def _budgets(request: HttpRequest, account: Account) -> dict[str, Any]:
    now, found = pool.database_time(), Run.objects.filter(key__account=account)
    latest = found.select_related("key").order_by("-created_at", "-pk")[:RUNS_SHOWN]
    described = [runs.describe(run, now) for run in latest]
    return {"budgets": budget_pages.summarize(account, now), "runs": described, "count": found.count()}


_TEMPLATES = "admin/completions/account"
SECTIONS = [
    Section(35, "budgets", "Budgets and runs", "keys.view_apikey", f"{_TEMPLATES}/budgets.html", _budgets),
    Section(40, "completions", "Latest completions", "completions.view_completion", f"{_TEMPLATES}/completions.html", _latest),
    Section(45, "own-keys", "Own provider keys", "completions.view_completion", f"{_TEMPLATES}/own_keys.html", _own_keys),
    Section(55, "months", "Monthly statements", "billing.view_ledgerentry", f"{_TEMPLATES}/months.html", _months),
]
