"""The support pages of payments, the events about them, and differences from the processor's book. All are read-only."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from billing.desk.pages import possible_acts_on_entry
from billing.models import BillingDetails, Payment, PaymentDifference, PaymentEvent, TopUpRule
from billing.payments import configuration, stops, summaries
from gateway_project.activity.admin_pages import ReadOnlyAdmin
from gateway_project.activity.list_values import column
from gateway_project.text import dollars


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "account", "amount", "state", "taken_back", "intent_id")
    list_filter = ("status", "processor", "is_live")
    list_select_related = ("account",)
    search_fields = ("intent_id__exact", "session_id__exact")
    search_help_text = "The exact ID of the payment at the processor."
    fields = (
        *("id", "receipt", "account", "amount", "state", "failure", "refusal", "taken_back", "refunded", "disputed", "credit"),
        *("processor", "mode", "intent", "session", "created_by", "created_at", "paid_at", "billed_to"),
    )
    ordering = ("-id",)
    change_form_template = "admin/billing/credit_acts.html"

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        payment = self.get_object(request, object_id)
        acts = possible_acts_on_entry(request, payment.credit) if payment and payment.credit else []
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "acts": acts})

    amount = column("amount", lambda payment: dollars.format_cents(payment.amount_cents), ordering="amount_cents")
    state = column("state", lambda payment: payment.get_status_display(), ordering="status")
    mode = column("mode", lambda payment: "live" if payment.is_live else "test: no money moves")
    intent = column("payment at the processor", lambda payment: payment.intent_id, empty_value="-")
    session = column("page at the processor", lambda payment: payment.session_id, empty_value="-")
    refunded = column("refunded, as reported", lambda payment: dollars.format_cents(payment.refunded_cents))
    disputed = column("disputed, as reported", lambda payment: dollars.format_cents(payment.disputed_cents))
    taken_back = column(
        "taken back", lambda payment: dollars.format_cents(payment.debited_cents) if payment.debited_cents else "-"
    )

    @admin.display(description="receipt and invoice number", empty_value="-")
    def receipt(self, payment: Payment) -> str | None:
        return summaries.receipt_number(payment) if payment.receipt_number else None


@admin.register(BillingDetails)
class BillingDetailsAdmin(ReadOnlyAdmin):
    list_display = ("name", "account", "tax_id")
    list_select_related = ("account",)
    fields = ("account", "name", "address", "tax_id")
    ordering = ("pk",)


@admin.register(TopUpRule)
class TopUpRuleAdmin(ReadOnlyAdmin):
    list_display = ("account", "is_on", "amount_cents", "declines", "stopped", "next_try_at")
    list_filter = ("is_on",)
    list_select_related = ("account",)
    fields = (
        *("account", "is_on", "threshold_cents", "amount_cents", "month_cents_max", "card", "set_by"),
        *("card_at", "attempt", "declines", "next_try_at", "stopped"),
    )
    ordering = ("pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[TopUpRule]:
        return stops.annotate(super().get_queryset(request), configuration.processor())

    @admin.display(description="stopped because", empty_value="-")
    def stopped(self, rule: TopUpRule) -> str | None:
        stop = stops.describe(rule)
        return stop.why if stop else None


@admin.register(PaymentEvent)
class PaymentEventAdmin(ReadOnlyAdmin):
    list_display = ("received_at", "type", "outcome", "note", "payment")
    list_filter = ("outcome", "processor")
    search_fields = ("event_id__exact",)
    search_help_text = "The exact ID of the event."
    fields = ("event_id", "type", "processor", "received_at", "outcome", "note", "payment")
    ordering = ("-id",)


@admin.register(PaymentDifference)
class PaymentDifferenceAdmin(ReadOnlyAdmin):
    list_display = ("found_at", "sentence", "payment", "gone_at")
    list_filter = (("gone_at", admin.EmptyFieldListFilter),)
    fields = ("processor", "subject", "payment", "sentence", "found_at", "gone_at")
    ordering = ("-id",)
