"""The ledger of an account as a streamed CSV file: a line for each entry, newest first, in exact dollars and whole cents."""

from collections.abc import Callable
from typing import Any

from django.http import StreamingHttpResponse

from billing import money
from billing.ledger import reading
from billing.models import Account, LedgerEntry
from gateway_project.text import csv_text, dollars, timestamps
from gateway_project.web import downloads

CONTENT_TYPE = "text/csv"


def _text(name: str) -> Callable[[LedgerEntry], str | None]:
    return lambda entry: csv_text.text_cell(entry.metadata.get(name))


def _number(name: str) -> Callable[[LedgerEntry], int | None]:
    return lambda entry: entry.metadata.get(name)


def _payment_id(entry: LedgerEntry) -> str | None:
    return csv_text.text_cell(next((value for name, value in entry.metadata.items() if name.endswith("PaymentId")), None))


_CELLS: dict[str, Callable[[LedgerEntry], Any]] = {
    "seq": lambda entry: entry.seq,
    "id": lambda entry: entry.pk,
    "createdAt": lambda entry: timestamps.iso_millis(entry.created_at),
    "type": lambda entry: entry.type,
    "amountInDollars": lambda entry: dollars.format_plain(entry.amount_nanos),
    "balanceAfterInDollars": lambda entry: dollars.format_plain(entry.balance_after_nanos),
    "amountInCents": lambda entry: money.entry_cents(
        amount_nanos=entry.amount_nanos, balance_after_nanos=entry.balance_after_nanos
    ),
    "balanceAfterInCents": lambda entry: money.floor_cents(entry.balance_after_nanos),
    "apiKey": lambda entry: csv_text.text_cell(entry.spender),
    "model": _text("model"),
    "tokens": _number("tokens"),
    "promptTokens": _number("promptTokens"),
    "completionTokens": _number("completionTokens"),
    "completionId": _text("completionId"),
    "settlement": _text("settlement"),
    "paymentId": _payment_id,
    "reason": _text("reason"),
}


def download(
    account: Account, entry_filter: reading.EntryFilter = reading.ALL_ENTRIES, *, downloader: str
) -> StreamingHttpResponse:
    """Return the streaming reply. Raises RateLimitExceeded when ``downloader`` has too many files under way."""
    rows = (map(_row, batch) for batch in reading.read_batches(account, entry_filter))
    file = {"filename": "ledger.csv", "content_type": CONTENT_TYPE}
    return downloads.respond(csv_text.write_parts(list(_CELLS), rows), **file, downloader=downloader, subject="the ledger")


def _row(entry: LedgerEntry) -> list[Any]:
    return [cell(entry) for cell in _CELLS.values()]
