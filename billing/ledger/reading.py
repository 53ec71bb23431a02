"""Reads the ledger entries of an account, one page or batch at a time, at the same cost at any depth.

Within an account ``seq`` has no gaps and ``created_at`` never decreases. So an offset is a seq, and a time becomes a seq by
binary search.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count, F, Func, QuerySet, Sum, TextField, Value, Window
from django.db.models.functions import RowNumber

from billing.models import Account, LedgerEntry
from gateway_project.db import pool

# Entries in one query of ``read_batches``. Writing 250 CSV lines takes 8 ms, in which the process serves no other request.
BATCH_ENTRIES = 250
SEARCHED_MAX = 20_000  # entries that one query for a model looks at
LIMIT_DEFAULT, LIMIT_MAX = 10, 100  # entries on a page of the API


@dataclass(frozen=True)
class EntryFilter:
    """Selects entries by type, by spender, by model, and by ``since <= created_at < until``. None selects all."""

    type: str | None = None
    spender: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None  # in no index: it would cost every debit a write


@dataclass(frozen=True)
class Neighbourhood:
    """Entries, newest first, and the seqs from which the pages beside this one continue; None where there is none.

    ``searched_to`` is how far a search for a model came, if it ended before it filled the page.
    """

    entries: list[LedgerEntry]
    newer: int | None
    older: int | None
    searched_to: int | None


@dataclass(frozen=True)
class EntryPage(EntryFilter):
    limit: int = LIMIT_DEFAULT
    offset: int = 0


ALL_ENTRIES = EntryFilter()


def read_page(account: Account, *, limit: int, offset: int, entry_filter: EntryFilter = ALL_ENTRIES) -> list[LedgerEntry]:
    """Return the selected entries, newest first, after skipping ``offset`` of them.

    Skipping costs nothing, except with a spender or with a type other than usage: then the skipped part of an index is read.
    """
    first_seq, last_seq = _span(account, entry_filter)
    offset = min(offset, last_seq)
    entries = _filtered(account, entry_filter).filter(seq__gte=first_seq)
    if entry_filter.spender is None and entry_filter.type in (None, LedgerEntry.Type.USAGE_DEBIT):
        others = 0 if entry_filter.type is None else _others_passed(account, last_seq, offset)
        return list(entries.filter(seq__lte=last_seq - offset - others)[:limit])
    places = entries.filter(seq__lte=last_seq).values("seq")[offset : offset + limit]
    return list(_filtered(account, ALL_ENTRIES).filter(seq__in=places))


def read_beside(
    account: Account,
    entry_filter: EntryFilter = ALL_ENTRIES,
    *,
    limit: int,
    older_than: int | None = None,
    newer_than: int | None = None,
) -> Neighbourhood:
    """Return the newest of the selected entries, or those next to a seq. A search for a model looks at SEARCHED_MAX entries."""
    first_seq, last_seq = _span(account, entry_filter)
    is_backward = newer_than is not None  # towards newer ones
    last_seq = min(last_seq, (older_than or last_seq + 1) - 1)
    first_seq = max(first_seq, (newer_than or 0) + 1)
    searched_to = None
    if entry_filter.model is not None and last_seq - first_seq >= SEARCHED_MAX:
        searched_to = first_seq + SEARCHED_MAX - 1 if is_backward else last_seq - SEARCHED_MAX + 1
        first_seq, last_seq = (first_seq, searched_to) if is_backward else (searched_to, last_seq)
    entries = _filtered(account, entry_filter).filter(seq__gte=first_seq, seq__lte=last_seq)
    found = list((entries.reverse() if is_backward else entries)[: limit + 1])
    if len(found) > limit:
        searched_to = None  # the page is full: whatever comes next follows its last one
    beyond, found = (found[limit - 1].seq if len(found) > limit else searched_to), found[:limit]
    if is_backward:
        found.reverse()
    behind = found[-1 if is_backward else 0].seq if found else (newer_than or older_than)
    if behind == account.last_seq or newer_than == 0 or (newer_than, older_than) == (None, None):
        behind = None  # the page is at an end of the list
    newer, older = (beyond, behind) if is_backward else (behind, beyond)
    return Neighbourhood(found, newer, older, searched_to)


def read_before(account: Account, moment: datetime) -> LedgerEntry | None:
    """Return the last entry before ``moment``, whose balance was the account's then; None if there was none."""
    return LedgerEntry.objects.filter(account=account, seq=_entries_before(account, moment)).first()


