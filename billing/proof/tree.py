"""The Merkle tree of RFC 6962, section 2.1. Its root is the same whether it is made of leaves, or of whole parts of them."""

from collections.abc import Iterator, Sequence
from hashlib import sha256


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\x00" + leaf).digest()


def root(hashes: Sequence[bytes]) -> bytes:
    """Return the root over the hashes of leaves, or of parts that have one size, a power of two; the last may be smaller."""
    *_, [top] = _levels(hashes)
    return top


def path(hashes: Sequence[bytes], place: int) -> list[bytes]:
    """Return what one of the hashes is joined with on its way to the root."""
    found = []
    for level in _levels(hashes):
        if (place ^ 1) < len(level):
            found.append(level[place ^ 1])
        place >>= 1
    return found


def _levels(hashes: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the hashes, then those of their pairs, and so on; what has no neighbour rises."""
    while len(hashes) > 1:
        yield hashes
        joined = [sha256(b"\x01" + left + right).digest() for left, right in zip(hashes[::2], hashes[1::2], strict=False)]
        hashes = joined + list(hashes[len(joined) * 2 :])
    yield hashes
