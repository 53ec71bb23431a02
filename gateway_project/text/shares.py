"""Whole shares of a whole. Pure."""

from collections.abc import Sequence


def apportion(parts: Sequence[int], divisor: int, whole: int) -> list[int]:
    """Return each part divided by ``divisor``, rounded down or up so that all add up to ``whole``, which is their rounded sum.

    The parts with the largest remainders are rounded up, of equal ones the first.
    """
    quotients = [part // divisor for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda place: -(parts[place] % divisor))
    for place in by_remainder[: whole - sum(quotients)]:
        quotients[place] += 1
    return quotients
