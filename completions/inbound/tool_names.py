"""Names of tools as providers take them: most refuse one that is longer than 64 characters, which callers may send. Pure."""

import hashlib

CHARACTERS_MAX = 64  # of a function, at most providers


def shortened(name: str) -> str:
    """Return the name. One that is too long ends in a digest of the whole."""
    if len(name) <= CHARACTERS_MAX:
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{name[: CHARACTERS_MAX - len(digest) - 1]}_{digest}"
