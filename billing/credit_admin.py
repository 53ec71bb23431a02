"""The support pages of credits that wait for a second person: one list, and pages that approve and decline."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Case, F, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html

from billing import money, support_credit
from billing.forms import DeclineForm
from billing.models import CreditRequest
from billing.people_admin import staff_of
from billing.sign_in import mails
from billing.support_credit import CreditRefused, RequestedCredit
from gateway_project import dollars
from gateway_project.activity.admin_pages import ActionsMixin, ReadOnlyAdmin, RecordedAdmin
from gateway_project.activity.models import Activity

_APPROVE = "billing.approve_support_credit"


def record_request(page: RecordedAdmin, request: HttpRequest, asked: RequestedCredit) -> None:
    """Record that somebody asked for a credit, and tell that person what becomes of it. In the transaction that asked."""
    found = asked.request
    if asked.is_new:
        after = {"request": str(found.pk), "amountInCents": found.amount_cents}
        text = f"Asked for a credit of {_amount(found)}."
        details = {"after": after, "reason": found.reason, "ticket": found.ticket}
        page.record(request, Activity.Act.CREDIT_REQUESTED, found.account, text, **details)
        messages.success(request, format_html("{} Nothing is credited before a colleague approves it.", _linked(found)))
    else:
        messages.warning(request, format_html("{} Nothing was added.", _linked(found)))


def _linked(asked: CreditRequest) -> str:
    address = reverse("admin:billing_creditrequest_change", args=[asked.pk])
    return format_html('<a href="{}">A credit of {}</a> {}.', address, _amount(asked), describe_state(asked))


def describe_state(asked: CreditRequest) -> str:
    """Return the state in words, as a predicate: "waits for approval"."""
    if asked.decision == CreditRequest.Decision.APPROVED:
        return "is approved and booked"
    if asked.decision == CreditRequest.Decision.DECLINED:
        return "is declined"
    is_waiting = support_credit.waiting().filter(pk=asked.pk).exists()
    return "waits for approval" if is_waiting else "was not decided in time"


def _amount(asked: CreditRequest) -> str:
    return dollars.format_usd(money.nanos(asked.amount_cents))


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "Waits for approval"), ("approved", "Approved"), ("declined", "Declined")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[CreditRequest]) -> QuerySet[CreditRequest]:
        if self.value() == "waiting":
            return queryset.filter(pk__in=support_credit.waiting().values("pk"))
        return queryset.filter(decision=self.value().upper()) if self.value() else queryset  # type: ignore[union-attr]


@admin.register(CreditRequest)
class CreditRequestAdmin(ActionsMixin, ReadOnlyAdmin):
    """Those that wait come first. Staff who may approve decide on them; who asked can take it back."""

    change_form_template = "admin/billing/creditrequest/change_form.html"
    list_display = ("requested_at", "account", "amount", "reason", "ticket", "requested_by", "state")
    list_filter = (StateFilter,)
    list_select_related = ("account", "requested_by")
    search_fields = ("requested_by__email__exact", "account__name", "ticket__exact")
    search_help_text = "Who asked (an e-mail address), the account's name, or a ticket."
    fields = (
        *("account", "amount", "reason", "ticket", "requested_by", "requested_at"),
        *("state", "decided_by", "decided_at", "decision_reason", "entry"),
    )
    ordering = (Case(When(decision="", then=0), default=1), F("id").desc())

    @admin.display(description="amount", ordering="amount_cents")
    def amount(self, asked: CreditRequest) -> str:
        return _amount(asked)

    @admin.display(description="state", ordering="decision")
    def state(self, asked: CreditRequest) -> str:
        return describe_state(asked)

    def get_urls(self) -> list[URLPattern]:
        views = {"approve": self.approve_view, "decline": self.decline_view}
        return [
            *(
                path(f"<uuid:object_id>/{name}/", self.admin_site.admin_view(view), name=f"billing_creditrequest_{name}")
                for name, view in views.items()
            ),
            *super().get_urls(),
        ]

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        asked = self.get_object(request, object_id)
        may = {"may_approve": False, "may_decline": False}
        if asked is not None and not asked.decision:
            may_decide, is_own = request.user.has_perm(_APPROVE), asked.requested_by == request.user
            may = {"may_approve": may_decide and not is_own, "may_decline": may_decide or is_own}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **may})

    def approve_view(self, request: HttpRequest, object_id: Any) -> HttpResponse:
        """Show what is asked for, by whom, and what stands against it. A POST books it; a second one is told of the first."""
        asked = self.object_for(request, str(object_id), _APPROVE)
        if request.method == "POST":
            self._approve(request, asked)
            return self.back_to(asked)
        refusal = support_credit.approval_refusal(asked, staff_of(request))
        context = {"refusal": refusal, "amount": _amount(asked), "balance": dollars.format_usd(asked.account.balance_nanos)}
        return self.show_action(request, "admin/billing/creditrequest/approve.html", "Approve the credit", asked, **context)

    def _approve(self, request: HttpRequest, asked: CreditRequest) -> None:
        try:
            with transaction.atomic():
                entry = support_credit.approve(asked.pk, by=staff_of(request)).entry
                text = f"Approved the credit of {_amount(asked)} that {asked.requested_by} asked for, entry {entry.pk}."
                after = {"entry": str(entry.pk), "amountInCents": asked.amount_cents, "request": str(asked.pk)}
                details = {"after": after, "reason": asked.reason, "ticket": asked.ticket}
                self.record(request, Activity.Act.CREDITED, asked.account, text, **details)
                self._tell(asked, f"It is approved and booked. The balance is {dollars.format_usd(entry.balance_after_nanos)}.")
        except CreditRefused as refusal:
            messages.error(request, str(refusal))
        else:
            balance = dollars.format_usd(entry.balance_after_nanos)
            messages.success(request, f"{_amount(asked)} credited to {asked.account}. The balance is {balance}.")

    def decline_view(self, request: HttpRequest, object_id: Any) -> HttpResponse:
        """Ask why; a POST declines. Who asked for the credit takes it back here."""
        is_own = CreditRequest.objects.filter(pk=object_id, requested_by=staff_of(request)).exists()
        asked = self.object_for(request, str(object_id), "billing.view_creditrequest" if is_own else _APPROVE)
        form = DeclineForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            self._decline(request, asked, form.cleaned_data["reason"])
            return self.back_to(asked)
        context = {"form": form, "amount": _amount(asked), "is_own": is_own}
        return self.show_action(request, "admin/billing/creditrequest/decline.html", "Decline the credit", asked, **context)

    def _decline(self, request: HttpRequest, asked: CreditRequest, reason: str) -> None:
        try:
            with transaction.atomic():
                support_credit.decline(asked.pk, by=staff_of(request), reason=reason)
                text = f"Declined the credit of {_amount(asked)} that {asked.requested_by} asked for."
                details = {"reason": reason, "ticket": asked.ticket}
                self.record(request, Activity.Act.CREDIT_DECLINED, asked.account, text, **details)
                if asked.requested_by != request.user:
                    self._tell(asked, f"It is declined. The reason: {reason}")
        except CreditRefused as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, f"The credit of {_amount(asked)} is declined. Nothing was booked.")

    def _tell(self, asked: CreditRequest, outcome: str) -> None:
        """Send a mail to who asked, once the decision is committed. The list shows it, too."""
        if settings.SENDS_MAIL:
            facts = {"amount": _amount(asked), "account": str(asked.account), "outcome": outcome}
            transaction.on_commit(lambda: mails.send(asked.requested_by.email, "credit_decided", **facts))
