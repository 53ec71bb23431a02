"""The support page of credits that wait for a second person."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from billing import approvals, support_credit
from billing.approval_admin import WaitingActAdmin
from billing.models import CreditRequest, User
from billing.support_credit import RequestedCredit
from gateway_project import dollars
from gateway_project.activity.admin_pages import RecordedAdmin
from gateway_project.activity.models import Activity

_BOOKED = "booked"


def record_request(page: RecordedAdmin, request: HttpRequest, asked: RequestedCredit) -> None:
    """Record that somebody asked for a credit, and tell that person what becomes of it. In the transaction that asked."""
    found = asked.request
    if asked.is_new:
        after = {"request": str(found.pk), "amountInCents": found.amount_cents}
        details = {"after": after, "reason": found.reason, "ticket": found.ticket}
        page.record(request, Activity.Act.CREDIT_REQUESTED, found.account, f"Asked for a {found.what}.", **details)
        messages.success(request, format_html("{} Nothing is credited until a colleague approves it.", _linked(found)))
    else:
        messages.warning(request, format_html("{} Nothing was added.", _linked(found)))


def _linked(asked: CreditRequest) -> str:
    address = reverse("admin:billing_creditrequest_change", args=[asked.pk])
    return format_html('<a href="{}">A {}</a> {}.', address, asked.what, approvals.describe_state(asked, _BOOKED))


@admin.register(CreditRequest)
class CreditRequestAdmin(WaitingActAdmin):
    approve_permission = "billing.approve_support_credit"
    approve_template = "admin/billing/creditrequest/approve.html"
    approved_as = _BOOKED
    list_display = ("requested_at", "account", "amount", "kind", "reason", "ticket", "requested_by", "state")
    search_fields = ("requested_by__email__exact", "account__name", "ticket__exact", "payment_id__exact")
    search_help_text = "Requester's email address, account name, ticket, or the bank's ID of a payment."
    fields = (
        *("account", "amount", "kind", "payment_id", "reason", "ticket", "requested_by", "requested_at"),
        *("state", "decided_by", "decided_at", "decision_reason", "entry"),
    )

    @admin.display(description="amount", ordering="amount_cents")
    def amount(self, asked: CreditRequest) -> str:
        return dollars.format_cents(asked.amount_cents)

    def refusal(self, asked: CreditRequest, by: User) -> str:
        return support_credit.approval_refusal(asked, by)

    def facts(self, asked: CreditRequest) -> dict[str, str]:
        return {"amount": self.amount(asked), "balance": dollars.format_usd(asked.account.balance_nanos)}

    def approve(self, request: HttpRequest, asked: CreditRequest, by: User) -> tuple[Activity.Act, dict[str, Any], str]:
        entry = support_credit.approve(asked.pk, by=by).entry
        is_support = asked.kind == CreditRequest.Kind.SUPPORT_CREDIT
        act = Activity.Act.CREDITED if is_support else Activity.Act.PURCHASED
        values = {"entry": str(entry.pk), "amountInCents": asked.amount_cents}
        return act, values, f"The balance is {dollars.format_usd(entry.balance_after_nanos)}."
