"""Payments, what a processor says of them, and automatic top-ups."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Cast, Now, Right

from billing.models.accounts import Account
from billing.models.ledger import LedgerEntry
from billing.models.people import User
from gateway_project import identifiers
from gateway_project.cells.directory import ReferredModel
from gateway_project.cells.models import Reference
from gateway_project.db.constraints import must_hold
from gateway_project.db.owned import BOOKS, DELETED, Kept, OwnedModel

# The first part of the numbers of an account's receipts and statements.
END_OF_ACCOUNT = Right(Cast("account_id", models.TextField()), 8)


class Payment(ReferredModel):
    """An amount to pay, written before the processor hears of it: the only source of amount, currency and account.

    The processor's report is compared with it. Only ``payments.booking`` changes what is paid, refunded and booked.
    """

    kept = Kept("payments", BOOKS)

    class Status(models.TextChoices):
        OPEN = "OPEN", "Waiting for the payment"
        PROCESSING = "PROCESSING", "The bank is processing it"
        PAID = "PAID", "Paid"
        FAILED = "FAILED", "Not paid"
        EXPIRED = "EXPIRED", "Not paid in time"

    reference_kind = Reference.Kind.PAYMENT
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="payments", db_index=False)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+", db_index=False, help_text="Empty: an automatic top-up."
    )
    amount_cents = models.BigIntegerField()
    currency = models.CharField(max_length=3, default="usd")
    processor = models.CharField(max_length=20)
    is_live = models.BooleanField(help_text="Whether it moves real money: not in the processor's test mode.")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    failure = models.CharField(max_length=300, blank=True, help_text="Why it was not paid, in the processor's words.")
    refusal = models.TextField(
        blank=True, default="", db_default="", help_text="Why what was paid is not credited, to the payer; empty: it is."
    )
    session_id = models.CharField(max_length=255, null=True, unique=True, db_collation="C", help_text="The payment page's.")
    intent_id = models.CharField(max_length=255, null=True, unique=True, db_collation="C", help_text="The processor's payment.")
    page_url = models.TextField(blank=True, help_text="Where the processor takes the payment.")
    refunded_cents = models.BigIntegerField(default=0, help_text="In all, as the processor reports it.")
    disputed_cents = models.BigIntegerField(default=0, help_text="Withdrawn by banks in all, and not reinstated.")
    disputed_at = models.DateTimeField(null=True, help_text="When that last rose.")
    debited_cents = models.BigIntegerField(default=0, help_text="What of the two is booked: never above the amount.")
    debits = models.IntegerField(default=0, help_text="How often that changed; numbers the entries.")
    revision = models.IntegerField(default=0, help_text="Counts changes: an older report is not booked over a newer one.")
    credit = models.OneToOneField(LedgerEntry, null=True, on_delete=models.PROTECT, related_name="+", editable=False)
    receipt_number = models.IntegerField(null=True, help_text="1, 2, 3 ... of the account's paid payments.")
    billed_to = models.JSONField(default=dict, help_text="The account's name, address and tax id when it paid.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    paid_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True, help_text="When a page last asked the processor.")
    events_digest = models.CharField(
        max_length=64, null=True, editable=False, help_text="SHA-256 over its events, by a trigger."
    )

    class Meta:
        constraints = [
            *must_hold(
                a_payment_is_of_some_amount=Q(amount_cents__gt=0),
                a_payment_is_paid_when_it_is_credited=Q(
                    status="PAID", credit__isnull=False, receipt_number__isnull=False, paid_at__isnull=False
                )
                | (~Q(status="PAID") & Q(credit__isnull=True, receipt_number__isnull=True, paid_at__isnull=True)),
                a_refund_or_dispute_is_never_negative=Q(refunded_cents__gte=0, disputed_cents__gte=0),
                no_more_is_taken_back_than_was_paid=Q(debited_cents__gte=0, debited_cents__lte=F("amount_cents")),
                only_what_was_paid_is_taken_back=Q(status="PAID") | Q(debited_cents=0),
            ),
            models.UniqueConstraint(fields=["account", "receipt_number"], name="a_receipts_number_is_used_once"),
        ]
        indexes = [
            models.Index(fields=["account", "-id"], name="payments_by_account"),
            models.Index(fields=["created_at"], name="payments_by_time"),
            models.Index(END_OF_ACCOUNT, "receipt_number", name="payments_by_receipt"),
            models.Index(fields=["account"], condition=Q(disputed_cents__gt=0), name="disputed_payments"),
        ]

    def __str__(self) -> str:
        return f"payment {self.pk}"


class PaymentEvent(OwnedModel):
    """A signed event of the processor and what it led to. Written once, in the transaction of its effect, and never changed."""

    kept = Kept("payment_events", BOOKS)

    class Outcome(models.TextChoices):
        APPLIED = "APPLIED", "The books changed"
        UNCHANGED = "UNCHANGED", "Nothing was left to book"
        IGNORED = "IGNORED", "It is not about a payment here"
        REFUSED = "REFUSED", "It contradicts the payment"

    processor = models.CharField(max_length=20)
    event_id = models.CharField(max_length=255, db_collation="C")
    type = models.CharField(max_length=100)
    payment = models.ForeignKey(Payment, null=True, on_delete=models.PROTECT, related_name="events")
    outcome = models.CharField(max_length=10, choices=Outcome.choices)
    note = models.TextField(blank=True)
    received_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["processor", "event_id"], name="an_event_is_kept_once")]

    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class PaymentDifference(OwnedModel):
    """Where the processor's book and this one contradict each other, found by the daily reconciliation until it is gone."""

    kept = Kept("It is the processor's book beside ours, for staff.", BOOKS)
    processor = models.CharField(max_length=20)
    subject = models.CharField(max_length=255, db_collation="C", help_text="The processor's payment, or the payment here.")
    payment = models.ForeignKey(Payment, null=True, on_delete=models.PROTECT, related_name="differences")
    sentence = models.TextField(help_text="What contradicts what.")
    found_at = models.DateTimeField(db_default=Now(), editable=False)
    gone_at = models.DateTimeField(null=True, help_text="When a reconciliation did not find it any more.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["processor", "subject"], condition=Q(gone_at__isnull=True), name="a_difference_is_open_once"
            )
        ]

    def __str__(self) -> str:
        return self.sentence


