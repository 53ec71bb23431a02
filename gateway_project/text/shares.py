"""Whole shares of a whole. Pure."""

from collections.abc import Sequence


def apportion(parts: Sequence[int], divisor: int, whole: int) -> list[int]:
    """Return each part divided by ``divisor`` and rounded, the largest remainders upwards, so that all add up to ``whole``."""
    quotients = [part // divisor for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda place: -(parts[place] % divisor))
    for place in by_remainder[: whole - sum(quotients)]:
        quotients[place] += 1
    return quotients
