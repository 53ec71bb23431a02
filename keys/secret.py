"""What an API key's secret looks like, and what of it we keep. Pure.

    mgw_live_<key id, 22 characters>_<32 random characters><6 characters of checksum>

The prefix lets secret scanners find a leaked key; the checksum turns a mistyped one away without a query; the id finds the
row. We keep a keyed digest: 190 random bits need no slow hash, and without the pepper a stolen table proves nothing.
"""

import hmac
import re
import secrets
import zlib
from collections.abc import Sequence

from gateway_project import identifiers

PREFIX = "mgw_live_"
_RANDOM_CHARACTERS = 32
_SHAPE = re.compile(r"mgw_live_([0-9A-Za-z]{22})_([0-9A-Za-z]{32})([0-9A-Za-z]{6})", re.ASCII)


def mint(key_id: str) -> str:
    """A new secret for a key. It exists in the caller's hands alone."""
    body = f"{PREFIX}{key_id}_{''.join(secrets.choice(identifiers.BASE62) for _ in range(_RANDOM_CHARACTERS))}"
    return body + _checksum(body)


def key_id(secret: str) -> str | None:
    """The id of the key that ``secret`` would open, or None when it cannot be a secret of ours."""
    match = _SHAPE.fullmatch(secret)
    if match is None or not hmac.compare_digest(_checksum(secret[:-6]), match[3]):
        return None
    return match[1]


def digest(secret: str, pepper: str) -> str:
    """HMAC-SHA256, hexadecimal: what the database keeps."""
    return hmac.digest(pepper.encode(), secret.encode(), "sha256").hex()


def matches(secret: str, kept: str, peppers: Sequence[str]) -> bool:
    """Whether ``kept`` is the digest of ``secret`` under one of the peppers, in a time that tells nothing."""
    found = [hmac.compare_digest(digest(secret, pepper), kept) for pepper in peppers]
    return any(found)


def _checksum(body: str) -> str:
    return identifiers.base62(zlib.crc32(body.encode()), 6)
