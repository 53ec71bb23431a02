"""Reads since when details and sums of usage are kept. The audit expects nothing from before.

Details are dropped by whole UTC days, in order. The usage entries of a day are a range of ``seq`` for each account
(``signed_days``), so the seq of an entry says whether its details are kept.
"""

from dataclasses import dataclass
from datetime import date, timedelta

from django.db.backends.utils import CursorWrapper

# Each is the ``what`` of a RetentionMark.
USAGE = "usage"  # sums of usage by hour, and those of labels
PROVIDER_DAYS = "provider days"  # those before the release that began to add them up are not there

# Up to which seq the details of an account's usage are archived, or dropped; for the audit.
ARCHIVED = """
    SELECT account.id AS account_id, last.last_seq FROM billing_account AS account JOIN LATERAL (
        SELECT last_seq FROM billing_auditedledger
        WHERE account_id = account.id AND day <= (SELECT max(day) FROM billing_archivedday WHERE written_at IS NOT NULL)
        ORDER BY day DESC LIMIT 1
    ) AS last ON true WHERE %(account)s::uuid IS NULL OR account.id = %(account)s::uuid"""


@dataclass(frozen=True)
class Kept:
    """The first UTC days of what is kept: details of completions, sums of usage, and days of providers."""

    details_since: date = date.min
    usage_since: date = date.min
    provided_since: date = date.min


def read_kept(cursor: CursorWrapper) -> Kept:
    """Return since when rows are kept. A day that is written to the archive counts as not kept: its rows may be deleted."""
    cursor.execute(_KEPT, {"usage": USAGE, "provided": PROVIDER_DAYS})
    archived_day, usage_since, provided_since = cursor.fetchone()
    details_since = archived_day + timedelta(days=1) if archived_day else date.min
    return Kept(details_since, usage_since or date.min, provided_since or date.min)


_KEPT = """
    SELECT (SELECT max(day) FROM billing_archivedday WHERE written_at IS NOT NULL),
        (SELECT since FROM billing_retentionmark WHERE what = %(usage)s),
        (SELECT since FROM billing_retentionmark WHERE what = %(provided)s)
"""
