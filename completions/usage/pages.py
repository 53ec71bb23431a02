"""The usage page of an account, and its files. Every member opens them, as the statement."""

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from billing.accounts.member_pages import act_page, plain_page
from billing.models import Account
from completions.usage import figures, files, plot, ranges, sums
from completions.usage.figures import Group, Grouping, Kind, Sums
from completions.usage.ranges import Range
from gateway_project.db import pool
from gateway_project.templatetags.amounts import usd
from keys.models import ApiKey

_GROUPINGS = {"model": figures.MODEL, "key": figures.KEY, "user": figures.END_USER, "run": figures.RUN}
_TAG = "tag:"  # begins the parameter of a grouping by a tag; its name follows
_FIRST_DAY = date(2000, 1, 1)


@dataclass(frozen=True)
class Query:
    """The selection of a page or file: range, groups, and the measure of the plot. ``error`` says why a range is refused."""

    shown: Range
    by: str
    grouping: Grouping
    measure: str
    error: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str], now: datetime) -> "Query":
        """Read the query string. Invalid parameters get their defaults, so that old bookmarks open."""
        by, measure = parameters.get("by", ""), parameters.get("show", "")
        if by.startswith(_TAG) and by != _TAG:
            grouping = Grouping(label_name=by.removeprefix(_TAG))
        else:
            by = by if by in _GROUPINGS else "model"
            grouping = _GROUPINGS[by]
        shown, error = _read_range(parameters, now)
        if grouping.label_name is not None and shown.since < now - sums.HOURS_KEPT:
            shown = replace(shown, has_hours=False)
        return cls(shown, by, grouping, measure if measure in plot.MEASURES else "spend", error)

    @property
    def title(self) -> str:
        """The grouping of the requests, in words."""
        return f"Tag {self.by.removeprefix(_TAG)}" if self.by.startswith(_TAG) else self.by.capitalize()

    def address(self, **changes: str) -> str:
        """Return the query string of this page with changes."""
        days = {"from": self.shown.since.date(), "to": self.shown.last_day} if self.shown.name == ranges.OWN else {}
        return "?" + urlencode({"range": self.shown.name, **days, "by": self.by, "show": self.measure, **changes})


def _read_range(parameters: Mapping[str, str], now: datetime) -> tuple[Range, str]:
    name = parameters.get("range", ranges.DEFAULT)
    if name != ranges.OWN:
        return ranges.preset(name if name in ranges.PRESETS else ranges.DEFAULT, now), ""
    try:
        first, last = (date.fromisoformat(parameters.get(which, "")) for which in ("from", "to"))
    except ValueError:
        return ranges.preset(ranges.DEFAULT, now), "Enter two days, such as 2026-11-01 and 2026-11-22."
    if not (_FIRST_DAY <= first <= now.date() and 0 <= (last - first).days < ranges.DAYS_MAX):
        message = f"The first day must not be in the future, nor after the last one. At most {ranges.DAYS_MAX} days are shown."
        return ranges.preset(ranges.DEFAULT, now), message
    return ranges.own(first, last, now), ""


@plain_page()
def show_usage(request: HttpRequest, account: Account) -> HttpResponse:
    """Show what the account used in a range, compared with the time before, as a plot and its table."""
    query = Query.of(request.GET, pool.database_time())
    shown = query.shown
    found = figures.read(account, shown, query.grouping)
    before = figures.read_steps(account, shown.before_since, shown.before_until, shown.step)
    groupings = {name: name.capitalize() for name in _GROUPINGS}
    groupings |= {f"{_TAG}{name}": f"Tag {name}" for name in figures.read_tag_names(account)} | {query.by: query.title}
    names, measure = _names(account, query, found.groups), plot.MEASURES[query.measure]
    context = {
        "query": query,
        "total": found.total,
        "headlines": _headlines(found.total, figures.add_up(before.values())),
        "plot": plot.build_plot(shown, found, before, names, measure),
        "lines": plot.build_lines(found, names, _addresses(query, found.groups), measure),
        "presets": _links(query, "range", ranges.PRESETS.items(), shown.name),
        "measure": measure,
        "brush_address": query.address(range=ranges.OWN),
        "groupings": _links(query, "by", groupings.items(), query.by),
        "measures": _links(query, "show", [(name, each.title) for name, each in plot.MEASURES.items()], query.measure),
        "is_behind": figures.is_behind(account),
        "has_usage": any(found.total),
        "is_new": account.last_seq == 0,
        "values_shown": figures.VALUES_SHOWN,
    }
    return render(request, "dashboard/usage.html", context)


