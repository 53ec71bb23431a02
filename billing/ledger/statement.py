"""The balance of an account, and its ledger entries: as plain values for pages, and streamed as a CSV file."""

from collections.abc import Callable, Mapping
from typing import Any

from django.http import StreamingHttpResponse

from billing import money
from billing.ledger import reading
from billing.models import Account, LedgerEntry
from gateway_project.text import csv_text, dollars, timestamps
from gateway_project.web import downloads

CSV_TYPE = "text/csv"


def show_funds(account: Account) -> dict[str, dollars.Amount]:
    """Return what an account has, for a page: the parts add up to the balance as they are shown."""
    decimals = dollars.decimals([account.balance_nanos, account.held_nanos, account.available_nanos])
    held, available = dollars.show_parts([account.held_nanos, account.available_nanos], decimals, is_floored=True)
    return {"balance": dollars.show_floored(account.balance_nanos, decimals), "held": held, "available": available}


def format_entry(entry: LedgerEntry, *, issued_by: str = "", names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return one entry for a template, which formats the amounts. ``facts`` is what else it says: names and values.

    ``issued_by`` is the issuer of a credit, if the reader may see it; ``names`` are those of spenders by their ids.
    """
    return {
        "entry": entry,
        "detail": describe(entry),
        "issued_by": issued_by,
        "spender_name": (names or {}).get(entry.spender or "", ""),
        "model": entry.metadata.get("model", ""),
        "completion_id": entry.metadata.get("completionId", ""),
        "facts": _facts(entry.metadata),
    }


_SETTLEMENTS = {
    "reported": "by the provider's token counts",
    "estimated": "estimated",
    "partial": "cut short",
    "recovered": "recovered after a failure of the gateway",
    "corrected": "corrects an earlier charge, which was an estimate or none",
}


def _facts(metadata: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("Input tokens", metadata.get("promptTokens")),
        ("Output tokens", metadata.get("completionTokens")),
        ("Charged", _SETTLEMENTS.get(metadata.get("settlement", ""))),
        ("Reason", metadata.get("reason")),
        *(("Payment ID", value) for name, value in metadata.items() if name.endswith("PaymentId")),
    ]
    return [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in facts if value is not None]


def describe(entry: LedgerEntry) -> str:
    metadata = entry.metadata
    if "model" in metadata:
        tokens = metadata.get("tokens", 0)
        return f"{metadata['model']}, {tokens:,} token{'' if tokens == 1 else 's'}"
    if "reason" in metadata:
        return str(metadata["reason"])
    return ", ".join(str(value) for name, value in metadata.items() if name.endswith("PaymentId"))


def _text_of(name: str) -> Callable[[LedgerEntry], str | None]:
    return lambda entry: csv_text.text_cell(entry.metadata.get(name))


def _payment_id(entry: LedgerEntry) -> str | None:
    return csv_text.text_cell(next((value for name, value in entry.metadata.items() if name.endswith("PaymentId")), None))


_CELLS: dict[str, Callable[[LedgerEntry], Any]] = {
    "seq": lambda entry: entry.seq,
    "id": lambda entry: entry.pk,
    "createdAt": lambda entry: timestamps.iso_millis(entry.created_at),
    "type": lambda entry: entry.type,
    "amountInDollars": lambda entry: dollars.format_plain(entry.amount_nanos),
    "balanceAfterInDollars": lambda entry: dollars.format_plain(entry.balance_after_nanos),
    "amountInCents": lambda entry: entry.amount_cents,
    "balanceAfterInCents": lambda entry: money.floor_cents(entry.balance_after_nanos),
    "apiKey": lambda entry: csv_text.text_cell(entry.spender),
    "model": _text_of("model"),
    "tokens": lambda entry: entry.metadata.get("tokens"),
    "promptTokens": lambda entry: entry.metadata.get("promptTokens"),
    "completionTokens": lambda entry: entry.metadata.get("completionTokens"),
    "completionId": _text_of("completionId"),
    "settlement": _text_of("settlement"),
    "paymentId": _payment_id,
    "reason": _text_of("reason"),
    "hash": lambda entry: entry.hash and entry.hash.hex(),
}


def download_csv(
    account: Account, entry_filter: reading.EntryFilter = reading.ALL_ENTRIES, *, downloader: str
) -> StreamingHttpResponse:
    """Return the streaming reply: a line for each entry, newest first, in exact dollars and whole cents.

    Raises RateLimitExceeded when ``downloader`` has too many files under way.
    """
    batches = reading.read_batches(account, entry_filter)
    rows = ([[cell(entry) for cell in _CELLS.values()] for entry in batch] for batch in batches)
    file = {"filename": "ledger.csv", "content_type": CSV_TYPE}
    return downloads.respond(csv_text.write_parts(list(_CELLS), rows), **file, downloader=downloader, subject="the ledger")
