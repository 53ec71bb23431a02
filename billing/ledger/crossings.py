"""Finds out whether an entry takes a balance below its account's threshold, and builds the SQL that writes warnings.

A crossing is a matter of one entry: the balance before it was not below the threshold, the balance after it is. So nothing must
be remembered, a balance that stays low is not told again, and whatever raises it arms the threshold anew. Entries of an account
are made under its lock, each on the balance of the one before: every crossing is found once.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from billing.models import Account, AccountWarning
from gateway_project.db.pipelined_transaction import Statement

# Other SQL that writes warnings with what it decides begins so, too: it selects these columns.
INSERT_WARNINGS = "INSERT INTO billing_accountwarning (account_id, kind, data)"


class NewWarning(msgspec.Struct, frozen=True):
    """A warning as ``insert_warnings_statement`` writes it."""

    account_id: UUID
    kind: str
    data: dict[str, Any]


def find_crossing(account: Account, *, amount_nanos: int, balance_after_nanos: int) -> NewWarning | None:
    """Return the warning of an entry that takes the balance of its account, which is locked, below the threshold."""
    threshold_nanos = account.warning_threshold_nanos
    if threshold_nanos is None or not balance_after_nanos < threshold_nanos <= balance_after_nanos - amount_nanos:
        return None
    data = {"threshold_nanos": threshold_nanos, "balance_nanos": balance_after_nanos}
    return NewWarning(account.pk, AccountWarning.Kind.BALANCE_LOW.value, data)


def insert_warnings_statement(warnings: Sequence[NewWarning]) -> Statement:
    """Insert the warnings. Their deliveries follow in the background."""
    return Statement(
        f"""
        {INSERT_WARNINGS}
        SELECT account_id, kind, data FROM json_to_recordset($1::json) AS warning (account_id uuid, kind text, data jsonb)
        """,  # noqa: S608  a constant of this module
        warnings,
    )
