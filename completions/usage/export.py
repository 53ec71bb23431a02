"""The usage of an account as records to book: one for each entry of its ledger about usage, in the ledger's order.

The ledger numbers its entries without gaps, in the order of their commits, so a place in it is a cursor that misses nothing. A
cursor has a digest of the entry's hash, which is over all entries before it: so it continues the ledger that it is from, and no
other, not even the same one restored from a backup and continued otherwise. A page shows only what is on disk.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from billing.ledger import writer
from billing.models import Account, LedgerEntry
from completions.models import Completion
from completions.pricing import meters
from gateway_project import errors
from gateway_project.db import durability, pool
from gateway_project.text import compact_json, dollars, timestamps

LIMIT_DEFAULT, LIMIT_MAX = 100, 500
KINDS = ("completion", "rerun", "correction", "refund")
_CURSOR = re.compile(r"([0-9]{1,18})-[0-9a-f]{16}")
_CORRECTED = Completion.Settlement.CORRECTED
# Archived with the completion, under the names of their columns.
_DETAILS = {"provider": "provider_id", "user": "end_user", "metadata": "tags", "run": "run"}
_DETAILS |= {name: name for name in ("service_tier", "request_id", "provider_request_id", "data_demanded", "data_promised")}
_BOOKED = {"prompt_tokens": "promptTokens", "completion_tokens": "completionTokens", "web_searches": "webSearches"}


@dataclass(frozen=True)
class Query:
    """Selects a page of the usage of a key, or, where that is None, of the whole account."""

    account_id: UUID
    key_id: str | None
    cursor: str | None = None
    until: str | None = None
    limit: int = LIMIT_DEFAULT

    @property
    def ledger(self) -> QuerySet[LedgerEntry]:
        return LedgerEntry.objects.filter(account_id=self.account_id)


def read_page(query: Query) -> bytes:
    """Return the body of the reply, in which ``checksum`` is over the bytes of ``data``. Raises InvalidRequest."""
    session = durability.open_session()  # before anything is read that a crash of the database might forget
    last_seq = Account.objects.values_list("last_seq", flat=True).get(pk=query.account_id)
    after, end = _read_cursor(query, "cursor", 0), _read_cursor(query, "until", last_seq)
    if end < after:
        raise errors.wrong("until", "must not be before cursor")
    entries = _read_entries(query, after, end)
    read_to = entries[-1].seq if len(entries) == query.limit else end
    data = compact_json.dumps(_describe(query, entries))
    rest = {"checksum": sha256(data).hexdigest(), "next_cursor": _cursor(query, read_to), "has_more": read_to < end}
    pool.release_connection()
    if read_to > after:
        durability.wait_until_durable(session)
    return b'{"data":%b,%b' % (data, compact_json.dumps(rest)[1:])


def _cursor(query: Query, seq: int) -> str:
    """Return the cursor after an entry; with 0 before the first one."""
    hash = query.ledger.filter(seq=seq).order_by("seq").values_list("hash", flat=True).first()
    named = f"{query.account_id}|{query.key_id}|{seq}|{bytes(hash or b'').hex()}"
    return f"{seq}-{sha256(named.encode()).hexdigest()[:16]}"


def _read_cursor(query: Query, name: str, default: int) -> int:
    """Return the number of the last entry before the cursor. Raises InvalidRequest."""
    if (cursor := getattr(query, name)) is None:
        return default
    found = _CURSOR.fullmatch(cursor)
    if found is None or _cursor(query, int(found[1])) != cursor:
        raise errors.wrong(name, "must be a next_cursor that this key got from this ledger")
    return int(found[1])


def _read_entries(query: Query, after: int, end: int) -> list[LedgerEntry]:
    """Return the next entries, as many as the limit if there are so many: each statement reads no more of an index.

    A refund has no key, so credits are read beside the usage of a key; ``_describe`` leaves out those of others.
    """
    entries, limit = query.ledger.filter(seq__gt=after, seq__lte=end).order_by("seq"), query.limit
    if query.key_id is None:
        return list(entries[:limit])
    seqs = entries.values_list("seq", flat=True)  # in an index alone: no entry of another key is read
    usage, credits = seqs.filter(spender=query.key_id), seqs.filter(type=LedgerEntry.Type.SUPPORT_CREDIT)
    return list(entries.filter(seq__in=sorted([*usage[:limit], *credits[:limit]])[:limit]))


def _describe(query: Query, entries: list[LedgerEntry]) -> list[dict[str, Any]]:
    usage = {each: each.metadata["completionId"] for each in entries if "completionId" in each.metadata}
    kept = Completion.objects.only(*meters.COLUMNS, "other_counts", *_DETAILS.values()).in_bulk(usage.values())
    refunded = [id for entry, id in usage.items() if entry.spender is None]
    keys = dict(query.ledger.filter(reference__in=refunded).values_list("reference", "spender"))
    records = [_record(entry, entry.spender or keys[id], kept.get(id)) for entry, id in usage.items()]
    return [each for each in records if query.key_id in (None, each["key"])]


def _record(entry: LedgerEntry, key_id: str | None, kept: Completion | None) -> dict[str, Any]:
    kind, supersedes = _kind(entry)
    return {
        "seq": entry.seq,
        "id": str(entry.pk),
        "booked_at": timestamps.iso_millis(entry.created_at),
        "kind": kind,
        "completion": entry.metadata["completionId"],
        "supersedes": supersedes,
        "cost_in_dollars": dollars.format_plain(-entry.amount_nanos),
        "key": key_id,
        "model": entry.metadata["model"],
        "settlement": entry.metadata.get("settlement"),
        "usage": None if kind == "refund" else _usage(entry, kept),
        "details": kept and {name: getattr(kept, column) for name, column in _DETAILS.items()},
    }


def _kind(entry: LedgerEntry) -> tuple[str, str | None]:
    """Return the kind of a record, and the completion that it supersedes."""
    told = entry.metadata
    if entry.reference.startswith(writer.OVERCHARGE):
        return "refund", told["completionId"]
    if told["settlement"] == _CORRECTED:
        return "correction", told.get("corrects", told["repeats"])
    return ("rerun" if "repeats" in told else "completion"), told.get("repeats")


def _usage(entry: LedgerEntry, kept: Completion | None) -> dict[str, int | None]:
    """Return the number of each meter; None if neither the entry nor a completion that is kept has it."""
    told = {**(kept.other_counts or {}), **{name: getattr(kept, name) or 0 for name in meters.COLUMNS}} if kept else {}
    told |= {name: entry.metadata.get(field, 0) for name, field in _BOOKED.items()}
    return {meter.count: told.get(meter.count, 0 if kept else None) for meter in meters.METERS}
