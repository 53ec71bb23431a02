"""Accounts that close, and exports of their data."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from billing.models.accounts import Account
from billing.models.people import User
from gateway_project import identifiers
from gateway_project.db.constraints import must_hold
from gateway_project.db.owned import DELETED, Kept, OwnedModel


class AccountClosing(OwnedModel):
    """The promises to an owner about a closed account, which an owner or staff closed, until it is undone or kept."""

    kept = Kept("closings", "It stays: it says when what was erased.")
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="closings")
    closed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    closed_at = models.DateTimeField(db_default=Now(), editable=False)
    is_refunded = models.BooleanField(help_text="Whether unused purchases are paid back; else they are forfeited.")
    refunded_at = models.DateTimeField(null=True, help_text="When all that the processor can pay back was paid back.")
    erase_at = models.DateTimeField(help_text="When personal data is erased, unless the closing is undone before.")
    erased_at = models.DateTimeField(null=True)
    undone_at = models.DateTimeField(null=True)
    kept_closed_at = models.DateTimeField(null=True, help_text="Since when only staff can open the account again, if so.")

    class Meta:
        default_permissions = ("view",)
        constraints = [
            *must_hold(what_is_erased_is_not_undone=Q(undone_at=None) | Q(erased_at=None)),
            models.UniqueConstraint(
                fields=["account"], condition=Q(undone_at=None, erased_at=None), name="an_account_is_closed_once_at_a_time"
            ),
        ]

    @property
    def is_being_refunded(self) -> bool:
        """Whether what is left is on its way back."""
        return self.is_refunded and self.refunded_at is None


class AccountExport(OwnedModel):
    """All data of an account as one ZIP file, asked for by an owner, made in the background, and kept for some days."""

    kept = Kept("exports", DELETED)

    class State(models.TextChoices):
        WAITING = "WAITING", "Being prepared"
        READY = "READY", "Ready"
        FAILED = "FAILED", "Too large"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="exports")
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(db_default=Now(), editable=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    claimed_until = models.DateTimeField(null=True, help_text="Until then a worker makes it.")
    size_bytes = models.BigIntegerField(default=0)
    ready_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True, help_text="When its file is deleted.")

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["account"], condition=Q(state="WAITING"), name="an_export_is_made_once_at_a_time")
        ]

    def __str__(self) -> str:
        return f"export of {self.account}"


class ExportPart(OwnedModel):
    """A part of the file of an export. All hosts can read it, and it is deleted with the export."""

    kept = Kept("It is a part of such a file.", DELETED)
    export = models.ForeignKey(AccountExport, on_delete=models.CASCADE, related_name="parts", db_index=False)
    number = models.IntegerField()
    content = models.BinaryField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["export", "number"], name="a_part_of_a_file_has_a_place")]
