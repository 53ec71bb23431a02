"""Ledger entries as plain values for pages: exact dollars, and the whole cents that the API reports."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing import money
from billing.models import LedgerEntry
from gateway_project import dollars


@dataclass(frozen=True)
class StatementLine:
    """One ledger entry with formatted amounts."""

    id: str
    type: str
    title: str
    detail: str
    amount: str
    amount_cents: int
    is_credit: bool
    balance_after: str
    balance_after_cents: int
    created_at: datetime
    issued_by: str


def format_entry(entry: LedgerEntry, *, issued_by: str = "") -> StatementLine:
    """Format one entry. ``issued_by`` is the e-mail address of the issuer of a credit, if the reader may see it."""
    return StatementLine(
        id=str(entry.pk),
        type=entry.type,
        title=entry.title,
        detail=_detail(entry.metadata),
        amount=("+" if entry.amount_nanos > 0 else "") + dollars.format_usd(entry.amount_nanos),
        amount_cents=money.entry_cents(amount_nanos=entry.amount_nanos, balance_after_nanos=entry.balance_after_nanos),
        is_credit=entry.amount_nanos > 0,
        balance_after=dollars.format_usd(entry.balance_after_nanos),
        balance_after_cents=money.floor_cents(entry.balance_after_nanos),
        created_at=entry.created_at,
        issued_by=issued_by,
    )


def round_usd(amount_nanos: int) -> str:
    """Return an amount rounded down to the cent, as the API reports balances."""
    return dollars.format_usd(money.nanos(money.floor_cents(amount_nanos)))


def _detail(metadata: dict[str, Any]) -> str:
    if "model" in metadata:
        return f"{metadata['model']}, {metadata.get('tokens', 0):,} tokens"
    if "reason" in metadata:
        return str(metadata["reason"])
    return ", ".join(str(value) for name, value in metadata.items() if name.endswith("PaymentId"))
