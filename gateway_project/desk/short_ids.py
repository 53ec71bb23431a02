"""Short forms of ids for lists, and searches by a part of an id. Pure.

An id begins with the millisecond when it was made: an index finds it by its beginning. Several ids may share a beginning, so a
list shows the end as well: ``019aaf3e2bc4…c41d``.
"""

import re
from typing import NamedTuple
from uuid import UUID

_BEGINNING_CHARACTERS = 12  # of a UUIDv7 in hexadecimal: the whole millisecond
_END_CHARACTERS = 4
_ELLIPSIS = re.compile(r"…|\.\.\.")


class PartOfId(NamedTuple):
    """The known parts of an id: its beginning and, if it is known, its end."""

    beginning: str
    end: str = ""


def shorten(whole: str) -> str:
    """Return an id as lists show it, without its prefix up to the first "-" or "_" of an id that is no UUID."""
    bare = re.sub(r"^[a-z]+[-_]", "", whole).replace("-", "")
    return f"{bare[:_BEGINNING_CHARACTERS]}…{bare[-_END_CHARACTERS:]}"


def parse(term: str) -> PartOfId:
    """Split an id that is written with an ellipsis; any other term is a beginning."""
    beginning, *rest = _ELLIPSIS.split(term, maxsplit=1)
    return PartOfId(beginning, rest[0] if rest else "")


def uuid_range(beginning: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last UUID that begin so, or None for less than eight hexadecimal digits, or anything else."""
    digits = beginning.replace("-", "")
    if not re.fullmatch(r"[0-9a-fA-F]{8,32}", digits):
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
