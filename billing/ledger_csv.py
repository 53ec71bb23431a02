"""The ledger of an account as a CSV file: one line for each entry, newest first, with exact dollars and whole cents.

The file is streamed, one batch in memory at a time. Text that others wrote cannot act as a spreadsheet formula.
"""

import csv
from collections.abc import Iterator
from io import StringIO
from itertools import chain
from typing import Any

from django.http import StreamingHttpResponse

from billing import ledger_pages, money
from billing.models import Account, LedgerEntry
from gateway_project import dollars, timestamps

CONTENT_TYPE = "text/csv"
COLUMNS = [
    "seq",
    "id",
    "createdAt",
    "type",
    "amountInDollars",
    "balanceAfterInDollars",
    "amountInCents",
    "balanceAfterInCents",
    "apiKey",
    "model",
    "tokens",
    "promptTokens",
    "completionTokens",
    "completionId",
    "settlement",
    "paymentId",
    "reason",
]
# Characters with which a formula begins in spreadsheet programs, and the blanks that they skip before it.
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")


def download(account: Account, entry_filter: ledger_pages.EntryFilter = ledger_pages.ALL_ENTRIES) -> StreamingHttpResponse:
    """Return the streaming reply. The first part is built here, so that an error before it still has an error status."""
    parts = _parts(account, entry_filter)
    headers = {
        "Content-Disposition": 'attachment; filename="ledger.csv"',
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }
    body = chain([next(parts)], parts)
    return StreamingHttpResponse(body, content_type=f"{CONTENT_TYPE}; charset=utf-8", headers=headers)


def _parts(account: Account, entry_filter: ledger_pages.EntryFilter) -> Iterator[bytes]:
    head = _lines([COLUMNS])
    for batch in ledger_pages.read_batches(account, entry_filter):
        yield head + _lines(map(_row, batch))
        head = b""
    if head:
        yield head


def _lines(rows: Any) -> bytes:
    written = StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()


def _row(entry: LedgerEntry) -> list[Any]:
    """Return the cells of COLUMNS."""
    metadata = entry.metadata
    payment_id = next((value for name, value in metadata.items() if name.endswith("PaymentId")), None)
    return [
        entry.seq,
        entry.pk,
        timestamps.iso_millis(entry.created_at),
        entry.type,
        dollars.format_plain(entry.amount_nanos),
        dollars.format_plain(entry.balance_after_nanos),
        money.entry_cents(amount_nanos=entry.amount_nanos, balance_after_nanos=entry.balance_after_nanos),
        money.floor_cents(entry.balance_after_nanos),
        _text(entry.spender),
        _text(metadata.get("model")),
        metadata.get("tokens"),
        metadata.get("promptTokens"),
        metadata.get("completionTokens"),
        _text(metadata.get("completionId")),
        _text(metadata.get("settlement")),
        _text(payment_id),
        _text(metadata.get("reason")),
    ]


def _text(value: str | None) -> str | None:
    """Return a cell that a spreadsheet shows as text: a value that begins like a formula gets a quote in front."""
    return f"'{value}" if value and value.startswith(_FORMULA_BEGINS) else value
