"""LEAF. Public ids: UUIDv7, which sort by the time they were made."""

from uuid import UUID

from uuid_utils.compat import uuid7 as _uuid7


def uuid7() -> UUID:
    """A new id, greater than every id this process made before."""
    return _uuid7()


BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def base62(number: int, width: int) -> str:
    """``number`` in 0-9A-Za-z, zero-padded: of equal width, texts sort as their numbers do."""
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = BASE62[digit] + digits
    return digits.rjust(width, "0")


def short_uuid7() -> str:
    """A UUIDv7 as 22 letters and digits, fit to be pasted, and to be sorted."""
    return base62(uuid7().int, 22)
