"""The content of /status: what works now, on each of the last days, and the incidents that staff wrote.

It reads the sums of ``statistics.uptime``: a bounded number of rows, once in READ_SECONDS. Shown on while the database is
unavailable.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from django.urls import reverse
from django.utils.feedgenerator import Rss201rev2Feed

from completions.models import Incident, Provider
from completions.public import facts
from completions.statistics.uptime import DAYS
from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import cell, everywhere, pool

READ_SECONDS = 30
SHOWN_FIRST = 25  # of the models; the others are on a page of their own
INCIDENTS_MAX = 50
_RECENT = timedelta(hours=1)
_REQUESTS_MIN = 20  # fewer say little about a model, or a provider
_DAY_REQUESTS_MIN = 5  # ... about a day of it
_GOOD_PERCENT, _DEGRADED_PERCENT = 99.0, 90.0
_UP_PERCENT, _DOWN_PERCENT = 95.0, 50.0  # of the last hour

# States, the worst first.
DOWN, DEGRADED, UP, QUIET, OFF = "Down", "Degraded", "Works", "Available", "Not available now"
_ORDER = [DOWN, DEGRADED, UP, QUIET, OFF]


class Count(NamedTuple):
    """How many requests were answered, and how many failed."""

    answered: int = 0
    failed: int = 0

    @classmethod
    def total(cls, counts: Iterable["Count"]) -> "Count":
        return cls(*map(sum, zip(cls(), *counts, strict=True)))

    @property
    def requests(self) -> int:
        return self.answered + self.failed

    @property
    def percent(self) -> float:
        return 100 * self.answered / self.requests if self.requests else 100.0


_Days = dict[int, Count]  # by how many days ago
_Found = dict[tuple[str, str], _Days]  # by kind and subject


@dataclass(frozen=True)
class Line:
    """A model or a provider, its state, and what was counted of it in the last DAYS days."""

    name: str
    href: str
    state: str
    counts: _Days
    today: date

    @cached_property
    def whole(self) -> Count:
        return Count.total(self.counts.values())

    @cached_property
    def days(self) -> list[tuple[date, Count]]:
        """The last DAYS days, the oldest first."""
        return [(self.today - timedelta(days=ago), self.counts.get(ago, Count())) for ago in reversed(range(DAYS))]

    @property
    def percent(self) -> str:
        """Rounded down, so that 100 says that every request was answered. Empty where too few came to say."""
        return f"{int(self.whole.percent * 100) / 100:g} %" if self.whole.requests >= _REQUESTS_MIN else ""

    @property
    def bars(self) -> dict[str, str]:
        """The days of each kind as the path of an SVG: a line for days that follow each other, dashed by the style sheet."""
        paths: dict[str, str] = {}
        for kind, run in groupby(enumerate(self.days), key=lambda each: _kind_of_day(each[1][1])):
            places = [place for place, _ in run]
            paths[kind] = paths.get(kind, "") + f"M{places[0]} .5h{len(places)}"
        return paths

    @property
    def percents(self) -> str:
        """The share answered on each day, in percent and rounded down, for charts.js; "-" after too few requests to say."""
        known = [(count.percent, _kind_of_day(count) != "none") for _, count in self.days]
        return " ".join(f"{int(percent * 100) / 100:g}" if is_known else "-" for percent, is_known in known)

    @property
    def description(self) -> str:
        """The chart in words."""
        known = [(day, count) for day, count in self.days if _kind_of_day(count) != "none"]
        if not known:
            return f"{self.name}: too few requests in {DAYS} days"
        day, worst = min(known, key=lambda each: each[1].percent)
        if worst.percent >= _GOOD_PERCENT:
            return f"{self.name}: at least {_GOOD_PERCENT:g} % of requests answered on each day with enough requests"
        return f"{self.name}: the worst day was {day:%d %b %Y}, with {int(worst.percent * 10) / 10:g} % of requests answered"


@dataclass(frozen=True)
class Status:
    """Models come in the order of their states, then of their traffic."""

    at: datetime
    providers: list[Line]
    models: list[Line]
    open: list[Incident]
    planned: list[Incident]
    past: list[Incident]

    @property
    def troubled(self) -> list[Line]:
        return [each for each in self.models if each.state in (DOWN, DEGRADED)]


_status: StaleWhileRefresh[None, Status] = StaleWhileRefresh(seconds=READ_SECONDS, stale_on=pool.DATABASE_ERRORS)


def current() -> Status:
    """Return what was read last. Raises the database's errors only while nothing was ever read."""
    return _status.get(None, _read, version=facts.current())


