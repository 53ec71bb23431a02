"""What /status shows: what works now, on each of the last days, and the incidents that staff wrote.

It reads the sums of ``statistics.uptime``: a bounded number of rows, once in READ_SECONDS. Shown on while the database is
unavailable.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import groupby

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


@dataclass(frozen=True)
class Count:
    answered: int = 0
    failed: int = 0

    def plus(self, other: "Count") -> "Count":
        return Count(self.answered + other.answered, self.failed + other.failed)

    @property
    def requests(self) -> int:
        return self.answered + self.failed

    @property
    def percent(self) -> float:
        return 100 * self.answered / self.requests if self.requests else 100.0


@dataclass(frozen=True)
class Bars:
    """The days of one kind as the path of an SVG: one shape for the days that follow each other."""

    kind: str
    path: str


@dataclass(frozen=True)
class Sums:
    """What was counted of a model or a provider in the last DAYS days: in total, and by how many days ago."""

    whole: Count
    ago: tuple[int, ...] = ()
    answered: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()

    def plus(self, other: "Sums") -> "Sums":
        """Return what was counted here and there."""
        days: dict[int, Count] = {}
        for each in (self, other):
            for ago, *counts in zip(each.ago, each.answered, each.failed, strict=True):
                days[ago] = days.get(ago, Count()).plus(Count(*counts))
        answered, failed = zip(*((each.answered, each.failed) for each in days.values()), strict=True)
        return Sums(self.whole.plus(other.whole), tuple(days), answered, failed)


_NOTHING = Sums(Count())


@dataclass(frozen=True)
class Line:
    """A model or a provider, and its state. Its days are made when it is shown: there may be hundreds of lines."""

    name: str
    href: str
    state: str
    sums: Sums
    today: date

    @cached_property
    def days(self) -> list[tuple[date, Count]]:
        """The last DAYS days, the oldest first."""
        of_day = zip(self.sums.ago, self.sums.answered, self.sums.failed, strict=True)
        counts = {ago: Count(answered, failed) for ago, answered, failed in of_day}
        return [(self.today - timedelta(days=ago), counts.get(ago, Count())) for ago in reversed(range(DAYS))]

    @property
    def percent(self) -> str:
        """Rounded down, so that 100 says that every request was answered. Empty where too few came to say."""
        whole = self.sums.whole
        return f"{int(whole.percent * 100) / 100:g} %" if whole.requests >= _REQUESTS_MIN else ""

    @property
    def bars(self) -> list[Bars]:
        paths: dict[str, str] = {}
        for kind, run in groupby(enumerate(self.days), key=lambda each: _kind_of_day(each[1][1])):
            places = [place for place, _ in run]
            paths[kind] = paths.get(kind, "") + f"M{places[0]} 0h{len(places)}v1h-{len(places)}z"
        return [Bars(kind, path) for kind, path in paths.items()]

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
    return _status.get(None, _read)


def forget() -> None:
    """Read everything again on the next call."""
    _status.clear()


def _read(previous: Status | None) -> Status:
    listed = facts.current().models
    with pool.time_limit():
        now = pool.database_time()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        days = _read_sums(is_day=True, since=midnight - timedelta(days=DAYS - 1), today=midnight)
        recent = _read_sums(is_day=False, since=now - _RECENT - timedelta(hours=1), today=midnight)
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


_Found = dict[tuple[str, str], Sums]  # by kind and subject


def _read_sums(*, is_day: bool, since: datetime, today: datetime) -> _Found:
    found: _Found = {}
    for of_cell in everywhere.run(lambda: _read_cell(is_day=is_day, since=since, today=today), may_miss=True):
        for subject, sums in of_cell.items():
            found[subject] = found[subject].plus(sums) if subject in found else sums
    return found


def _read_cell(*, is_day: bool, since: datetime, today: datetime) -> _Found:
    rows = cell.execute(_SUMS, {"is_day": is_day, "since": since, "today": today})
    return {
        (kind, subject): Sums(Count(int(answered), int(failed)), *map(tuple, days))
        for kind, subject, answered, failed, *days in rows
    }


_SUMS = """
    SELECT kind, subject, sum(answered), sum(failed),
        array_agg(extract(day FROM %(today)s - since)::integer), array_agg(answered), array_agg(failed)
    FROM completions_uptimesums WHERE is_day = %(is_day)s AND since >= %(since)s GROUP BY kind, subject
"""


def _line(
    subject: tuple[str, str], name: str, href: str, is_available: bool, days: _Found, recent: _Found, now: datetime
) -> Line:
    state = _state(recent.get(subject, _NOTHING).whole, is_available=is_available)
    return Line(name, href, state, days.get(subject, _NOTHING), now.date())


def _state(recent: Count, *, is_available: bool) -> str:
    if not is_available:
        return OFF
    if recent.requests < _DAY_REQUESTS_MIN:
        return QUIET
    return UP if recent.percent >= _UP_PERCENT else DEGRADED if recent.percent >= _DOWN_PERCENT else DOWN


def _sorted(lines: Iterable[Line]) -> list[Line]:
    """Return those that can be called, or could be in the last days: a model that never was says nothing here."""
    shown = [each for each in lines if each.state != OFF or each.sums.whole.requests]
    return sorted(shown, key=lambda each: (_ORDER.index(each.state), -each.sums.whole.requests, each.name.casefold()))


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
        feed.add_item(
            title=each.title,
            link=f"{address}#incident-{each.id}",
            description=_described(each),
            pubdate=last,
            unique_id=f"{address}#incident-{each.id}",
        )
    return str(feed.writeString("utf-8"))


def _described(incident: Incident) -> str:
    ended = f"Ended {incident.ended_at:%d %b %Y, %H:%M} UTC." if incident.ended_at else ""
    updates = [f"{each.at:%d %b, %H:%M} UTC: {each.text}" for each in incident.updates.all()]
    return "\n".join(
        filter(
            None, [f"{incident.get_impact_display()}. Began {incident.began_at:%d %b %Y, %H:%M} UTC. {ended}".strip(), *updates]
        )
    )
