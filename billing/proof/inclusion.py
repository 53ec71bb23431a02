"""The path from the last entry of an account to a root."""

from dataclasses import dataclass
from uuid import UUID

from billing.models import LedgerHead, LedgerLeaf, LedgerRoot
from billing.proof import roots, tree


@dataclass(frozen=True)
class Inclusion:
    """The last entry of an account in a root, its place in the tree, and what it is joined with on its way up."""

    leaf: int
    seq: int
    hash: bytes
    path: list[bytes]


def find(account_id: UUID, root: LedgerRoot) -> Inclusion | None:
    """Return how the root includes the account; None if the account booked nothing before it."""
    place = LedgerLeaf.objects.filter(account_id=account_id, number__lt=root.size).values_list("number", flat=True).first()
    if place is None:
        return None
    head = LedgerHead.objects.filter(leaf=place, root__lte=root.number).order_by("-root")[0]
    part, place_in_part = divmod(place, roots.PART_LEAVES)
    within = tree.path(roots.read_part(part, root), place_in_part)
    return Inclusion(place, head.seq, bytes(head.hash), within + tree.path(roots.split(root.parts), part))
