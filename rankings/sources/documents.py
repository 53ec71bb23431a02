"""Checked access to the values of a source's JSON. A value of another kind raises ImplausibleData, which names the value."""

import math
from typing import Any

from rankings.sources.client import ImplausibleData


def finite(value: Any, what: str, *, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """Return a number within its bounds. Raises ImplausibleData, also for ``True`` and for a text that looks like a number."""
    number = optional(value)
    if number is None or not minimum <= number <= maximum:
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return number


def optional(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON allows a whole number of 400 digits
        return None


def positive(value: Any) -> float | None:
    """Return a number above zero; None for anything else: a speed of zero was not measured."""
    number = optional(value)
    return number if number is not None and number > 0 else None


def text(value: Any, what: str, *, characters_max: int = 300) -> str:
    """Return a text without surrounding space. Raises ImplausibleData, also for a text that is empty or cannot be stored."""
    if not isinstance(value, str) or not value.strip() or not _is_storable(value, characters_max):
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return value.strip()


def optional_text(value: Any, *, characters_max: int = 200) -> str:
    """Return a text without surrounding space; an empty one for anything else."""
    return value.strip() if isinstance(value, str) and _is_storable(value, characters_max) else ""


def _is_storable(text: str, characters_max: int) -> bool:
    """Return whether PostgreSQL takes the text: not with NUL, nor with half a surrogate pair, which JSON allows."""
    is_whole = not any("\ud800" <= each <= "\udfff" for each in text)
    return len(text) <= characters_max and "\x00" not in text and is_whole


def table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return value


def rows(value: Any, what: str) -> list[dict[str, Any]]:
    """Return a list of tables. Raises ImplausibleData."""
    return [table(item, f"an item of {what}") for item in items(value, what)]


def items(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ImplausibleData(f"{what} is {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return "missing" if value is None else f"{value!r:.60}"
