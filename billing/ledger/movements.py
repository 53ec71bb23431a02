"""Writes holds and ledger entries together with the rows of their accounts, which change once for all of them; and alerts.

The rows are locked, and what is written was decided under the locks (``holds``, ``writer``).
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import msgspec

from billing.models import Account, AccountAlert, Hold, LedgerEntry
from gateway_project.db.pipelined_transaction import Statement


class NewHold(msgspec.Struct, frozen=True):
    """A hold to be placed. ``reference`` is the id of the completion it pays for."""

    reference: str
    account_id: UUID
    amount_nanos: int
    expires_at: datetime


class NewEntry(msgspec.Struct, frozen=True):
    id: UUID
    account_id: UUID
    seq: int
    type: LedgerEntry.Type
    amount_nanos: int
    balance_after_nanos: int
    reference: str
    metadata: dict[str, Any]
    spender: str | None
    issued_by_id: int | None


class NewAlert(msgspec.Struct, frozen=True):
    """An alert as ``insert_alerts_statement`` writes it."""

    account_id: UUID
    kind: str
    data: dict[str, Any]


def write_statement(
    resolved: Sequence[Hold] = (), placed: Sequence[NewHold] = (), entries: Sequence[NewEntry] = ()
) -> Statement:
    """Write resolved and placed holds and new entries, and change each account once by the sum of its rows.

    The count of open holds may be too low (see ``holds.correct_counts``). It stops at 0 then: money is settled.
    """
    ended = [{"reference": hold.reference, "state": hold.state, "settled_nanos": hold.settled_nanos} for hold in resolved]
    parts = {"resolved": ended, "placed": placed, "entries": entries}
    written = {name: rows for name, rows in parts.items() if rows}
    return Statement(_write_sql(*written), written)


@cache
def _write_sql(*names: str) -> str:
    """Return the SQL that writes rows of these kinds, and then the accounts of all of them."""
    sums = ", ".join(
        f"coalesce(sum(nanos) FILTER (WHERE kind = '{name}'), 0) AS {name}_nanos,"
        f" count(*) FILTER (WHERE kind = '{name}') AS {name}_rows"
        for name in names
    )
    selects = [f"SELECT account_id, amount_nanos AS nanos, '{name}' AS kind FROM {name}" for name in names]  # noqa: S608
    writes = _writes()
    return f"""
        WITH {", ".join(f"{name} AS ({writes[name]})" for name in names)}
        UPDATE billing_account SET {_changes(*names)}
        FROM (SELECT account_id, {sums} FROM ({" UNION ALL ".join(selects)}) AS moved GROUP BY account_id) AS more
        WHERE id = more.account_id
        """  # noqa: S608  only texts of this module


def _writes() -> dict[str, str]:
    """Return the SQL that writes rows of each kind, and returns what each changes of its account."""
    return {
        "resolved": """
            UPDATE billing_hold
            SET state = ended.state, settled_nanos = ended.settled_nanos, resolved_at = statement_timestamp()
            FROM json_to_recordset($1::json -> 'resolved') AS ended (reference text, state text, settled_nanos bigint)
            WHERE billing_hold.reference = ended.reference
            RETURNING account_id, amount_nanos""",
        "placed": """
            INSERT INTO billing_hold (reference, account_id, amount_nanos, state, expires_at)
            SELECT reference, account_id, amount_nanos, 'HELD', expires_at
            FROM json_to_recordset($1::json -> 'placed')
                AS hold (reference text, account_id uuid, amount_nanos bigint, expires_at timestamptz)
            RETURNING account_id, amount_nanos""",
        "entries": """
            INSERT INTO billing_ledgerentry
                (id, account_id, seq, type, amount_nanos, balance_after_nanos, reference, metadata, spender, issued_by_id)
            SELECT * FROM json_to_recordset($1::json -> 'entries') AS entry (id uuid, account_id uuid, seq bigint, type text,
                amount_nanos bigint, balance_after_nanos bigint, reference text, metadata jsonb, spender text,
                issued_by_id bigint)
            ORDER BY account_id, seq
            RETURNING account_id, amount_nanos""",
    }


def _changes(*names: str) -> str:
    """Return the assignments by which these kinds of rows change an account: a trigger looks at the assigned columns."""
    held, holds = "held_nanos", "open_holds"
    changes = []
    if "resolved" in names:
        held, holds = f"{held} - more.resolved_nanos", f"greatest({holds} - more.resolved_rows, 0)"
    if "placed" in names:
        held, holds = f"{held} + more.placed_nanos", f"{holds} + more.placed_rows"
    if held != "held_nanos":
        changes += [f"held_nanos = {held}", f"open_holds = {holds}"]
    if "entries" in names:
        changes += ["balance_nanos = balance_nanos + more.entries_nanos", "last_seq = last_seq + more.entries_rows"]
    return ", ".join(changes)


def find_crossing(account: Account, entry: NewEntry) -> NewAlert | None:
    """Return the alert, to be written with the entry, if it takes the balance of its locked account below the threshold.

    It does if the balance before it was not below, and the balance after it is. So no state is stored: while a balance stays
    low there is no second alert, and once it is no longer below, the next fall warns again. Entries of an account are made
    under its lock, each from the balance of the one before, so every crossing is found once.
    """
    threshold_nanos, after_nanos = account.warning_threshold_nanos, entry.balance_after_nanos
    if threshold_nanos is None or not after_nanos < threshold_nanos <= after_nanos - entry.amount_nanos:
        return None
    data = {"threshold_nanos": threshold_nanos, "balance_nanos": after_nanos}
    return NewAlert(account.pk, AccountAlert.Kind.BALANCE_LOW.value, data)


def insert_alerts_statement(alerts: Sequence[NewAlert]) -> Statement:
    """Insert the alerts. Their deliveries follow in the background."""
    return Statement(
        """
        INSERT INTO billing_accountwarning (account_id, kind, data)
        SELECT account_id, kind, data FROM json_to_recordset($1::json) AS alert (account_id uuid, kind text, data jsonb)""",
        alerts,
    )
