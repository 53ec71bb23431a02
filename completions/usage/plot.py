"""The plot of a usage page with its table, and the headline figures with their change, as plain values for the template."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from completions.usage.figures import Figures, Group, Kind, Sums
from completions.usage.ranges import Range
from gateway_project import bar_chart
from gateway_project.text import dollars


@dataclass(frozen=True)
class Measure:
    """The measure of the bars of the plot."""

    title: str
    value: Callable[[Sums], int]
    words: Callable[[int], str]
    exact: Callable[[Sequence[int]], list[str]]  # of a column


_number = "{:,}".format
MEASURES = {
    "spend": Measure(
        "Spending", lambda used: used.cost_nanos, lambda nanos: dollars.show(nanos).shown, dollars.format_exact_column
    ),
    "requests": Measure("Requests", lambda used: used.requests, _number, lambda numbers: list(map(_number, numbers))),
    "tokens": Measure("Tokens", lambda used: used.tokens, _number, lambda numbers: list(map(_number, numbers))),
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
    share: str
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
    bars, words = [], dict(zip(totals, measure.exact(list(totals.values())), strict=True))
    for number, at in enumerate(buckets):
        values = [measure.value(used) for _, _, used in sums[at]]
        stacked = zip(sums[at], measure.exact(values), bar_chart.stack(values, highest), strict=True)
        segments = [
            Segment(top, height, colour, names[group], exact) for (colour, group, _), exact, (top, height) in stacked if height
        ]
        bars.append(Bar(10 * number, at, words[at], segments))
    return Plot(bars, measure.title, shown.step, measure.words(highest), measure.words(highest // 2) if highest > 1 else "")


def _colours(figures: Figures) -> dict[Group, str]:
    """Return the colour of each group: its place for a value, a grey for the others."""
    return {group: str(place) if group.kind is Kind.TOLD else group.kind.value for place, group in enumerate(figures.groups)}


def build_lines(figures: Figures, names: Mapping[Group, str], addresses: Mapping[Group, str], measure: Measure) -> list[Line]:
    """Build the table beside the plot, in the order of the groups."""
    used = {group: figures.of_group(group) for group in figures.groups}
    values = [measure.value(each) for each in used.values()]
    tenths = dollars.apportion([1_000 * value for value in values], sum(values) or 1, 1_000 if any(values) else 0)
    return [
        Line(colour, names[group], used[group], f"{share // 10}.{share % 10}", addresses.get(group, ""))
        for (group, colour), share in zip(_colours(figures).items(), tenths, strict=True)
    ]


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
