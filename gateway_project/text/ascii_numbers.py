"""Numbers as outsiders write them: in ASCII digits, and in no other way that Python takes, such as "1_0", " 1" or "١". Pure."""

import re
from decimal import Decimal

_WHOLE = re.compile(r"-?[0-9]{1,40}")
_AMOUNT = re.compile(r"[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}")
_DECIMAL = re.compile(r"-?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,2})?")


def whole(text: str) -> int:
    """Read a whole number. Raises ValueError."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def decimal(text: str) -> Decimal:
    """Read a number with one point at most, and perhaps an exponent: "0.0375", "1.5e-7". Raises ValueError."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return Decimal(text)


def amount(text: str) -> Decimal:
    """Read a number of 0 or more, without a sign and an exponent. Raises ValueError."""
    if not _AMOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is not an amount")
    return Decimal(text)
