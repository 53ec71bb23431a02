"""The bytes of an entry, of which its hash is made. The trigger ``entries_follow_each_other`` makes the same."""

from dataclasses import dataclass
from uuid import UUID

from gateway_project.db import cell

# Text of PostgreSQL's jsonb: an array that JSON parsers read. Who booked an entry is not the customer's to know.
RECORD = """jsonb_build_array(account_id, seq, id, type, amount_nanos, balance_after_nanos,
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), reference, spender, metadata)::text"""
# The hash of an entry, by that of the one before it. Before the first are 32 zero bytes.
HASH = f"""sha256(coalesce((
    SELECT before.hash FROM billing_ledgerentry AS before
    WHERE before.account_id = entry.account_id AND before.seq = entry.seq - 1
), decode(repeat('00', 32), 'hex')) || sha256(convert_to({RECORD}, 'UTF8')))"""  # noqa: S608  constants of this module


@dataclass(frozen=True)
class RecordedEntry:
    record: str
    hash: bytes


def read_between(account_id: UUID, seq: int, last_seq: int, *, limit: int) -> list[RecordedEntry]:
    """Return the entries after one, up to the last, in their order."""
    sql = f"""
        SELECT {RECORD}, hash FROM billing_ledgerentry
        WHERE account_id = %s AND seq > %s AND seq <= %s AND hash IS NOT NULL ORDER BY seq LIMIT %s"""  # noqa: S608  the same
    return [RecordedEntry(*row) for row in cell.execute(sql, [account_id, seq, last_seq, limit])]


def read_last(account_id: UUID) -> tuple[int, bytes | None]:
    """Return number and hash of the account's last entry; 0 and None if it has none."""
    sql = "SELECT seq, hash FROM billing_ledgerentry WHERE account_id = %s ORDER BY seq DESC LIMIT 1"
    return next(iter(cell.execute(sql, [account_id])), (0, None))
