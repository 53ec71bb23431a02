"""The book as a CSV file: exact dollars beside whole cents, a line an entry, the most recent first.

It streams: of a book of any size, one batch is in memory. What others wrote cannot pass for a formula.
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
# What a spreadsheet program takes for the beginning of a formula, and the blanks that it passes over to find one.
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")


def download(account: Account, entry_filter: ledger_pages.EntryFilter = ledger_pages.ALL_ENTRIES) -> StreamingHttpResponse:
    """The reply. Its first part is made here: what fails before anything is sent is still an error with its status."""
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
    """The cells of COLUMNS."""
    told = entry.metadata
    paid_as = next((value for name, value in told.items() if name.endswith("PaymentId")), None)
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
        _text(told.get("model")),
        told.get("tokens"),
        told.get("promptTokens"),
        told.get("completionTokens"),
        _text(told.get("completionId")),
        _text(told.get("settlement")),
        _text(paid_as),
        _text(told.get("reason")),
    ]


def _text(value: str | None) -> str | None:
    """A cell that shows ``value``, and never computes it."""
    return f"'{value}" if value and value.startswith(_FORMULA_BEGINS) else value
