"""The format of a key's secret, and the digest that is stored of it. Pure.

    mgw_live_<key id, 22 characters>_<32 random characters><6 characters of checksum>

That of a management key begins with ``mgw_manage_``. The prefix lets secret scanners find a leaked key. The checksum refuses a
mistyped secret without a query. The id finds the row. The database stores a keyed digest: 190 random bits need no slow hash,
and without the pepper a stolen table cannot be used to test secrets.
"""

import hmac
import re
import secrets
import zlib
from collections.abc import Sequence
from functools import lru_cache

from gateway_project import identifiers

PREFIX = "mgw_live_"
MANAGEMENT_PREFIX = "mgw_manage_"
_RANDOM_CHARACTERS = 32
_SHAPE = re.compile(r"(mgw_(?:live|manage)_)([0-9A-Za-z]{22})_([0-9A-Za-z]{32})([0-9A-Za-z]{6})", re.ASCII)

_BEGINS_LIKE_ONE = re.compile(r"(mgw_(?:live|manage)_[0-9A-Za-z]{22})_\w*", re.ASCII)
_ENDS_LIKE_ONE = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z]{34}([0-9A-Za-z]{4})(?![0-9A-Za-z])", re.ASCII)
_LOOKS_LIKE_ONE = re.compile(r"(mgw_(?:live|manage)_)\w*", re.ASCII)


def mint(key_id: str, prefix: str = PREFIX) -> str:
    """Make a new secret for a key."""
    body = f"{prefix}{key_id}_{''.join(secrets.choice(identifiers.BASE62) for _ in range(_RANDOM_CHARACTERS))}"
    return body + _checksum(body)


def new_key_id(cell_number: int) -> str:
    """Make the id of a new key. It sorts by time, and its last two characters are the cell in which the key is made."""
    return identifiers.short_uuid7()[:-2] + identifiers.base62(cell_number, 2)


def is_key_id(text: str) -> bool:
    return len(text) == 22 and text.isascii() and text.isalnum()


def cell_number(key_id: str) -> int:
    """Return the cell in which a key was made. For a key that is older than cells, the number means nothing."""
    return identifiers.BASE62.index(key_id[-2]) * 62 + identifiers.BASE62.index(key_id[-1])


def key_id(secret: str, prefix: str = PREFIX) -> str | None:
    """Return the key id in ``secret``, or None if the format, the prefix or the checksum is wrong."""
    match = _SHAPE.fullmatch(secret)
    if match is None or match[1] != prefix or not hmac.compare_digest(_checksum(secret[:-6]), match[4]):
        return None
    return match[2]


def mask_all(text: str) -> str:
    """Return the text with "mgw_live_..." in place of whatever looks like a secret, whole or cut off."""
    return _LOOKS_LIKE_ONE.sub(r"\1...", text)


def conceal_all(text: str) -> str:
    """Replace each secret in the text by its public id, or by its last four characters where only its end is left."""
    return _ENDS_LIKE_ONE.sub(rf"{PREFIX}...\1", _BEGINS_LIKE_ONE.sub(r"\1", text))


def digest(secret: str, pepper: str) -> str:
    """Return the HMAC-SHA256 in hexadecimal, which the database stores. The pepper is hashed once, not for each request."""
    begun = _begun(pepper).copy()
    begun.update(secret.encode())
    return begun.hexdigest()


@lru_cache(maxsize=16)
def _begun(pepper: str) -> hmac.HMAC:
    return hmac.new(pepper.encode(), digestmod="sha256")


def matches(secret: str, stored_digest: str, peppers: Sequence[str]) -> bool:
    """Return whether ``stored_digest`` is the digest of ``secret`` under one of the peppers, in constant time."""
    found = [hmac.compare_digest(digest(secret, pepper), stored_digest) for pepper in peppers]
    return any(found)


def _checksum(body: str) -> str:
    return identifiers.base62(zlib.crc32(body.encode()), 6)
