"""The ledger of an account as a CSV file: one line for each entry, newest first, with exact dollars and whole cents.

The file is streamed, one batch in memory at a time, and few files at a time. Text that others wrote cannot act as a spreadsheet
formula.
"""

from typing import Any

from django.http import StreamingHttpResponse

from billing import money
from billing.ledger import reading
from billing.models import Account, LedgerEntry
from gateway_project.text import csv_text, dollars, timestamps
from gateway_project.web import downloads

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


def download(
    account: Account, entry_filter: reading.EntryFilter = reading.ALL_ENTRIES, *, downloader: str
) -> StreamingHttpResponse:
    """Return the streaming reply. Raises RateLimitExceeded when ``downloader`` has too many files under way."""
    parts = csv_text.write_parts(COLUMNS, (map(_row, batch) for batch in reading.read_batches(account, entry_filter)))
    return downloads.respond(
        parts, filename="ledger.csv", content_type=CONTENT_TYPE, downloader=downloader, subject="the ledger"
    )


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
        csv_text.text_cell(entry.spender),
        csv_text.text_cell(metadata.get("model")),
        metadata.get("tokens"),
        metadata.get("promptTokens"),
        metadata.get("completionTokens"),
        csv_text.text_cell(metadata.get("completionId")),
        csv_text.text_cell(metadata.get("settlement")),
        csv_text.text_cell(payment_id),
        csv_text.text_cell(metadata.get("reason")),
    ]
