"""The table of the activity log."""

from django.conf import settings
from django.db import connection, models
from django.db.models.functions import Now

from gateway_project.db import cell


class Activity(models.Model):
    """One act of a person, or of the gateway itself. Written by ``log`` with the act, and never changed."""

    class Act(models.TextChoices):
        ADDED = "ADDED", "added"
        CHANGED = "CHANGED", "changed"
        DELETED = "DELETED", "deleted"
        CREDITED = "CREDITED", "credited"
        CREDIT_REQUESTED = "CREDIT_REQUESTED", "requested a credit"
        CREDIT_DECLINED = "CREDIT_DECLINED", "declined a request"
        OWNER_REQUESTED = "OWNER_REQUESTED", "requested an owner"
        SECOND_FACTOR_REQUESTED = "SECOND_FACTOR_REQUESTED", "requested the removal of a second factor"
        SECOND_FACTOR_REMOVED = "SECOND_FACTOR_REMOVED", "approved the removal of a second factor"
        CORRECTED = "CORRECTED", "corrected a credit"
        PURCHASED = "PURCHASED", "booked a payment"
        REFUNDED = "REFUNDED", "booked a refund"
        CLOSED = "CLOSED", "closed an account"
        MOVED = "MOVED", "moved an account"
        ERASED = "ERASED", "erased personal data"
        REOPENED = "REOPENED", "reopened an account"
        HANDED_OVER = "HANDED_OVER", "handed a ticket over"
        KEY_MADE = "KEY_MADE", "created a key"
        KEY_LIMITED = "KEY_LIMITED", "set a spending limit"
        KEY_RAISED = "KEY_RAISED", "raised a spending limit temporarily"
        KEY_RATED = "KEY_RATED", "set rates"
        KEY_CHANGED = "KEY_CHANGED", "changed a key"
        KEY_PAUSED = "KEY_PAUSED", "paused a key"
        KEY_RESUMED = "KEY_RESUMED", "resumed a key"
        KEY_ROTATED = "KEY_ROTATED", "rotated a key"
        KEY_REVOKED = "KEY_REVOKED", "revoked a key"
        BUDGET_SET = "BUDGET_SET", "set a monthly budget"
        BUDGET_DELETED = "BUDGET_DELETED", "deleted a monthly budget"
        MANAGEMENT_KEY_MADE = "MANAGEMENT_KEY_MADE", "created a management key"
        MANAGEMENT_KEY_REVOKED = "MANAGEMENT_KEY_REVOKED", "revoked a management key"
        OWN_KEY_ADDED = "OWN_KEY_ADDED", "added a provider key"
        OWN_KEY_CHECKED = "OWN_KEY_CHECKED", "checked a provider key"
        OWN_KEY_CHANGED = "OWN_KEY_CHANGED", "changed a provider key"
        OWN_KEY_REMOVED = "OWN_KEY_REMOVED", "removed a provider key"
        PASSWORD_CHANGED = "PASSWORD_CHANGED", "changed a password"
        UNBLOCKED = "UNBLOCKED", "unblocked a sign-in"
        INVITED = "INVITED", "sent a password link"
        INVITATION_REVOKED = "INVITATION_REVOKED", "revoked a password link"
        MEMBER_INVITED = "MEMBER_INVITED", "invited a member"
        MEMBER_UNINVITED = "MEMBER_UNINVITED", "revoked an invitation"
        MEMBER_JOINED = "MEMBER_JOINED", "joined an account"
        MEMBER_CHANGED = "MEMBER_CHANGED", "changed a member's role"
        MEMBER_REMOVED = "MEMBER_REMOVED", "ended a membership"
        PRICED = "PRICED", "set a price"
        PRICE_REQUESTED = "PRICE_REQUESTED", "requested a price"
        CALLED = "CALLED", "called a route by hand"
        DECIDED = "DECIDED", "decided on a proposal"
        PAYMENT_BEGUN = "PAYMENT_BEGUN", "started a payment"
        PAYMENT_CANCELLED = "PAYMENT_CANCELLED", "cancelled a payment"
        TOP_UP_CHANGED = "TOP_UP_CHANGED", "changed the automatic top-up"
        BILLING_CHANGED = "BILLING_CHANGED", "changed billing details"
        THRESHOLD_SET = "THRESHOLD_SET", "changed the alert settings"
        EMAILS_CHANGED = "EMAILS_CHANGED", "changed which emails are sent"
        ENDPOINT_MADE = "ENDPOINT_MADE", "created a webhook"
        ENDPOINT_CHANGED = "ENDPOINT_CHANGED", "changed a webhook"
        ENDPOINT_DELETED = "ENDPOINT_DELETED", "deleted a webhook"
        ENDPOINT_TESTED = "ENDPOINT_TESTED", "tested a webhook"
        WARNING_REPEATED = "WARNING_REPEATED", "sent an alert again"
        DATA_EXPORTED = "DATA_EXPORTED", "asked for an export of all data"
        EXPORTED = "EXPORTED", "exported the log"
        USAGE_EXPORTED = "USAGE_EXPORTED", "downloaded usage"

    at = models.DateTimeField(db_default=Now(), editable=False)
    act = models.CharField(max_length=30)  # no choices: a new act needs no migration
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        help_text="Empty: a program, or a command of an operator.",
    )
    program = models.CharField(
        max_length=200, blank=True, db_default="", help_text="The management key by which a program acted, if it was one."
    )
    account_id = models.UUIDField(null=True, help_text="The account that the act concerns, if it is one.")
    object_type = models.CharField(max_length=100, help_text="What kind of row was changed, such as keys.apikey.")
    object_id = models.CharField(max_length=255)
    object_text = models.CharField(max_length=200)
    summary = models.TextField(help_text="What was done, as a sentence.")
    before = models.JSONField(null=True, help_text="The old values, by field.")
    after = models.JSONField(null=True, help_text="The new values, by field.")
    reason = models.TextField(blank=True)
    ticket = models.CharField(max_length=100, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    address = models.GenericIPAddressField(null=True)

    class Meta:
        verbose_name = "act"
        verbose_name_plural = "activity"
        permissions = [("export_activity", "Can download the activity log")]
        indexes = [
            models.Index(
                fields=["account_id", "-id"], condition=models.Q(account_id__isnull=False), name="activity_by_account"
            ),
            models.Index(fields=["object_type", "object_id", "-id"], name="activity_by_object"),
            models.Index(fields=["actor", "-id"], name="activity_by_actor"),
            models.Index(fields=["-id"], condition=models.Q(account_id__isnull=True), name="activity_beside_accounts"),
        ]

    def __str__(self) -> str:
        return self.summary

    @property
    def who(self) -> str:
        """Who did it, in words."""
        return self.actor.email if self.actor else self.program or "an operator's command"


class SentForm(models.Model):
    """The token of a form that was acted on: a form that is sent twice does its act once."""

    token = models.CharField(max_length=22, primary_key=True, db_collation="C")
    at = models.DateTimeField(db_default=Now(), editable=False)

    @staticmethod
    def use(token: str) -> bool:
        """Store the token of a form, in the transaction of its act. Return False if it was acted on before."""
        assert connection.in_atomic_block
        statement = "INSERT INTO activity_sentform (token) VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1"
        return bool(cell.execute(statement, [token]))
