"""Bar charts as plain values: templates draw them, or charts.js from the table beside them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain, zip_longest
from typing import NamedTuple


class Part(NamedTuple):
    value: int
    words: str


class Bar(NamedTuple):
    at: date  # or a datetime, of an hour
    value: int
    words: str
    parts: Sequence[Part] = ()  # one for each column
    before: "Bar | None" = None  # the bar that it is compared with


@dataclass(frozen=True)
class Chart:
    bars: Sequence[Bar]
    caption: str = ""
    columns: Sequence[tuple[str, str]] = ()  # the colour and the name of each part
    axis: Sequence[Part] = ()  # the highest first

    @property
    def total(self) -> int:
        return sum(bar.value for bar in self.bars)

    @property
    def highest(self) -> Bar:
        return max(self.bars, key=lambda bar: bar.value)


def build(values: Sequence[tuple[date, int, str]], caption: str = "") -> Chart | None:
    """Build a chart of values with their time and words; None if all are 0."""
    return Chart([Bar(*value) for value in values], caption) if any(value for _, value, _ in values) else None


def compare(
    values: Sequence[tuple[date, Sequence[int]]],
    before: Sequence[tuple[date, int]],
    write: Callable[[Sequence[int]], Iterable[str]],
    columns: Sequence[tuple[str, str]] = (),
) -> Chart | None:
    """Build a chart of the parts of each bar, and of what was before the first ones; ``write`` writes a column of values."""
    totals = [sum(parts) for _, parts in values]
    if not any(totals):
        return None
    earlier = before if any(value for _, value in before) else []
    numbers = [*totals, *chain(*(parts for _, parts in values)), *(value for _, value in earlier)]
    words = dict(zip(numbers, write(numbers), strict=True))
    befores = [Bar(at, value, words[value]) for at, value in earlier]
    bars = [
        Bar(at, total, words[total], [Part(part, words[part]) for part in parts], then)
        for (at, parts), total, then in zip_longest(values, totals, befores)
    ]
    top = round_up(max([*totals, *(value for _, value in earlier)]))
    ticks = [top, top // 2, 0] if top > 1 else [top, 0]
    return Chart(bars, columns=columns, axis=list(map(Part, ticks, write(ticks))))


def last_hours(now: datetime) -> list[datetime]:
    """Return the beginnings of the last 24 hours, of which the current one is the last."""
    return [now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=ago) for ago in reversed(range(24))]


def build_hours(
    numbers: Mapping[datetime, int], now: datetime, caption: str = "", show: Callable[[int], str] = "{:,}".format
) -> Chart | None:
    """Build a chart of the numbers of the last 24 hours."""
    return build([(hour, numbers.get(hour, 0), show(numbers.get(hour, 0))) for hour in last_hours(now)], caption)


def round_up(value: int) -> int:
    """Return the least number from ``value`` on with one digit, 1 or even, and zeros: half of it is as short on an axis."""
    power = int("1".ljust(len(str(value)), "0"))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)
