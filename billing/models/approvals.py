"""Acts of staff that wait for a second person."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from billing.models.accounts import Account
from billing.models.ledger import LedgerEntry
from billing.models.people import User
from gateway_project import identifiers
from gateway_project.db.constraints import must_hold
from gateway_project.db.owned import EVIDENCE, NOTES_OF_STAFF, Kept, OwnedModel
from gateway_project.text import dollars


class WaitingAct(models.Model):
    """An act of staff that waits for a second person, or was decided. Written by ``approvals``.

    Decided once, and not by who asked for it; triggers refuse to change anything else, and to delete a row.
    """

    class Decision(models.TextChoices):
        APPROVED = "APPROVED", "approved"
        DECLINED = "DECLINED", "declined"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    reason = models.CharField(max_length=500)
    ticket = models.CharField(max_length=100, blank=True)
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField(db_default=Now(), editable=False)
    decision = models.CharField(max_length=8, choices=Decision.choices, blank=True, default="")
    decided_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.CharField(max_length=500, blank=True)
    seen = models.JSONField(
        default=dict, db_default={}, editable=False, help_text="By name, the state of what it is about when it was asked for."
    )

    class Meta:
        abstract = True

    @property
    def what(self) -> str:
        """The object of a request, such as "credit of $200.00"."""
        raise NotImplementedError

    @property
    def target(self) -> models.Model:
        """The object of the act, under which the activity log records it."""
        raise NotImplementedError


class AccountAct(WaitingAct, OwnedModel):
    """One that is done to an account."""

    kept = Kept(NOTES_OF_STAFF, EVIDENCE)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+")

    class Meta:
        abstract = True

    @property
    def target(self) -> Account:
        return self.account


IS_DECIDED_WHOLLY = Q(decision="", decided_by__isnull=True, decided_at__isnull=True) | Q(
    decision__in=["APPROVED", "DECLINED"], decided_by__isnull=False, decided_at__isnull=False
)

IS_APPROVED_BY_ANOTHER = ~Q(decision="APPROVED") | ~Q(decided_by=F("requested_by"))


class CreditRequest(AccountAct):
    """A credit that waits for a second person: SUPPORT_CREDIT, or a payment by bank transfer. Written by ``support_credit``."""

    class Kind(models.TextChoices):
        SUPPORT_CREDIT = "SUPPORT_CREDIT", "credit"
        CREDIT_PURCHASE = "CREDIT_PURCHASE", "payment by bank transfer"

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="credit_requests")
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="credit_requests")
    kind = models.CharField(
        max_length=20, choices=Kind.choices, default=Kind.SUPPORT_CREDIT, db_default=Kind.SUPPORT_CREDIT, editable=False
    )
    reference = models.CharField(max_length=64, unique=True, db_collation="C", help_text="Of the form that asked for it.")
    amount_cents = models.BigIntegerField()
    payment_id = models.CharField(max_length=200, blank=True, default="", db_default="", help_text="The bank's, of a payment.")
    entry = models.OneToOneField(LedgerEntry, null=True, on_delete=models.PROTECT, related_name="credit_request")

    class Meta:
        default_permissions = ("view",)
        permissions = [("approve_support_credit", "Can approve a SUPPORT_CREDIT that somebody else asks for")]
        constraints = must_hold(
            a_credit_is_asked_for_in_whole_cents=Q(amount_cents__gte=1),
            nobody_approves_what_they_asked_for=IS_APPROVED_BY_ANOTHER,
            a_credit_waits_until_it_is_decided=IS_DECIDED_WHOLLY,
            only_an_approved_credit_is_booked=Q(decision="APPROVED", entry__isnull=False)
            | (~Q(decision="APPROVED") & Q(entry__isnull=True)),
            a_payment_that_waits_has_the_banks_id=Q(kind="SUPPORT_CREDIT", payment_id="")
            | (Q(kind="CREDIT_PURCHASE") & ~Q(payment_id="")),
        )
        indexes = [models.Index(fields=["requested_by"], condition=Q(decision=""), name="waiting_credits_by_requester")]

    def __str__(self) -> str:
        return f"{dollars.format_cents(self.amount_cents)} for {self.account}"

    @property
    def what(self) -> str:
        return f"{self.Kind(self.kind).label} of {dollars.format_cents(self.amount_cents)}"


class OwnerRequest(AccountAct):
    """Someone whom staff want to make an owner of an account, which waits for a second person. See ``people_requests``."""

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")

    class Meta:
        default_permissions = ("view",)
        constraints = [
            *must_hold(
                nobody_approves_an_owner_they_asked_for=IS_APPROVED_BY_ANOTHER,
                an_owner_waits_until_it_is_decided=IS_DECIDED_WHOLLY,
            ),
            models.UniqueConstraint(
                fields=["account", "user"], condition=Q(decision=""), name="an_owner_is_asked_for_once_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} as an owner of {self.account}"

    @property
    def what(self) -> str:
        return f"membership of {self.user} as an owner"


class SecondFactorRequest(AccountAct):
    """A lost second factor that support wants to remove, which waits for a second person. See ``people_requests``."""

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")

    class Meta:
        verbose_name = "lost phone"
        default_permissions = ("view",)
        permissions = [("remove_second_factor", "Can approve the removal of somebody's two-factor authentication")]
        constraints = [
            *must_hold(
                nobody_approves_a_removal_they_asked_for=IS_APPROVED_BY_ANOTHER,
                a_removal_waits_until_it_is_decided=IS_DECIDED_WHOLLY,
            ),
            models.UniqueConstraint(fields=["user"], condition=Q(decision=""), name="a_removal_is_asked_for_once_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"second factor of {self.user}"

    @property
    def what(self) -> str:
        return f"removal of the two-factor authentication of {self.user}"