def sum_by_title(account: Account, since: datetime, until: datetime) -> dict[str, tuple[int, int]]:
    """Return the number of entries of each title in a time, and their sum in nanodollars. No usage entry is read."""
    last_seqs = [_entries_before(account, moment) for moment in (since, until)]
    balances = dict(LedgerEntry.objects.filter(account=account, seq__in=last_seqs).values_list("seq", "balance_after_nanos"))
    opening_nanos, closing_nanos = (balances.get(seq, 0) for seq in last_seqs)
    others = LedgerEntry.objects.filter(account=account, seq__gt=last_seqs[0], seq__lte=last_seqs[1])
    sums = add_up(others.exclude(type=LedgerEntry.Type.USAGE_DEBIT))
    number = last_seqs[1] - last_seqs[0] - sum(number for number, _ in sums.values())
    nanos = closing_nanos - opening_nanos - sum(nanos for _, nanos in sums.values())
    return {**sums, LedgerEntry(type=LedgerEntry.Type.USAGE_DEBIT).title: (number, nanos)} if number else sums


def add_up(entries: QuerySet[LedgerEntry]) -> dict[str, tuple[int, int]]:
    """Return the number and sum of entries by their title: money that came back is none that was paid anew."""
    beginning = Func(F("reference"), Value(":"), Value(1), function="split_part", output_field=TextField())
    rows: Any = entries.annotate(kind=beginning).values_list("type", "kind").annotate(Count("pk"), Sum("amount_nanos"))
    sums: dict[str, tuple[int, int]] = {}
    for type, kind, number, nanos in rows.order_by("type", "kind"):
        title = LedgerEntry(type=type, reference=kind).title
        before, before_nanos = sums.get(title, (0, 0))
        sums[title] = (before + number, before_nanos + int(nanos))
    return sums


def read_batches(account: Account, entry_filter: EntryFilter = ALL_ENTRIES) -> Iterator[list[LedgerEntry]]:
    """Yield all selected entries, newest first, in batches. No database connection is held between two batches."""
    first_seq, last_seq = _span(account, entry_filter)
    entries = _filtered(account, entry_filter).filter(seq__gte=first_seq)
    while last_seq >= first_seq:
        low_seq = first_seq if entry_filter.model is None else max(first_seq, last_seq - SEARCHED_MAX + 1)
        batch = list(entries.filter(seq__gte=low_seq, seq__lte=last_seq)[:BATCH_ENTRIES])
        pool.release_connection()
        if batch:
            yield batch
        last_seq = (batch[-1].seq if len(batch) == BATCH_ENTRIES else low_seq) - 1
    pool.release_connection()


def _filtered(account: Account, entry_filter: EntryFilter) -> QuerySet[LedgerEntry]:
    entries = LedgerEntry.objects.filter(account=account).order_by("-seq")
    if entry_filter.model is not None:
        entries = entries.filter(metadata__model=entry_filter.model)
    if entry_filter.spender is not None:
        entries = entries.filter(spender=entry_filter.spender)
        # Only usage has a spender. A condition on the type would make PostgreSQL read entries that the index alone can skip.
        return entries if entry_filter.type in (None, LedgerEntry.Type.USAGE_DEBIT) else entries.none()
    return entries if entry_filter.type is None else entries.filter(type=entry_filter.type)


def _span(account: Account, entry_filter: EntryFilter) -> tuple[int, int]:
    """Return the first and last seq in the time range of the filter. The last is less than the first if the range is empty."""
    first_seq = 1 if entry_filter.since is None else _entries_before(account, entry_filter.since) + 1
    last_seq = account.last_seq if entry_filter.until is None else _entries_before(account, entry_filter.until)
    return first_seq, last_seq


def _entries_before(account: Account, moment: datetime) -> int:
    """Return how many entries were booked before ``moment``, which is the seq of the last of them. Binary search in SQL."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH RECURSIVE halving (low, high) AS (
                VALUES (0::bigint, %(last_seq)s::bigint)
                UNION ALL
                SELECT CASE WHEN created_at < %(moment)s THEN seq ELSE low END,
                    CASE WHEN created_at < %(moment)s THEN high ELSE seq - 1 END
                FROM halving JOIN billing_ledgerentry ON account_id = %(account)s AND seq = (low + high + 1) / 2
                WHERE low < high
            )
            SELECT low FROM halving ORDER BY high - low LIMIT 1""",
            {"account": account.pk, "last_seq": account.last_seq, "moment": moment},
        )
        low: int = cursor.fetchone()[0]
    return low


def _others_passed(account: Account, last_seq: int, offset: int) -> int:
    """Return how many entries of other types, which are few, lie among the last ``offset`` usage entries up to ``last_seq``.

    Between the n-th of them (from the end) and the end there are ``last_seq - seq`` entries, of which n - 1 are not usage.
    """
    others = LedgerEntry.objects.filter(account=account, seq__lte=last_seq).exclude(type=LedgerEntry.Type.USAGE_DEBIT)
    place = Window(RowNumber(), order_by=F("seq").desc())
    return others.annotate(usage_after=last_seq + 1 - F("seq") - place).filter(usage_after__lte=offset).count()
