"""Lays out charts: where each point, label and axis line goes. Pure; templates write the SVG.

Coordinates are SVG user units, with the origin at the top left. A page has a chart for each of FRAMES.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, pairwise

_FREE_ROOM = 56  # left of a logarithmic axis, for models that cost nothing: a logarithm has no 0
_LETTER_WIDTH, _LINE_HEIGHT, _GAP = 6.4, 13, 8
_RADIUS_MIN, _RADIUS_MAX, _RADIUS_UNKNOWN = 4, 11, 4

Scale = Callable[[float], float]  # from a value to a coordinate
_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Frame:
    """The size of a chart, and the edges of its axes. Up to ``decades_max`` decades are labelled with 1, 2 and 5."""

    name: str
    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    decades_max: float

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


WIDE = Frame("for-wide", 1080, 440, left=48, right=1056, top=28, bottom=392, decades_max=2.5)
NARROW = Frame("for-narrow", 340, 300, left=30, right=332, top=28, bottom=252, decades_max=1.2)
FRAMES = (WIDE, NARROW)


@dataclass(frozen=True)
class Datum:
    """Something with two values, and their texts. On a logarithmic axis x must be 0, which is shown as free, or more.

    ``size``, of 100, is how large its point is; None where that is not known.
    """

    name: str
    href: str
    x: float
    y: float
    x_text: str
    y_text: str
    size_text: str = ""
    size: float | None = None
    is_available: bool = True


@dataclass(frozen=True)
class Point:
    """A datum with its coordinates. ``anchor`` is SVG's text-anchor of the label, which shows on hover if it has no room."""

    datum: Datum
    left: float
    top: float
    label_left: float
    label_top: float
    anchor: str
    has_room: bool
    is_best: bool = False  # on the frontier

    @property
    def radius(self) -> float:
        """The area grows with the size, as eyes compare areas."""
        if self.datum.size is None:
            return _RADIUS_UNKNOWN
        return round(math.sqrt(_RADIUS_MIN**2 + (_RADIUS_MAX**2 - _RADIUS_MIN**2) * self.datum.size / 100), 1)


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Plot:
    frame: Frame
    points: list[Point]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    line: str = ""  # the points attribute of an SVG polyline: through them, or the frontier

    @property
    def drawn(self) -> list[Point]:
        """The points, the largest first, so that none hides another; those on the frontier last."""
        return sorted(self.points, key=lambda point: (point.is_best, -point.radius))


