"""LEAF. Typed readers of environment variables. A value that cannot be read stops the process and says why."""

import math
import os
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured

Default = TypeVar("Default", int, None)

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


def text(name: str, default: str = "") -> str:
    """The value of ``name`` without surrounding space."""
    return os.environ.get(name, default).strip()


def boolean(name: str, *, default: bool) -> bool:
    """1, true, yes, on; 0, false, no, off. Anything else is refused: a typo must not mean False."""
    value = os.environ.get(name)
    return default if value is None else truth(name, value)


def truth(name: str, value: str) -> bool:
    """What ``boolean`` reads in this value of ``name``."""
    if value.strip().lower() in _TRUE:
        return True
    if value.strip().lower() in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be one of 1, true, yes, on, 0, false, no, off; it is {value!r}.")


def integer(name: str, default: Default, *, minimum: int, maximum: int) -> int | Default:
    """A whole number within its bounds. Where none at all is an answer, which a default of None says, empty is none."""
    value = os.environ.get(name)
    if value is None or (default is None and not value.strip()):
        return default
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number; it is {value!r}.") from None
    if not minimum <= number <= maximum:
        raise ImproperlyConfigured(f"{name} must be between {minimum} and {maximum}; it is {number}.")
    return number


def numbers(name: str, defaults: dict[str, float]) -> dict[str, float]:
    """Pairs like ``speed=0.2, cost=0.1``: each replaces the default of its name. None may be below 0, or of another name."""
    found = dict(defaults)
    for pair in words(name):
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in defaults:
            raise ImproperlyConfigured(f"{name} must have pairs with the names {', '.join(defaults)}; it has {pair!r}.")
        found[key] = _number(name, value)
    return found


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ImproperlyConfigured(f"{name} must have numbers of 0 or more; it has {value!r}.")
    return number


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]