def _links(query: Query, parameter: str, choices: Iterable[tuple[str, str]], current: str) -> list[dict[str, Any]]:
    """Return the choices of a parameter."""
    return [
        {"title": title, "address": query.address(**{parameter: value}), "is_current": value == current}
        for value, title in choices
    ]


def _names(account: Account, query: Query, groups: Collection[Group]) -> dict[Group, str]:
    """Return what each group is called."""
    key_names = _key_names(account, [group.value for group in groups]) if query.grouping == figures.KEY else {}
    what = query.by.removeprefix(_TAG)
    words = {Kind.OTHER: "Others", Kind.NONE: f"Without {what}"}
    return {group: words.get(group.kind) or key_names.get(group.value) or group.value or "Empty" for group in groups}


def _addresses(query: Query, groups: Iterable[Group]) -> dict[Group, str]:
    """Return where the requests of each value of a model, key or user are listed."""
    if query.by not in _GROUPINGS:
        return {}
    days = {"since": query.shown.since.date(), "until": query.shown.last_day}
    values = [group for group in groups if group.kind is Kind.TOLD]
    return {group: f"{reverse('requests')}?{urlencode({query.by: group.value, **days})}" for group in values}


def _key_names(account: Account, key_ids: list[str] | None = None) -> dict[str, str]:
    """Return the names of these keys of the account, or of all, by id."""
    keys = ApiKey.objects.filter(account=account)
    return dict((keys if key_ids is None else keys.filter(pk__in=key_ids)).values_list("pk", "name"))


class Headline(NamedTuple):
    """One figure of the range, and what it was before, in words."""

    title: str
    words: str
    before: str
    change: plot.Change


def _headlines(now: Sums, before: Sums) -> list[Headline]:
    change, now_ms, before_ms = plot.describe_change, now.mean_first_token_ms, before.mean_first_token_ms
    errors = f"{now.errors:,} ({100 * now.errors / now.requests:.1f} %)" if now.errors else "0"
    return [
        Headline("Spent", usd(now.cost_nanos), usd(before.cost_nanos), change(now.cost_nanos, before.cost_nanos)),
        Headline("Requests", f"{now.requests:,}", f"{before.requests:,}", change(now.requests, before.requests)),
        Headline("Tokens", f"{now.tokens:,}", f"{before.tokens:,}", change(now.tokens, before.tokens)),
        Headline("Errors", errors, f"{before.errors:,}", change(now.errors, before.errors)),
        Headline("Time to first token", _seconds(now_ms), _seconds(before_ms), change(now_ms, before_ms)),
    ]


def _seconds(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds / 1000:.2f} s"


@act_page()
def download_usage(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Download the groups of each day as CSV."""
    query, names = Query.of(request.GET, pool.database_time()), _key_names(account)
    lines = files.write_usage(account, query.shown, query.grouping, query.title, names)
    return _download(request, account, query, "usage.csv", lines)


@act_page()
def download_focus(request: HttpRequest, account: Account) -> HttpResponseBase:
    """Download the usage of each day in FOCUS columns."""
    query, names = Query.of(request.GET, pool.database_time()), _key_names(account)
    return _download(request, account, query, "focus.csv", files.write_focus(account, query.shown, query.grouping, names))


def _download(
    request: HttpRequest, account: Account, query: Query, filename: str, lines: Generator[bytes, None, None]
) -> HttpResponseBase:
    summary = f"Downloaded {filename} of {query.shown.since:%Y-%m-%d} to {query.shown.last_day}, by {query.title.lower()}."
    return files.respond(request, account, filename, lines, summary)