def price_plot(data: Sequence[Datum], frame: Frame) -> Plot:
    """Lay out data with a logarithmic x axis, with 0 beside it, a y axis up to 100, and the frontier: the best y at each x."""
    scale, ticks = _logarithmic([datum.x for datum in data], frame)
    best = frontier(data)
    low = min(max(int(min(datum.y for datum in data) // 10) * 10, 0), 90)  # the y axis begins at the multiple of ten below all
    y = _linear(low, 100, frame.bottom, frame.top)
    bare = [replace(_unlabelled(each, scale, y), is_best=index in best) for index, each in enumerate(data)]
    corners = _corners([bare[index] for index in best], frame)
    points = _labelled(bare, corners, frame)
    y_ticks = [Tick(round(y(value), 1), str(value)) for value in range(low, 101, 20 if low < 40 else 10)]
    return Plot(frame, points, ticks, y_ticks, line=" ".join(f"{left},{top}" for left, top in corners))


def history_plot(days: Sequence[tuple[date, int]], frame: Frame) -> Plot:
    """Lay out one rank per day, oldest day first, the best rank on top."""
    ranks = [rank for _, rank in days]
    best, worst = max(min(ranks) - 1, 1), max(ranks) + 1
    first, last = days[0][0], days[-1][0]
    x = _linear(first.toordinal(), max(last.toordinal(), first.toordinal() + 1), frame.left, frame.right)
    y = _linear(best, worst, frame.top, frame.bottom)
    data = [Datum(f"{day:%Y-%m-%d}", "", day.toordinal(), rank, f"{day:%Y-%m-%d}", str(rank)) for day, rank in days]
    points = [_unlabelled(datum, x, y) for datum in data]
    step = max(-(-(worst - best) // 6), 1)
    return Plot(
        frame,
        points,
        x_ticks=[Tick(round(x(day.toordinal()), 1), f"{day:%Y-%m-%d}") for day in dict.fromkeys([first, last])],
        y_ticks=[Tick(round(y(rank), 1), str(rank)) for rank in range(best, worst + 1, step)],
        line=" ".join(f"{point.left},{point.top}" for point in points),
    )


def frontier(data: Sequence[Datum]) -> list[int]:
    """Return the indexes of the data that no other beats by more y for the same x or less, by rising x."""
    best: list[int] = []
    for index in sorted(range(len(data)), key=lambda each: (data[each].x, -data[each].y)):
        if not best or data[index].y > data[best[-1]].y:
            best.append(index)
    return best


def _corners(points: Sequence[Point], frame: Frame) -> list[tuple[float, float]]:
    """Return the corners of a line that goes right from each point and up to the next one, and then to the edge."""
    steps = [((point.left, before.top), (point.left, point.top)) for before, point in pairwise([points[0], *points])]
    return [*chain.from_iterable(steps), (frame.right, points[-1].top)]


def _linear(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _logarithmic(values: Sequence[float], frame: Frame) -> tuple[Scale, list[Tick]]:
    positive = [value for value in values if value > 0] or [1.0]
    has_free = 0 in values
    low, high = math.log10(min(positive)) - 0.1, math.log10(max(positive)) + 0.1
    linear = _linear(low, high, frame.left + (_FREE_ROOM if has_free else 0), frame.right)
    free = frame.left + _FREE_ROOM / 4

    def scale(value: float) -> float:
        return linear(math.log10(value)) if value > 0 else free

    ticks = [Tick(round(scale(dollars), 1), f"${dollars:g}") for dollars in _round_dollars(low, high, frame)]
    return scale, [*([Tick(free, "free")] if has_free else []), *ticks]


def _round_dollars(low: float, high: float, frame: Frame) -> list[float]:
    """Return 1, 2, 5, 10 ... between two powers of ten; on a long axis 1, 10, 100 ..."""
    digits = [1] if high - low > frame.decades_max else [1, 2, 5]
    candidates = [digit * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for digit in digits]
    return [dollars for dollars in candidates if low <= math.log10(dollars) <= high]


def _unlabelled(datum: Datum, x: Scale, y: Scale) -> Point:
    left, top = round(x(datum.x), 1), round(y(datum.y), 1)
    return Point(datum, left, top, label_left=left, label_top=top - _GAP, anchor="middle", has_room=False)


def _labelled(points: Sequence[Point], corners: Sequence[tuple[float, float]], frame: Frame) -> list[Point]:
    """Place the labels, those of the frontier and of high points first. One that crosses another or the line has no room."""
    taken = [
        (each.left - each.radius, each.top - each.radius, each.left + each.radius, each.top + each.radius) for each in points
    ]
    taken += [(left, min(top, to_top), right, max(top, to_top)) for (left, top), (right, to_top) in pairwise(corners)]
    placed: dict[int, Point] = {}
    for number, point in sorted(enumerate(points), key=lambda each: (not each[1].is_best, each[1].top)):
        others = [box for index, box in enumerate(taken) if index != number]
        right, left, above, below = _label_options(point)
        # The frontier continues to the right.
        options = [left, above, below, right] if point.is_best else [right, left, above, below]
        on_hover = replace(right if point.left < frame.middle else left, has_room=False)  # where it stays within the chart
        placed[number] = next((option for option in options if _is_free(_box(option), others, frame)), on_hover)
        if placed[number].has_room:
            taken.append(_box(placed[number]))
    return [placed[number] for number in range(len(points))]


def _label_options(point: Point) -> list[Point]:
    """Return the point with its label on the right, on the left, above and below."""
    gap = point.radius + _GAP - _RADIUS_MIN
    sides = [(gap, 4, "start"), (-gap, 4, "end"), (0, -gap, "middle"), (0, gap + 9, "middle")]
    placed = [(round(point.left + across, 1), round(point.top + down, 1), anchor) for across, down, anchor in sides]
    return [replace(point, label_left=left, label_top=top, anchor=side, has_room=True) for left, top, side in placed]


def _box(point: Point) -> _Box:
    width = len(point.datum.name) * _LETTER_WIDTH
    left = {"start": point.label_left, "end": point.label_left - width, "middle": point.label_left - width / 2}[point.anchor]
    return left, point.label_top - _LINE_HEIGHT + 3, left + width, point.label_top + 3


def _is_free(box: _Box, taken: Iterable[_Box], frame: Frame) -> bool:
    left, top, right, bottom = box
    if left < frame.left or right > frame.width or top < 0 or bottom > frame.bottom:
        return False
    return not any(left < other[2] and other[0] < right and top < other[3] and other[1] < bottom for other in taken)