def line_of(model_id: str) -> Line | None:
    """Return the line of a model; None for one that says nothing, and while nothing can be read."""
    try:
        return next((each for each in current().models if each.href == reverse("model", args=[model_id])), None)
    except pool.DATABASE_ERRORS:
        return None


def forget() -> None:
    """Read everything again on the next call."""
    _status.clear()


def _read(previous: Status | None) -> Status:
    listed = facts.current().models
    with pool.time_limit():
        now = pool.database_time()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        days = _read_counts(is_day=True, since=midnight - timedelta(days=DAYS - 1), today=midnight)
        recent = _read_counts(is_day=False, since=now - _RECENT - timedelta(hours=1), today=midnight)
        providers = {each.pk: each.is_available for each in Provider.objects.filter(routes__isnull=False).distinct()}
        latest = Incident.objects.order_by("-began_at").prefetch_related("updates")[:INCIDENTS_MAX]
        incidents = [each for each in latest if each.ended_at is None or each.ended_at > now - timedelta(days=DAYS)]
    models = [
        _line(("model", model_id), each.model.name, reverse("model", args=[model_id]), each.is_available, days, recent, now)
        for model_id, each in listed.items()
    ]
    shown = [_line(("provider", slug), slug, "", is_on, days, recent, now) for slug, is_on in providers.items()]
    return Status(
        at=now,
        providers=_sorted(shown),
        models=_sorted(models),
        open=[each for each in incidents if each.began_at <= now and (each.ended_at is None or each.ended_at > now)],
        planned=[each for each in incidents if each.began_at > now],
        past=[each for each in incidents if each.ended_at is not None and each.ended_at <= now],
    )


def _read_counts(*, is_day: bool, since: datetime, today: datetime) -> _Found:
    values = {"is_day": is_day, "since": since, "today": today}
    found: _Found = {}
    for kind, subject, *days in everywhere.gather(lambda: cell.execute(_COUNTS, values), may_miss=True):
        counts = found.setdefault((kind, subject), {})
        for ago, *numbers in zip(*days, strict=True):
            count = Count(*numbers)
            counts[ago] = Count.total([counts[ago], count]) if ago in counts else count
    return found


_COUNTS = """
    SELECT kind, subject,
        array_agg(extract(day FROM %(today)s - since)::integer), array_agg(answered), array_agg(failed)
    FROM completions_uptimesums WHERE is_day = %(is_day)s AND since >= %(since)s GROUP BY kind, subject
"""


def _line(
    subject: tuple[str, str], name: str, href: str, is_available: bool, days: _Found, recent: _Found, now: datetime
) -> Line:
    state = _state(Count.total(recent.get(subject, {}).values()), is_available=is_available)
    return Line(name, href, state, days.get(subject, {}), now.date())


def _state(recent: Count, *, is_available: bool) -> str:
    if not is_available:
        return OFF
    if recent.requests < _DAY_REQUESTS_MIN:
        return QUIET
    return UP if recent.percent >= _UP_PERCENT else DEGRADED if recent.percent >= _DOWN_PERCENT else DOWN


def _sorted(lines: Iterable[Line]) -> list[Line]:
    """Return those that can be called, or could be in the last days: a model that never was says nothing here."""
    shown = [each for each in lines if each.state != OFF or each.whole.requests]
    return sorted(shown, key=lambda each: (_ORDER.index(each.state), -each.whole.requests, each.name.casefold()))


def _kind_of_day(count: Count) -> str:
    if count.requests < _DAY_REQUESTS_MIN:
        return "none"
    return "good" if count.percent >= _GOOD_PERCENT else "some" if count.percent >= _DEGRADED_PERCENT else "bad"


def render_feed(base_url: str) -> str:
    """Return the incidents as RSS, the latest first. One that has news is the same item, with another date."""
    status, address = current(), f"{base_url}{reverse('status')}"
    feed = Rss201rev2Feed(
        "Model Gateway status", address, "What does not work at this gateway.", feed_url=f"{base_url}{reverse('status-feed')}"
    )
    for each in [*status.open, *status.planned, *status.past]:
        last = max([each.ended_at or each.began_at, *(update.at for update in each.updates.all())])
        link = f"{address}#incident-{each.id}"
        feed.add_item(title=each.title, link=link, description=_described(each), pubdate=last, unique_id=link)
    return str(feed.writeString("utf-8"))


def _described(incident: Incident) -> str:
    ended = f"Ended {incident.ended_at:%d %b %Y, %H:%M} UTC." if incident.ended_at else ""
    began = f"{incident.get_impact_display()}. Began {incident.began_at:%d %b %Y, %H:%M} UTC. {ended}".strip()
    return "\n".join([began, *(f"{each.at:%d %b, %H:%M} UTC: {each.text}" for each in incident.updates.all())])
