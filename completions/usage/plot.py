"""The plot of a usage page with its table, and the headline figures with their change, as plain values for the template."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from completions.usage.figures import Figures, Group, Kind, Sums
from completions.usage.ranges import Range
from gateway_project import bar_chart
from gateway_project.text import dollars


@dataclass(frozen=True)
class Measure:
    """What the bars of the plot are high by."""

    title: str
    value: Callable[[Sums], int]
    words: Callable[[int], str]
    exact: Callable[[int], str]


def _number(value: int) -> str:
    return f"{value:,}"


MEASURES = {
    "spend": Measure("Spending", lambda used: used.cost_nanos, dollars.format_rounded_usd, dollars.format_usd),
    "requests": Measure("Requests", lambda used: used.requests, _number, _number),
    "tokens": Measure("Tokens", lambda used: used.tokens, _number, _number),
}


@dataclass(frozen=True)
class Segment(bar_chart.Segment):
    """The part of a bar that a group has, in the group's colour."""

    colour: str
    name: str
    words: str


@dataclass(frozen=True)
class Bar:
    """The bar of an hour, day or month, in words its total."""

    left: int
    at: datetime
    words: str
    segments: list[Segment]


@dataclass(frozen=True)
class Plot:
    """The bars, ten units wide each, with the words at the axes: from 0 to ``highest``, from the first bar to the last."""

    bars: list[Bar]
    title: str
    step: str
    highest: str
    middle: str

    @property
    def width(self) -> int:
        return 10 * len(self.bars)

    @property
    def middle_bar(self) -> Bar:
        return self.bars[len(self.bars) // 2]


@dataclass(frozen=True)
class Line:
    """A group in the table: its colour in the plot, its name, its sums, and its share of what the plot shows, in percent."""

    colour: str
    name: str
    used: Sums
    share: float
    address: str  # of its requests; empty if they cannot be listed


def build_plot(shown: Range, figures: Figures, names: Mapping[Group, str], measure: Measure) -> Plot | None:
    """Build the plot; None if there is nothing of the measure."""
    buckets = shown.buckets()
    colours = _colours(figures)
    sums = {
        at: [(colours[group], group, figures.groups[group][at]) for group in colours if at in figures.groups[group]]
        for at in buckets
    }
    totals = {at: sum(measure.value(used) for _, _, used in parts) for at, parts in sums.items()}
    if not any(totals.values()):
        return None
    highest = bar_chart.round_up(max(totals.values()))
    bars = []
    for number, at in enumerate(buckets):
        values = [measure.value(used) for _, _, used in sums[at]]
        stacked = zip(sums[at], values, bar_chart.stack(values, highest), strict=True)
        segments = [
            Segment(top, height, colour, names[group], measure.exact(value))
            for (colour, group, _), value, (top, height) in stacked
            if height
        ]
        bars.append(Bar(10 * number, at, measure.exact(totals[at]), segments))
    return Plot(bars, measure.title, shown.step, measure.words(highest), measure.words(highest // 2) if highest > 1 else "")


def _colours(figures: Figures) -> dict[Group, str]:
    """Return the colour of each group: its place for a value, a grey for the others."""
    return {group: str(place) if group.kind is Kind.TOLD else group.kind.value for place, group in enumerate(figures.groups)}


def build_lines(figures: Figures, names: Mapping[Group, str], addresses: Mapping[Group, str], measure: Measure) -> list[Line]:
    """Build the table beside the plot, in the order of the groups."""
    whole = measure.value(figures.total)
    lines = []
    for group, colour in _colours(figures).items():
        used = figures.of_group(group)
        share = 100 * measure.value(used) / whole if whole else 0.0
        lines.append(Line(colour, names[group], used, share, addresses.get(group, "")))
    return lines


@dataclass(frozen=True)
class Change:
    """How a figure differs from the time before, in words; ``is_more`` is None where it does not."""

    words: str
    is_more: bool | None = None


def describe_change(now: int | None, before: int | None) -> Change:
    """Describe the difference in percent: "up 12 %"."""
    if not before:
        return Change("No earlier data")
    percent = round(100 * ((now or 0) - before) / before)
    if percent == 0:
        return Change("No change")
    return Change(f"{'up' if percent > 0 else 'down'} {abs(percent):,} %", percent > 0)
