"""Lays out charts in percent of their width and height, so that one drawing fits every screen. Pure; templates write the SVG.

Labels have a size of their own: each is placed for the least of LABEL_WIDTHS at which it has room, as the style sheet has them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, pairwise

LABEL_WIDTHS = {"narrow": 240, "medium": 560, "wide": 960}  # pixels of the chart, of which HEIGHT are its height
HEIGHT = 384
_FREE_PERCENT, _FREE_AT = 12, 3  # left of a logarithmic axis, for models that cost nothing: a logarithm has no 0
_LETTER_WIDTH, _LINE_HEIGHT, _GAP = 6.2, 14, 4
_RADIUS_MIN, _RADIUS_MAX, _RADIUS_UNKNOWN = 3, 16, 5

_Place = tuple[float, float]  # from the left and the top
Scale = Callable[[float], float]  # from a value to percent
_Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


@dataclass(frozen=True)
class Datum:
    """Something with two values, and their texts. On a logarithmic axis x must be 0, which is shown as free, or more.

    The area of its point is its ``size``, which is None where it is not known.
    """

    name: str
    href: str
    x: float
    y: float
    x_text: str
    y_text: str
    size: float | None = None
    is_available: bool = True


@dataclass(frozen=True)
class Point:
    """A datum in its place. ``across`` and ``down`` are pixels from there to its label, ``anchor`` is SVG's text-anchor.

    ``shown_from`` is one of LABEL_WIDTHS; a label without one shows on hover and focus.
    """

    datum: Datum
    left: float
    top: float
    radius: float = _RADIUS_UNKNOWN
    is_best: bool = False  # on the frontier
    across: float = 0
    down: float = 0
    anchor: str = "start"
    shown_from: str = ""


@dataclass(frozen=True)
class Tick:
    at: float
    text: str
    is_minor: bool = False  # has room on wide charts only


@dataclass(frozen=True)
class Plot:
    points: list[Point]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    line: list[_Place]  # through the points, or the frontier
    sizes: list[tuple[float, float]]  # round sizes, each with its radius

    @property
    def drawn(self) -> list[Point]:
        """The points, the largest first, so that none hides another; those on the frontier last."""
        return sorted(self.points, key=lambda point: (point.is_best, -point.radius))


def price_plot(data: Sequence[Datum], y_text: Callable[[float], str], y_max: float | None) -> Plot:
    """Lay out data with a logarithmic x axis, with 0 beside it, and the frontier: the best y at each x.

    The y axis begins near the least y if ``y_max`` is its end, and at 0 if the largest y is.
    """
    ys, largest = [datum.y for datum in data], max(datum.size or 0 for datum in data)
    x, x_ticks = _logarithmic([datum.x for datum in data])
    y, y_ticks = _linear(min(*ys, 0.9 * y_max) if y_max else 0, y_max or max(ys), y_text)
    best = frontier(data)
    bare = [
        Point(datum, round(x(datum.x), 2), round(y(datum.y), 2), _radius(datum.size, largest), is_best=index in best)
        for index, datum in enumerate(data)
    ]
    corners = _corners([bare[index] for index in best])
    sizes = [(size, _radius(size, largest)) for size in _round_sizes(largest)]
    return Plot(_labelled(bare, corners), x_ticks, y_ticks, corners, sizes)


def history_plot(days: Sequence[tuple[date, int]]) -> Plot:
    """Lay out one rank per day, oldest day first, the best rank on top."""
    ranks = [rank for _, rank in days]
    best, worst = max(min(ranks) - 1, 1), max(ranks) + 1
    first, last = days[0][0], days[-1][0]
    x, y = _scale(first.toordinal(), last.toordinal(), 0, 100), _scale(best, worst, 0, 100)
    points = [
        Point(Datum(str(day), "", day.toordinal(), rank, str(day), str(rank)), round(x(day.toordinal()), 2), round(y(rank), 2))
        for day, rank in days
    ]
    y_ticks = [Tick(round(y(rank), 2), str(rank)) for rank in range(best, worst + 1, max(-(-(worst - best) // 6), 1))]
    line = [(point.left, point.top) for point in points]
    return Plot(points, [Tick(0, str(first)), Tick(100, str(last))], y_ticks, line, sizes=[])


def frontier(data: Sequence[Datum]) -> list[int]:
    """Return the indexes of the data that no other beats by more y for the same x or less, by rising x."""
    best: list[int] = []
    for index in sorted(range(len(data)), key=lambda each: (data[each].x, -data[each].y)):
        if not best or data[index].y > data[best[-1]].y:
            best.append(index)
    return best


def _corners(points: Sequence[Point]) -> list[_Place]:
    """Return the corners of a line that goes right from each point and up to the next one, and then to the edge."""
    steps = [((point.left, before.top), (point.left, point.top)) for before, point in pairwise([points[0], *points])]
    return [*chain.from_iterable(steps), (100.0, points[-1].top)]


def _radius(size: float | None, largest: float) -> float:
    """Return a radius whose circle's area is as the size: eyes compare areas."""
    return round(max(_RADIUS_MAX * math.sqrt(size / largest), _RADIUS_MIN), 1) if size else _RADIUS_UNKNOWN