class TopUpRule(OwnedModel):
    """When an account buys credit by itself, with a card that a member paid with. Changed under the lock of the account."""

    kept = Kept(
        "top_up", "It is switched off, without its card.", ("base_url", "customer_id", "method_id", "card_payment", "attempt")
    )
    account = models.OneToOneField(Account, primary_key=True, on_delete=models.PROTECT, related_name="top_up_rule")
    is_on = models.BooleanField(default=False)
    threshold_cents = models.BigIntegerField(help_text="Credit is bought when less is available.")
    amount_cents = models.BigIntegerField(help_text="How much each time.")
    month_cents_max = models.BigIntegerField(help_text="How much at most in a UTC month.")
    set_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", help_text="Who is told when it fails.")
    base_url = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Not used any more; a later release removes it."
    )
    processor = models.CharField(max_length=20)
    card_payment = models.OneToOneField(
        Payment,
        null=True,
        on_delete=models.PROTECT,
        related_name="keeps_card_for",
        help_text="Whose card is kept once it is paid.",
    )
    customer_id = models.CharField(max_length=255, blank=True)
    method_id = models.CharField(max_length=255, blank=True)
    card = models.CharField(max_length=100, blank=True, help_text="The card as people know it: Visa ending in 4242.")
    attempt = models.OneToOneField(
        Payment, null=True, on_delete=models.PROTECT, related_name="attempt_of", help_text="The one payment that is under way."
    )
    declines = models.IntegerField(default=0, help_text="In a row.")
    next_try_at = models.DateTimeField(null=True, help_text="No attempt before, after a decline.")
    card_at = models.DateTimeField(null=True, help_text="When a member last paid with it.")
    stopped_because = models.CharField(max_length=300, blank=True, help_text="Why there are no attempts any more.")
    stopped_by = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="Which of the causes in ``stops`` that is."
    )
    stop_told = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="Which cause members were last told of."
    )

    class Meta:
        constraints = must_hold(
            a_top_up_fits_in_its_month=Q(threshold_cents__gte=0, amount_cents__gt=0, month_cents_max__gte=F("amount_cents")),
            a_top_up_that_is_on_has_a_card=Q(is_on=False) | ~Q(method_id=""),
        )

    def __str__(self) -> str:
        return f"top-up of {self.account}"


class BillingDetails(OwnedModel):
    """The payer on an account's receipts. Members fill it in; a receipt keeps the payer of its time."""

    kept = Kept("account", DELETED)
    account = models.OneToOneField(Account, primary_key=True, on_delete=models.PROTECT, related_name="billing_details")
    name = models.CharField("name or company", max_length=200)
    address = models.TextField(max_length=500)
    tax_id = models.CharField("tax id", max_length=50, blank=True)

    class Meta:
        verbose_name_plural = "billing details"

    def __str__(self) -> str:
        return self.name


class InvoiceFile(OwnedModel):
    """An invoice or a credit note as it was issued. Written once by ``payments.issuing``, and never changed."""

    kept = Kept("Its page has it, and payments and credit_notes say the same.", BOOKS)
    id = models.UUIDField(primary_key=True, default=identifiers.uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="invoice_files", db_index=False)
    number = models.CharField(max_length=30)
    content = models.BinaryField(help_text="The PDF.")
    issued_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["account", "number"], name="an_invoice_is_issued_once")]
