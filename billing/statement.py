"""Ledger entries as plain values for pages."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing.models import LedgerEntry


@dataclass(frozen=True)
class StatementLine:
    """One ledger entry. Templates format the amounts."""

    id: str
    type: str
    title: str
    detail: str
    amount_nanos: int
    is_credit: bool
    balance_after_nanos: int
    created_at: datetime
    issued_by: str


def format_entry(entry: LedgerEntry, *, issued_by: str = "") -> StatementLine:
    """Format one entry. ``issued_by`` is the e-mail address of the issuer of a credit, if the reader may see it."""
    return StatementLine(
        id=str(entry.pk),
        type=entry.type,
        title=entry.title,
        detail=_detail(entry.metadata),
        amount_nanos=entry.amount_nanos,
        is_credit=entry.amount_nanos > 0,
        balance_after_nanos=entry.balance_after_nanos,
        created_at=entry.created_at,
        issued_by=issued_by,
    )


def _detail(metadata: dict[str, Any]) -> str:
    if "model" in metadata:
        return f"{metadata['model']}, {metadata.get('tokens', 0):,} tokens"
    if "reason" in metadata:
        return str(metadata["reason"])
    return ", ".join(str(value) for name, value in metadata.items() if name.endswith("PaymentId"))
