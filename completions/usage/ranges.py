"""The time that a usage page shows, and the time before that it is compared with. Pure. Days and months are those of UTC."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DAYS_MAX = 366
_BARS_OF_HOURS = 2 * DAY  # a longer time is shown in days, and a much longer one in months
_BARS_OF_DAYS = 92 * DAY
PRESETS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "month": "Month to date", "last-month": "Last month"}
OWN = "own"
DEFAULT = "7d"


@dataclass(frozen=True)
class Range:
    """Full hours from ``since`` until ``until``, which is not included; and the time before, as long as what has passed."""

    name: str
    since: datetime
    until: datetime
    before_since: datetime
    before_until: datetime
    has_hours: bool = True  # the sums of its hours are kept

    @property
    def step(self) -> str:
        """How much time a bar of the plot stands for: hour, day or month."""
        length = self.until - self.since
        if length <= _BARS_OF_HOURS and self.has_hours:
            return "hour"
        return "day" if length <= _BARS_OF_DAYS else "month"

    @property
    def last_day(self) -> date:
        return (self.until - HOUR).date()

    @property
    def before_last_day(self) -> date:
        return (self.before_until - HOUR).date()

    def buckets(self) -> list[datetime]:
        """Return the beginning of each bar."""
        found, at = [], _floor(self.since, self.step)
        while at < self.until:
            found.append(at)
            at = _floor(at + {"hour": HOUR, "day": DAY, "month": 32 * DAY}[self.step], self.step)
        return found

    def before(self, at: datetime) -> datetime | None:
        """Return the beginning of the bar that one is compared with; None for a month, and for what had not passed."""
        earlier = at - (self.since - self.before_since)
        return earlier if self.step != "month" and earlier < self.before_until else None

    def days(self) -> list[tuple[datetime, datetime]]:
        """Return the parts of the range that are in one UTC day each."""
        first = self.since.replace(hour=0)
        starts = [first + number * DAY for number in range((self.until - first + DAY - HOUR) // DAY)]
        return [(max(start, self.since), min(start + DAY, self.until)) for start in starts]


def preset(name: str, now: datetime) -> Range:
    """Return one of PRESETS."""
    next_hour = _floor(now, "hour") + HOUR
    today, month = _floor(now, "day"), _floor(now, "month")
    last_month = _floor(month - DAY, "month")
    if name == "month":
        return Range(name, month, today + DAY, last_month, min(last_month + (next_hour - month), month))
    if name == "last-month":
        return Range(name, last_month, month, _floor(last_month - DAY, "month"), last_month)
    if name == "24h":
        return _with_before(name, next_hour - DAY, next_hour, next_hour)
    days = {"7d": 7, "30d": 30}[name]
    return _with_before(name, today - (days - 1) * DAY, today + DAY, next_hour)


def own(first: date, last: date, now: datetime) -> Range:
    """Return the days from the first to the last one, both included."""
    since, until = (datetime.combine(day, time(), UTC) for day in (first, last + DAY))
    return _with_before(OWN, since, until, _floor(now, "hour") + HOUR)


def _with_before(name: str, since: datetime, until: datetime, next_hour: datetime) -> Range:
    length = until - since
    passed = min(until, max(next_hour, since))
    return Range(name, since, until, since - length, passed - length)


def _floor(moment: datetime, step: str) -> datetime:
    at = moment.replace(minute=0, second=0, microsecond=0)
    if step == "hour":
        return at
    return at.replace(hour=0) if step == "day" else at.replace(hour=0, day=1)
