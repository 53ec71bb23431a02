"""Days that were signed, archived or dropped."""

from django.db import models
from django.db.models.functions import Now

from billing.models.accounts import Account
from gateway_project.db.owned import BOOKS, Kept, OwnedModel


class AuditedDay(OwnedModel):
    """A UTC day that the audit found consistent and signed off. ``billing.ledger.signed_days`` writes it.

    Its digest is made from those of its accounts and of the day before, so a copy kept elsewhere proves all days up to it.
    """

    day = models.DateField(primary_key=True)
    digest = models.CharField(max_length=64, db_collation="C")
    signed_at = models.DateTimeField(db_default=Now())
    checked_at = models.DateTimeField(db_default=Now(), help_text="When its rows were last read and found as signed.")
    rows_changed = models.BigIntegerField(
        help_text="Changes of entries that PostgreSQL had counted: none, unless triggers are disabled."
    )

    class Meta:
        default_permissions = ()


class AuditedLedger(OwnedModel):
    """The sums of an account up to the end of a signed day on which it booked something, and a digest of the entries."""

    kept = Kept("It has digests of the ledger.", BOOKS)
    moves = False  # so that a signed day stays what it was
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    day = models.DateField()
    last_seq = models.BigIntegerField()
    last_at = models.DateTimeField()
    balance_nanos = models.BigIntegerField()
    debited_nanos = models.BigIntegerField(help_text="Of all usage until then.")
    digest = models.CharField(max_length=64, db_collation="C", help_text="SHA-256 over that of each entry of the day.")

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["account", "day"], name="a_ledgers_day_is_signed_once")]
        indexes = [models.Index(fields=["day"], name="audited_ledgers_by_day")]


class ArchivedDay(OwnedModel):
    """A UTC day whose completions and holds, those that ended on it, are archived or dropped. Days are archived in order.

    While ``written_at`` is empty, all rows of the day are there. From then on triggers allow to delete them.
    """

    day = models.DateField(primary_key=True)
    files = models.JSONField(default=list, help_text="Of each file: name, rows, bytes and SHA-256. Empty: dropped.")
    completions = models.BigIntegerField(default=0)
    holds = models.BigIntegerField(default=0)
    written_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    restored_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()


class RetentionMark(OwnedModel):
    """Since which day rows of a kind are kept; those before were dropped."""

    what = models.CharField(max_length=20, primary_key=True)
    since = models.DateField()

    class Meta:
        default_permissions = ()
