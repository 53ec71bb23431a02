"""Public ids: UUIDv7, which sort by creation time."""

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from uuid import UUID

import uuid_utils
from uuid_utils.compat import uuid7 as _uuid7

_PARSED_MAX = 65_536

# Parses a UUID, and returns the same object for the same text: UUIDs are made, and compared in dictionaries, in Python.
parse_uuid = lru_cache(maxsize=_PARSED_MAX)(UUID)


def uuid7() -> UUID:
    """Return a new id, greater than all ids that this process made before."""
    return _uuid7()


def uuid7_hex() -> str:
    """Return the hexadecimal digits of a new id. Without an object of Python's it takes a fifth of the calls."""
    return uuid_utils.uuid7().hex


def first_digits(moment: datetime) -> str:
    """Return the hexadecimal digits with which UUIDv7s of this millisecond begin: ids of later ones are greater."""
    return f"{int(moment.timestamp() * 1000):012x}"


def least_uuid7(moment: datetime) -> UUID:
    """Return an id that is not greater than any UUIDv7 made from this millisecond on."""
    return UUID(first_digits(moment).ljust(32, "0"))


def least_completion_id(day: date, *, earlier: timedelta = timedelta()) -> str:
    """Return an id that is not greater than those of completions admitted from this UTC day on, or somewhat earlier."""
    if day in (date.min, date.max):
        return "" if day == date.min else "~"  # less or greater than all ids
    return f"chatcmpl-{first_digits(datetime.combine(day, time.min, UTC) - earlier)}"


BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def ending(id: UUID) -> str:
    """Return the last eight digits of an id, with which numbers of receipts and statements begin."""
    return id.hex[-8:].upper()


def base62(number: int, width: int) -> str:
    """Write ``number`` in 0-9A-Za-z, zero-padded. Texts of equal width sort as their numbers do."""
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = BASE62[digit] + digits
    return digits.rjust(width, "0")


def short_uuid7() -> str:
    return base62(uuid7().int, 22)
