"""Finds out whether an entry takes a balance below its account's threshold, and builds the SQL that writes alerts.

An entry crosses the threshold if the balance before it was not below, and the balance after it is. So no state is stored: while
a balance stays low there is no second alert, and once it is no longer below, the next fall warns again. Entries of an
account are made under its lock, each from the balance of the one before, so every crossing is found once.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from billing.ledger.movements import NewEntry
from billing.models import Account, AccountAlert
from gateway_project.db.pipelined_transaction import Statement


class NewAlert(msgspec.Struct, frozen=True):
    """An alert as ``insert_alerts_statement`` writes it."""

    account_id: UUID
    kind: str
    data: dict[str, Any]


def find_crossing(account: Account, entry: NewEntry) -> NewAlert | None:
    """Return the alert, to be written with the entry, if it takes the balance of its locked account below the threshold."""
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
        SELECT account_id, kind, data FROM json_to_recordset($1::json) AS alert (account_id uuid, kind text, data jsonb)
        """,
        alerts,
    )