def _round_sizes(largest: float) -> list[float]:
    """Return a small, a middle and a large size, all round: 20, 100 and 200 up to 228."""
    if not largest:
        return []
    size = 10.0 ** math.floor(math.log10(largest))
    size *= max(digit for digit in (1, 2, 5) if size * digit <= largest)
    return [size / 10, size / 2, size]


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _linear(low: float, high: float, text: Callable[[float], str]) -> tuple[Scale, list[Tick]]:
    """Return a scale upwards, and its ticks: at most eight multiples of 1, 2, 5, 10 ..., beginning and ending with one."""
    power = 10.0 ** math.floor(math.log10((high - low) / 6))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit * 6 >= high - low)
    first, last = math.floor(low / step), math.ceil(high / step)
    scale = _scale(first * step, last * step, 100, 0)
    return scale, [Tick(round(scale(number * step), 2), text(number * step)) for number in range(first, last + 1)]


def _logarithmic(values: Sequence[float]) -> tuple[Scale, list[Tick]]:
    """Return a scale to the right, and its ticks: 1, 2, 5, 10 ..., and on a long axis 1, 10, 100 ..."""
    positive = [value for value in values if value > 0] or [1.0]
    has_free = 0 in values
    low, high = math.log10(min(positive)) - 0.1, math.log10(max(positive)) + 0.1
    exponent = _scale(low, high, _FREE_PERCENT if has_free else 0, 100)

    def scale(value: float) -> float:
        return exponent(math.log10(value)) if value > 0 else _FREE_AT

    digits = [1, 2, 5] if high - low <= 2.5 else [1]
    numbers = [(digit * 10.0**power, digit) for power in range(math.floor(low), math.ceil(high) + 1) for digit in digits]
    ticks = [
        Tick(round(scale(number), 2), f"${number:g}", is_minor=digit > 1 and high - low > 1.2)
        for number, digit in numbers
        if low <= math.log10(number) <= high
    ]
    return scale, [*([Tick(_FREE_AT, "free")] if has_free else []), *ticks]


def _labelled(points: Sequence[Point], corners: Sequence[_Place]) -> list[Point]:
    """Place the labels, those of the frontier and of high points first. One that crosses another or the line has no room."""
    placed: dict[int, Point] = {}
    by_importance = sorted(range(len(points)), key=lambda number: (not points[number].is_best, points[number].top))
    for name, width in LABEL_WIDTHS.items():
        taken = [*_obstacles(points, corners, width), *(_label_box(point, width) for point in placed.values())]
        for number in by_importance:
            options = [] if number in placed else _label_sides(points[number])
            if free := next((each for each in options if _is_free(_label_box(each, width), taken, width)), None):
                placed[number] = replace(free, shown_from=name)
                taken.append(_label_box(free, width))
    return [placed.get(number) or _label_sides(point)[0] for number, point in enumerate(points)]


def _label_sides(point: Point) -> list[Point]:
    """Return the point with its label on each side, first where there is room: nothing is above the line left of its points."""
    gap, down = point.radius + _GAP, -5 if point.is_best else 4
    left, right = replace(point, across=-gap, down=down, anchor="end"), replace(point, across=gap, down=down)
    return [left, right] if point.left > (20 if point.is_best else 60) else [right, left]


def _obstacles(points: Sequence[Point], corners: Sequence[_Place], width: int) -> Iterator[_Box]:
    """Yield the boxes of the points and of the line."""
    for point in points:
        left, top = point.left / 100 * width, point.top / 100 * HEIGHT
        yield left - point.radius, top - point.radius, left + point.radius, top + point.radius
    for (left, top), (right, to_top) in pairwise(corners):
        above, below = sorted((top / 100 * HEIGHT, to_top / 100 * HEIGHT))
        yield left / 100 * width, above, right / 100 * width, below


def _label_box(point: Point, width: int) -> _Box:
    left, top = point.left / 100 * width + point.across, point.top / 100 * HEIGHT + point.down
    letters = len(point.datum.name) * _LETTER_WIDTH
    left -= letters if point.anchor == "end" else 0
    return left, top - _LINE_HEIGHT + 3, left + letters, top + 3


def _is_free(box: _Box, taken: Iterable[_Box], width: int) -> bool:
    left, top, right, bottom = box
    if left < 0 or right > width or top < -2 * _LINE_HEIGHT or bottom > HEIGHT:
        return False
    return not any(left < other[2] and other[0] < right and top < other[3] and other[1] < bottom for other in taken)
