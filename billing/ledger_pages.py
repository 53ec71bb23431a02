"""Reading an account's book, at any depth.

In a book ``seq`` has no gaps and times do not run back. So an offset is a place, and a time is one too, found by halving:
wherever a page is, it costs one index seek.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber

from billing.models import Account, LedgerEntry
from gateway_project.db import pool

# What one query of ``batches`` reads. To write 250 lines takes 8 ms, in which the process answers nobody else.
BATCH_ENTRIES = 250


@dataclass(frozen=True)
class Choice:
    """Which entries of a book: of a type, of a spender, booked in ``since <= created_at < until``. None: any."""

    type: str | None = None
    spender: str | None = None
    since: datetime | None = None
    until: datetime | None = None


EVERYTHING = Choice()


def page(account: Account, *, limit: int, offset: int, choice: Choice = EVERYTHING) -> list[LedgerEntry]:
    """Entries of the choice, the most recent first, after skipping ``offset`` of them.

    What is skipped costs nothing, except of a spender or of a type that is not usage: there an index says where they are,
    and is read from its end.
    """
    first_seq, last_seq = _span(account, choice)
    offset = min(offset, last_seq)
    chosen = _chosen(account, choice).filter(seq__gte=first_seq)
    if choice.spender is None and choice.type in (None, LedgerEntry.Type.USAGE_DEBIT):
        others = 0 if choice.type is None else _others_passed(account, last_seq, offset)
        return list(chosen.filter(seq__lte=last_seq - offset - others)[:limit])
    places = chosen.filter(seq__lte=last_seq).values("seq")[offset : offset + limit]
    return list(_chosen(account, EVERYTHING).filter(seq__in=places))


def batches(account: Account, choice: Choice = EVERYTHING) -> Iterator[list[LedgerEntry]]:
    """Every entry of the choice that is in the book as ``account`` was read, the most recent first, some at a time.

    No connection is held between two batches.
    """
    first_seq, last_seq = _span(account, choice)
    chosen = _chosen(account, choice).filter(seq__gte=first_seq)
    while batch := list(chosen.filter(seq__lte=last_seq)[:BATCH_ENTRIES]):
        pool.release_connection()
        yield batch
        last_seq = batch[-1].seq - 1
    pool.release_connection()


def _chosen(account: Account, choice: Choice) -> QuerySet[LedgerEntry]:
    chosen = LedgerEntry.objects.filter(account=account).order_by("-seq")
    if choice.spender is not None:
        chosen = chosen.filter(spender=choice.spender)
        # Only usage has a spender. To say so again would have every entry read that the index alone can skip.
        return chosen if choice.type in (None, LedgerEntry.Type.USAGE_DEBIT) else chosen.none()
    return chosen if choice.type is None else chosen.filter(type=choice.type)


def _span(account: Account, choice: Choice) -> tuple[int, int]:
    """The first and the last seq that the times of the choice allow. Without any between them, the last is less."""
    first_seq = 1 if choice.since is None else _entries_before(account, choice.since) + 1
    last_seq = account.last_seq if choice.until is None else _entries_before(account, choice.until)
    return first_seq, last_seq


def _entries_before(account: Account, moment: datetime) -> int:
    """How many entries were booked before ``moment``: the seq of the last of them."""
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
            SELECT low FROM halving ORDER BY high - low LIMIT 1
            """,
            {"account": account.pk, "last_seq": account.last_seq, "moment": moment},
        )
        low: int = cursor.fetchone()[0]
    return low


def _others_passed(account: Account, last_seq: int, offset: int) -> int:
    """How many entries that are not usage one passes when skipping ``offset`` that are, backwards from ``last_seq``.

    They are few, and have an index to themselves. Usage after the n-th of them: the entries after it but for the n - 1.
    """
    others = LedgerEntry.objects.filter(account=account, seq__lte=last_seq).exclude(type=LedgerEntry.Type.USAGE_DEBIT)
    place = Window(RowNumber(), order_by=F("seq").desc())
    return others.annotate(usage_after=last_seq + 1 - F("seq") - place).filter(usage_after__lte=offset).count()
