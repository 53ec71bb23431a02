"""News for members: alerts, their deliveries, and webhook endpoints."""

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KT
from django.db.models.functions import Now

from billing.models.accounts import Account
from gateway_project import identifiers
from gateway_project.db.constraints import must_hold
from gateway_project.db.owned import DELETED, Kept, OwnedModel
from gateway_project.text import web_addresses


class AccountAlert(OwnedModel):
    """News for members: written in the transaction in which it happened, and never changed but by ``prepared_at``."""

    kept = Kept("alerts", DELETED)

    class Kind(models.TextChoices):
        BALANCE_LOW = "BALANCE_LOW", "The balance is low"
        KEY_NEAR_LIMIT = "KEY_NEAR_LIMIT", "A key has spent most of its limit"
        KEY_AT_LIMIT = "KEY_AT_LIMIT", "A key reached its limit"
        KEY_HOUR_UNUSUAL = "KEY_HOUR_UNUSUAL", "A key spends far more than usual"
        RUN_NEAR_BUDGET = "RUN_NEAR_BUDGET", "A run has spent most of its budget"
        RUN_AT_BUDGET = "RUN_AT_BUDGET", "A run reached its budget"
        MONTH_NEAR_BUDGET = "MONTH_NEAR_BUDGET", "Most of a monthly budget is spent"
        MONTH_AT_BUDGET = "MONTH_AT_BUDGET", "A monthly budget is reached"
        TOP_UP_STOPPED = "TOP_UP_STOPPED", "The automatic top-up stopped"
        PAYMENT_TAKEN_BACK = "PAYMENT_TAKEN_BACK", "A payment was taken back"
        PRICE_CHANGED = "PRICE_CHANGED", "A price changes"
        MODEL_ENDS = "MODEL_ENDS", "A model ends or has a successor"
        TEST = "TEST", "A test"
        # Mailed, and neither shown as alerts nor sent to webhooks:
        PAYMENT_BOOKED = "PAYMENT_BOOKED", "A payment was booked"
        CREDIT_BOOKED = "CREDIT_BOOKED", "Credit was added"
        CREDIT_TAKEN_BACK = "CREDIT_TAKEN_BACK", "Credit was taken back"
        CHANGES_SUMMED = "CHANGES_SUMMED", "What changes of models, once a day"

    NOTICES = (Kind.PAYMENT_BOOKED, Kind.CREDIT_BOOKED, Kind.CREDIT_TAKEN_BACK, Kind.CHANGES_SUMMED)
    OF_RUNS = (Kind.RUN_NEAR_BUDGET, Kind.RUN_AT_BUDGET)
    SUMMED = (Kind.PRICE_CHANGED, Kind.MODEL_ENDS)  # mailed by CHANGES_SUMMED

    id = models.UUIDField(primary_key=True, db_default=RandomUUID(), editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="alerts", db_index=False)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    data = models.JSONField(help_text="The facts as they were then; amounts in nanodollars.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    prepared_at = models.DateTimeField(null=True, help_text="When its deliveries were written.")

    class Meta:
        db_table = "billing_accountwarning"  # as the table, indexes and permission were called first
        default_permissions = ()
        permissions = [("view_accountwarning", "Can view account warning")]
        indexes = [
            models.Index(fields=["account", "-created_at"], name="warnings_by_account"),
            models.Index(fields=["created_at"], name="warnings_by_time"),
            models.Index(fields=["created_at"], condition=Q(prepared_at__isnull=True), name="warnings_to_prepare"),
            models.Index(KT("data__model"), condition=Q(kind__in=["PRICE_CHANGED", "MODEL_ENDS"]), name="warnings_by_model"),
        ]

    def __str__(self) -> str:
        return self.get_kind_display()


class EmailChoice(OwnedModel):
    """Which emails about money and models the members of an account get. Without a row they get all."""

    kept = Kept("emails", DELETED)
    account = models.OneToOneField(Account, primary_key=True, on_delete=models.PROTECT, related_name="email_choice")
    receipts = models.BooleanField("Receipts of payments and automatic top-ups", default=True, db_default=True)
    credits = models.BooleanField("Credits from support", default=True, db_default=True)
    refunds = models.BooleanField("Refunds, disputes and corrections", default=True, db_default=True)
    changes = models.BooleanField("Prices that change, and models that end", default=True, db_default=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"emails of {self.account_id}"


class WebhookEndpoint(OwnedModel):
    """An address of the account's own that alerts are posted to, signed with a secret. Written by ``alerts.endpoints``."""

    kept = Kept("webhooks", DELETED)
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="webhook_endpoints")
    url = models.CharField(max_length=500)
    sealed_secret = models.CharField(max_length=500, help_text="Encrypted by ``secretbox``.")
    sealed_previous_secret = models.CharField(max_length=500, blank=True)
    previous_until = models.DateTimeField(null=True, help_text="Until then the previous secret signs deliveries, too.")
    is_paused = models.BooleanField(default=False)
    failing_since = models.DateTimeField(null=True, help_text="When the first attempt since the last success failed.")
    disabled_at = models.DateTimeField(null=True, help_text="When it was paused because nothing could be delivered.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return web_addresses.parse(self.url).netloc  # a path may be a secret


class AlertDelivery(OwnedModel):
    """One alert on its way to one endpoint, or to one person by mail. ``alerts.deliveries`` claims and ends it."""

    kept = Kept("deliveries", DELETED)

    class State(models.TextChoices):
        WAITING = "WAITING", "Waiting"
        DELIVERED = "DELIVERED", "Delivered"
        DEAD = "DEAD", "Given up"

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    alert = models.ForeignKey(
        AccountAlert, on_delete=models.CASCADE, related_name="deliveries", db_index=False, db_column="warning_id"
    )
    endpoint = models.ForeignKey(
        WebhookEndpoint, null=True, on_delete=models.CASCADE, related_name="deliveries", help_text="Empty: by mail."
    )
    email = models.EmailField(blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    tries = models.IntegerField(default=0, help_text="Since it was sent, or sent again.")
    next_try_at = models.DateTimeField(null=True, help_text="An attempt moves it ahead, so that no two try at once.")
    attempts = models.JSONField(default=list, help_text="The last ones: when, status, milliseconds and reason.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "billing_warningdelivery"
        default_permissions = ()
        permissions = [("view_warningdelivery", "Can view warning delivery")]
        constraints = [
            *must_hold(
                a_delivery_has_one_way=Q(endpoint__isnull=False, email="") | (Q(endpoint__isnull=True) & ~Q(email="")),
                only_a_waiting_delivery_is_tried=Q(state="WAITING", next_try_at__isnull=False)
                | (~Q(state="WAITING") & Q(next_try_at__isnull=True)),
            ),
            models.UniqueConstraint(fields=["alert", "endpoint"], name="a_warning_goes_to_an_endpoint_once"),
            models.UniqueConstraint(
                fields=["alert", "email"], condition=Q(endpoint__isnull=True), name="a_warning_is_mailed_to_a_person_once"
            ),
        ]
        indexes = [models.Index(fields=["next_try_at"], condition=Q(state="WAITING"), name="deliveries_by_next_try")]
