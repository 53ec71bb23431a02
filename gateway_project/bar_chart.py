"""The geometry of bar charts that pages draw as SVG: HEIGHT high, and ten units wide for each bar."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate, pairwise

HEIGHT = 100
_STEP = 10


@dataclass(frozen=True)
class Bar:
    height: int
    left: int
    at: date  # or a datetime, of an hour
    value: int
    words: str

    @property
    def top(self) -> int:
        return HEIGHT - self.height


@dataclass(frozen=True)
class Chart:
    bars: Sequence[Bar]
    caption: str

    @property
    def width(self) -> int:
        return _STEP * len(self.bars)

    @property
    def total(self) -> int:
        return sum(bar.value for bar in self.bars)

    @property
    def highest(self) -> int:
        return max(bar.value for bar in self.bars)


def build(values: Sequence[tuple[date, int, str]], caption: str = "") -> Chart | None:
    """Build a chart of values with their time and words; None if all are 0. Any value above 0 is visible."""
    highest = max((value for _, value, _ in values), default=0)
    if not highest:
        return None
    bars = [
        Bar(-(-value * HEIGHT // highest), _STEP * place, at, value, words) for place, (at, value, words) in enumerate(values)
    ]
    return Chart(bars, caption)


def last_hours(now: datetime) -> list[datetime]:
    """Return the beginnings of the last 24 hours, of which the current one is the last."""
    return [now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=ago) for ago in reversed(range(24))]


def build_hours(
    numbers: Mapping[datetime, int], now: datetime, caption: str = "", show: Callable[[int], str] = "{:,}".format
) -> Chart | None:
    """Build a chart of the numbers of the last 24 hours."""
    return build([(hour, numbers.get(hour, 0), show(numbers.get(hour, 0))) for hour in last_hours(now)], caption)


STACK_HEIGHT = 1_000


@dataclass(frozen=True)
class Segment:
    """A part of a stacked bar. Subclasses add what it stands for."""

    top: int
    height: int


def stack(values: Sequence[int], highest: int) -> list[tuple[int, int]]:
    """Return the top and height of each value in a bar STACK_HEIGHT high, from the bottom up and without gaps."""
    # Rounded up, so that the lowest value above 0 is visible.
    edges = [-(-total * STACK_HEIGHT // highest) for total in accumulate(values, initial=0)]
    return [(STACK_HEIGHT - upper, upper - lower) for lower, upper in pairwise(edges)]


def round_up(value: int) -> int:
    """Return the least number from ``value`` on with one digit, 1 or even, and zeros: half of it is as short on an axis."""
    power = int("1".ljust(len(str(value)), "0"))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)
