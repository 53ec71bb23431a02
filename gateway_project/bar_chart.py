"""The geometry of bar charts that pages draw as SVG: HEIGHT high, and ten units wide for each bar."""

from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT = 100
_STEP = 10


@dataclass(frozen=True)
class Bar:
    """Where a bar stands. Subclasses add what it stands for."""

    height: int
    left: int

    @property
    def top(self) -> int:
        return HEIGHT - self.height


@dataclass(frozen=True)
class Chart:
    """The bars from left to right. Subclasses add what the chart says beside them."""

    bars: Sequence[Bar]

    @property
    def width(self) -> int:
        return _STEP * len(self.bars)


def height_and_left(place: int, value: int, highest: int) -> tuple[int, int]:
    """Return a bar's height, rounded up so that any value above 0 is visible, and its left edge."""
    return -(-value * HEIGHT // highest), _STEP * place
