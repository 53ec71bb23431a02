"""The plot of a usage page with its table, and the headline figures with their change, as plain values for the template."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    write: Callable[[Sequence[int]], Iterable[str]]  # a column


_write_numbers = functools.partial(map, "{:,}".format)
MEASURES = {
    "spend": Measure("Spending", lambda used: used.cost_nanos, dollars.format_exact_column),
    "requests": Measure("Requests", lambda used: used.requests, _write_numbers),
    "tokens": Measure("Tokens", lambda used: used.tokens, _write_numbers),
}


@dataclass(frozen=True)
class Line:
    """A group in the table: its colour in the plot, its name, its sums, and its share of what the plot shows, in percent."""

    colour: str
    name: str
    used: Sums
    share: str
    address: str  # of its requests; empty if they cannot be listed


def build_plot(
    shown: Range, figures: Figures, before: Mapping[datetime, Sums], names: Mapping[Group, str], measure: Measure
) -> bar_chart.Chart | None:
    """Build the plot; None if there is nothing of the measure."""

    def value(sums: Mapping[datetime, Sums], at: datetime) -> int:
        return measure.value(sums.get(at, Sums()))

    buckets = shown.buckets()
    values = [(at, [value(sums, at) for sums in figures.groups.values()]) for at in buckets]
    earlier = [(then, value(before, then)) for at in buckets if (then := shown.before(at))]
    columns = [(colour, names[group]) for group, colour in _colours(figures).items()]
    return bar_chart.compare(values, earlier, measure.write, columns)


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
