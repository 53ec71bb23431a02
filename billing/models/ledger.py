"""Ledger entries, and holds."""

from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from billing import money
from billing.models.accounts import Account
from billing.models.people import User
from gateway_project import identifiers
from gateway_project.cells.directory import ReferredModel
from gateway_project.cells.models import Reference
from gateway_project.db.constraints import must_hold
from gateway_project.db.owned import BOOKS, Kept, OwnedModel


class LedgerEntry(OwnedModel):
    """One line of an account's ledger. Written once by ``ledger`` and never changed; corrections are new entries."""

    kept = Kept("ledger", BOOKS)

    class Type(models.TextChoices):
        CREDIT_PURCHASE = "CREDIT_PURCHASE"
        USAGE_DEBIT = "USAGE_DEBIT"
        SUPPORT_CREDIT = "SUPPORT_CREDIT"
        REFUND_DEBIT = "REFUND_DEBIT"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="entries", db_index=False)
    seq = models.BigIntegerField(help_text="1, 2, 3 ... without gaps within the account.")
    type = models.CharField(max_length=20, choices=Type.choices)
    amount_nanos = models.BigIntegerField()
    balance_after_nanos = models.BigIntegerField()
    reference = models.CharField(
        max_length=255, unique=True, db_collation="C", help_text="The business fact this entry books, once."
    )
    metadata = models.JSONField(default=dict)
    spender = models.CharField(max_length=64, null=True, blank=True, help_text="Of usage: an id of whoever spent it.")
    issued_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    created_at = models.DateTimeField(db_default=Now())
    hash = models.BinaryField(null=True, help_text="SHA-256 over the entry and all before it, by a trigger: ``billing.proof``.")

    class Meta:
        verbose_name_plural = "ledger entries"
        constraints = [
            *must_hold(
                seq_counts_from_one=Q(seq__gte=1),
                credits_add_and_debits_take=Q(type__in=["CREDIT_PURCHASE", "SUPPORT_CREDIT"], amount_nanos__gt=0)
                | Q(type="REFUND_DEBIT", amount_nanos__lt=0)
                | Q(type="USAGE_DEBIT", amount_nanos__lte=0),
                only_usage_has_a_spender=Q(spender__isnull=True) | Q(type="USAGE_DEBIT"),
            ),
            models.UniqueConstraint(fields=["account", "seq"], name="a_place_in_the_book_is_taken_once"),
        ]
        indexes = [
            models.Index(fields=["account", "spender", "seq"], condition=Q(spender__isnull=False), name="entries_by_spender"),
            # Without the many usage entries, so that debits do not update it; ``ledger.reading`` skips entries with it.
            models.Index(fields=["account", "type", "seq"], condition=~Q(type="USAGE_DEBIT"), name="entries_beside_usage"),
            # Finds payments by their ids. Without usage, for the same reason.
            GinIndex(fields=["metadata"], condition=~Q(type="USAGE_DEBIT"), name="entries_by_metadata"),
            models.Index(fields=["issued_by"], condition=Q(issued_by__isnull=False), name="entries_by_issuer"),
            models.Index(fields=["id"], condition=~Q(type="USAGE_DEBIT"), name="entries_beside_usage_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.title} {self.reference}"

    @property
    def amount_cents(self) -> int:
        """The amount as the API reports it."""
        return money.entry_cents(amount_nanos=self.amount_nanos, balance_after_nanos=self.balance_after_nanos)

    # By the beginning of the reference.
    _TITLES: ClassVar = {"overcharge": "Usage given back", "unrefund": "Refund returned", "trial": "Trial credit"}

    @property
    def title(self) -> str:
        """The kind of the entry, as people read it."""
        if title := self._TITLES.get(self.reference.partition(":")[0]):
            return title
        return {
            self.Type.CREDIT_PURCHASE: "Payment",
            self.Type.USAGE_DEBIT: "Usage",
            self.Type.SUPPORT_CREDIT: "Support credit",
            self.Type.REFUND_DEBIT: "Refund",
        }[self.Type(self.type)]


class ManualEntry(ReferredModel):
    """Who booked an entry that no payment at a processor explains, and what it was: staff, or an operator's command.

    ``ledger`` writes it with the entry, and it is never changed. The audit compares the two.
    """

    kept = Kept("It is the second record of entries that staff booked.", BOOKS)
    reference_kind = Reference.Kind.ENTRY
    reference_field = "reference"
    reference_condition = "NOT starts_with(reference, 'overcharge:')"  # which names a completion, and so its account
    entry = models.OneToOneField(LedgerEntry, primary_key=True, on_delete=models.PROTECT, related_name="manual_entry")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False)
    type = models.CharField(max_length=20)
    amount_nanos = models.BigIntegerField()
    reference = models.CharField(max_length=255, db_collation="C")
    metadata = models.JSONField(default=dict)
    issued_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    operator = models.CharField(max_length=200, blank=True, help_text="Of a command: the user and the host that ran it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ()
        constraints = must_hold(
            a_manual_entry_names_who_booked_it=Q(issued_by__isnull=False, operator="")
            | (Q(issued_by__isnull=True) & ~Q(operator=""))
        )


class Hold(OwnedModel):
    """Money reserved for one completion, whose id is its reference. Resolved once; a resolved hold is never changed."""

    kept = Kept("Requests have what became of it.", BOOKS)

    class State(models.TextChoices):
        HELD = "HELD"
        SETTLED = "SETTLED"
        RELEASED = "RELEASED"
        EXPIRED = "EXPIRED"

    reference = models.CharField(max_length=64, primary_key=True, db_collation="C")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="holds", db_index=False)
    amount_nanos = models.BigIntegerField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.HELD)
    settled_nanos = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = must_hold(
            a_hold_is_never_negative=Q(amount_nanos__gte=0),
            no_more_is_settled_than_was_held=Q(settled_nanos__isnull=True)
            | Q(settled_nanos__gte=0, settled_nanos__lte=F("amount_nanos")),
            only_a_settled_hold_says_what_it_cost=Q(state="SETTLED", settled_nanos__isnull=False)
            | (~Q(state="SETTLED") & Q(settled_nanos__isnull=True)),
            a_hold_is_open_until_it_is_resolved=Q(state="HELD", resolved_at__isnull=True)
            | (~Q(state="HELD") & Q(resolved_at__isnull=False)),
        )
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(state="HELD"), name="open_holds_by_expiry"),
            models.Index(fields=["account"], condition=Q(state="HELD"), name="open_holds_by_account"),
            # Of those that cost nothing, which are few. The others are found by their ledger entries.
            models.Index(
                fields=["account", "resolved_at"], condition=Q(state__in=["RELEASED", "EXPIRED"]), name="failed_holds_by_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reference}, {self.state_in_words}"

    @property
    def state_in_words(self) -> str:
        return "open" if self.state == self.State.HELD else self.state.lower()
