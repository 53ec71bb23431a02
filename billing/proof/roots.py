"""Signs each hour the root of a tree whose leaves are the last entries of all accounts, in all cells.

An account keeps its place in the tree. So only parts of the tree in which something was booked are read again, and a proof
reads one part: see ``inclusion``. The commit of a root waits for the disk, so all entries that it includes are on disk.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

from django.db import IntegrityError, transaction

from billing.models import Account, LedgerHead, LedgerLeaf, LedgerRoot, RootKey
from billing.proof import signing, tree
from gateway_project.db import cell

PART_LEAVES = 1_024  # a power of two
HASH_BYTES = 32
ACCOUNTS_AT_ONCE = 1_000
_NOTHING = "0" * 2 * HASH_BYTES  # before the first root


def sign_hour(now: datetime) -> int:
    """Sign the root of this hour, unless it is signed or nothing was ever booked. Return how many heads are new in it."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    try:
        with transaction.atomic():
            key = signing.lock_key()
            last = LedgerRoot.objects.order_by("-number").first() or LedgerRoot(number=0, size=0, parts=b"", statement="")
            if last.hour and last.hour >= hour:
                return 0
            return _sign(key, last, hour)
    except IntegrityError:
        if LedgerRoot.objects.filter(hour=hour).exists():
            return 0  # another process made the first key, and signed
        raise


def _sign(key: RootKey, last: LedgerRoot, hour: datetime) -> int:
    new = LedgerRoot(number=last.number + 1, hour=hour, size=last.size, parts=last.parts)
    changed: Counter[int] = Counter()  # heads by part
    for number in cell.numbers():
        with cell.use(number):
            _write_heads(new, changed)
    if not new.size:
        return 0
    new.parts = _join_parts(new, changed)
    facts = {
        "number": new.number,
        "hour": f"{hour:%Y-%m-%dT%H:%M:%SZ}",
        "accounts": new.size,
        "root": tree.root(split(new.parts)).hex(),
        "previous": sha256(last.statement.encode()).hexdigest() if last.number else _NOTHING,
        "key": key.pk,
    }
    new.statement = "".join(["model-gateway ledger root\n", *(f"{name}: {value}\n" for name, value in facts.items())])
    new.signature = signing.sign(key, new.statement)
    new.save(force_insert=True)
    return changed.total()


def _write_heads(new: LedgerRoot, changed: Counter[int]) -> None:
    """Write the last entries of the cell's accounts that booked since the root before; count them by part of the tree."""
    after = UUID(int=0)
    while accounts := _read_accounts(after):
        after = max(accounts)
        heads = _new_heads(accounts)
        places = dict(LedgerLeaf.objects.filter(account_id__in=heads).values_list("account_id", "number"))
        added = {id: new.size + number for number, id in enumerate(sorted(heads.keys() - places.keys()))}
        LedgerLeaf.objects.bulk_create(LedgerLeaf(number=number, account_id=id) for id, number in added.items())
        new.size += len(added)
        places |= added
        rows = (LedgerHead(leaf=places[id], root=new.number, seq=seq, hash=hash) for id, (seq, hash) in heads.items())
        LedgerHead.objects.bulk_create(rows, ignore_conflicts=True)  # of an account that moved on before its next cell was read
        changed.update(places[id] // PART_LEAVES for id in heads)


def _read_accounts(after: UUID) -> dict[UUID, int]:
    accounts = Account.objects.filter(pk__gt=after, last_seq__gt=0).order_by("pk")
    return dict(accounts.values_list("pk", "last_seq")[:ACCOUNTS_AT_ONCE])


def _new_heads(accounts: dict[UUID, int]) -> dict[UUID, tuple[int, bytes]]:
    """Return number and hash of the last entry of each account of which the tree has another."""
    known = cell.execute(_HEADS.format("place.account_id = ANY (%(accounts)s)"), {"accounts": list(accounts), "root": None})
    seqs = {id: seq for _, id, seq, _ in known}
    booked = {id: seq for id, seq in accounts.items() if seqs.get(id) != seq}
    entries = cell.execute(_ENTRIES, [list(booked), list(booked.values())])
    return {id: (seq, bytes(hash)) for id, seq, hash in entries}


def _join_parts(new: LedgerRoot, changed: Iterable[int]) -> bytes:
    """Return the hashes of the parts of the tree, those of changed ones made of their leaves."""
    parts = dict(enumerate(split(new.parts)))
    for part in sorted(changed):
        parts[part] = tree.root(read_part(part, new))
    return b"".join(parts[number] for number in sorted(parts))


def split(parts: bytes | memoryview) -> list[bytes]:
    return [bytes(parts[start : start + HASH_BYTES]) for start in range(0, len(parts), HASH_BYTES)]


def read_part(part: int, root: LedgerRoot) -> list[bytes]:
    values = {"first": part * PART_LEAVES, "end": min((part + 1) * PART_LEAVES, root.size), "root": root.number}
    rows = cell.execute(_HEADS.format("place.number >= %(first)s AND place.number < %(end)s"), values)
    return [tree.leaf_hash(leaf(id, seq, hash)) for _, id, seq, hash in rows]


def leaf(account_id: UUID, seq: int, hash: bytes) -> bytes:
    """Return the bytes of a leaf."""
    return f"{account_id} {seq} {hash.hex()}".encode()


# The last entries of accounts in a root, or in the last.
_HEADS = """
    SELECT place.number, place.account_id, head.seq, head.hash FROM billing_ledgerleaf AS place JOIN LATERAL (
        SELECT seq, hash FROM billing_ledgerhead
        WHERE leaf = place.number AND (%(root)s::bigint IS NULL OR root <= %(root)s) ORDER BY root DESC LIMIT 1
    ) AS head ON true WHERE {} ORDER BY place.number
"""
_ENTRIES = """
    SELECT account_id, seq, hash FROM billing_ledgerentry
    JOIN unnest(%s::uuid[], %s::bigint[]) AS last (account_id, seq) USING (account_id, seq) WHERE hash IS NOT NULL
"""
