"""The ledger of an account as a CSV file: one line for each entry, newest first, with exact dollars and whole cents.

The file is streamed, one batch in memory at a time, and few files at a time. Text that others wrote cannot act as a spreadsheet
formula.
"""

from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from typing import Any, Self

from django.http import StreamingHttpResponse

from billing import ledger_pages, money
from billing.models import Account, LedgerEntry
from gateway_project import csv_text, dollars, errors, timestamps

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

DOWNLOADS_MAX = 2  # at a time, of one downloader in one process
_RETRY_AFTER = timedelta(seconds=5)
_running: Counter[str] = Counter()  # by downloader


def download(
    account: Account, entry_filter: ledger_pages.EntryFilter = ledger_pages.ALL_ENTRIES, *, downloader: str
) -> StreamingHttpResponse:
    """Return the streaming reply. The first part is built here, so that an error before it still has an error status.

    Raises RateLimitExceeded when ``downloader``, an id of whoever asks, has DOWNLOADS_MAX files under way in this process.
    """
    body = _Download(downloader, _parts(account, entry_filter))
    headers = {
        "Content-Disposition": 'attachment; filename="ledger.csv"',
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }
    return StreamingHttpResponse(body, content_type=f"{CONTENT_TYPE}; charset=utf-8", headers=headers)


class _Download:
    """The parts of one file. It counts as under way until it is closed, as the server does at the end and on a disconnect."""

    def __init__(self, downloader: str, parts: Generator[bytes, None, None]) -> None:
        if _running[downloader] >= DOWNLOADS_MAX:
            message = f"{DOWNLOADS_MAX} downloads of the ledger are under way already: wait for one to end."
            raise errors.RateLimitExceeded(message, headers=errors.retry_after(_RETRY_AFTER))
        _running[downloader] += 1
        self._downloader: str | None = downloader
        self._parts = parts
        try:
            self._first: bytes | None = next(parts)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        first, self._first = self._first, None
        return next(self._parts) if first is None else first

    def close(self) -> None:
        self._parts.close()
        downloader, self._downloader = self._downloader, None
        if downloader is not None:
            _running[downloader] -= 1
            if not _running[downloader]:
                del _running[downloader]


def _parts(account: Account, entry_filter: ledger_pages.EntryFilter) -> Generator[bytes, None, None]:
    head = csv_text.write_lines([COLUMNS])
    for batch in ledger_pages.read_batches(account, entry_filter):
        yield head + csv_text.write_lines(map(_row, batch))
        head = b""
    if head:
        yield head


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
