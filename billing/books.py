"""Reading an account's book."""

from billing.models import Account, LedgerEntry


def page(account: Account, *, limit: int, offset: int) -> list[LedgerEntry]:
    """Entries, the most recent first, after skipping ``offset`` of them.

    ``seq`` has no gaps, so an offset is a place: any page costs one index seek, however deep.
    """
    newest_seq = account.last_seq - offset
    entries = LedgerEntry.objects.filter(account=account, seq__lte=newest_seq, seq__gt=newest_seq - limit)
    return list(entries.order_by("-seq"))
