"""The support pages of what waits for a second person: a list of each kind, and pages that approve and decline."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Case, F, QuerySet, When
from django.http import HttpRequest, HttpResponse

from billing.models import CreditRequest, OwnerRequest, SecondFactorRequest, User, WaitingAct
from billing.staff import approvals, forms, people_requests, support_credit
from billing.staff_permissions import staff_of
from gateway_project.activity import log
from gateway_project.activity.admin_pages import ReadOnlyAdmin
from gateway_project.activity.list_values import column
from gateway_project.text import dollars


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "Waits for approval"), ("approved", "Approved"), ("declined", "Declined")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "waiting":
            return queryset.filter(pk__in=approvals.waiting(queryset.model).values("pk"))
        return queryset.filter(decision=self.value().upper()) if self.value() else queryset  # type: ignore[union-attr]


class WaitingActAdmin(ReadOnlyAdmin):
    """Those that wait come first. Staff who may approve decide on them; who asked can take it back."""

    change_form_template = "admin/billing/waiting/change_form.html"
    own_pages = {"<uuid:object_id>/approve/": "approve", "<uuid:object_id>/decline/": "decline"}
    approve_template = "admin/billing/waiting/approve.html"
    approve_permission: str
    approved_as: str  # what became of an approved one, such as "booked"
    list_filter = (StateFilter,)
    list_select_related: ClassVar[tuple[str, ...]] = ("account", "requested_by")
    ordering = (Case(When(decision="", then=0), default=1), F("id").desc())

    def refusal(self, asked: Any, by: User) -> str:
        """Return why ``by`` cannot approve it, or ''."""
        raise NotImplementedError

    def approve(self, request: HttpRequest, asked: Any, by: User) -> tuple[log.Act, dict[str, Any], str]:
        """Do what is asked for. Return the act, its values and what came of it, in words. Raises ApprovalRefused."""
        raise NotImplementedError

    def facts(self, asked: Any) -> dict[str, str]:
        """Return what the page that approves shows beside the request."""
        return {}

    @admin.display(description="state", ordering="decision")
    def state(self, asked: WaitingAct) -> str:
        return approvals.describe_state(asked, self.approved_as)

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        asked = self.get_object(request, object_id)
        may = {"may_approve": False, "may_decline": False}
        if asked is not None and not asked.decision:
            may_decide, is_own = request.user.has_perm(self.approve_permission), asked.requested_by == request.user
            may = {"may_approve": may_decide and not is_own, "may_decline": may_decide or is_own}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **may})

    def approve_view(self, request: HttpRequest, object_id: Any) -> HttpResponse:
        """Show the request, its author, and any objection. A POST approves it; a second POST says who approved it."""
        asked = self.object_for(request, str(object_id), self.approve_permission)
        if request.method == "POST":
            self._approve(request, asked)
            return self.back_to(asked)
        context = {"refusal": self.refusal(asked, staff_of(request)), **self.facts(asked)}
        return self.show_action(request, self.approve_template, f"Approve the {asked.what}", asked, **context)

    def _approve(self, request: HttpRequest, asked: Any) -> None:
        try:
            with transaction.atomic():
                act, values, outcome = self.approve(request, asked, staff_of(request))
                text = f"Approved the {asked.what}."  # owners read it
                after = {**values, "request": str(asked.pk)}
                log.record(request, act, asked.target, text, after=after, reason=asked.reason, ticket=asked.ticket)
                approvals.tell_requester(asked, f"It is approved and {self.approved_as}. {outcome}")
        except approvals.ApprovalRefused as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, f"The {asked.what} for {asked.target} is approved and {self.approved_as}. {outcome}")

    def decline_view(self, request: HttpRequest, object_id: Any) -> HttpResponse:
        """Ask why; a POST declines. Who asked takes it back here."""
        self.get_object(request, str(object_id))  # enters its cell
        is_own = self.model._default_manager.filter(pk=object_id, requested_by=staff_of(request)).exists()
        view = f"{self.opts.app_label}.view_{self.opts.model_name}"
        asked = self.object_for(request, str(object_id), view if is_own else self.approve_permission)
        form = forms.DeclineForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            self._decline(request, asked, form.cleaned_data["reason"])
            return self.back_to(asked)
        context = {"form": form, "is_own": is_own}
        return self.show_action(request, "admin/billing/waiting/decline.html", f"Decline the {asked.what}", asked, **context)

    def _decline(self, request: HttpRequest, asked: Any, reason: str) -> None:
        try:
            with transaction.atomic():
                locked = approvals.lock(type(asked), asked.pk, staff_of(request).pk)
                approvals.decide(locked, approvals.Decision.DECLINED, staff_of(request), decision_reason=reason)
                text = f"Declined the {asked.what} that {asked.requested_by} asked for."
                details = {"reason": reason, "ticket": asked.ticket}
                log.record(request, log.Act.CREDIT_DECLINED, asked.target, text, **details)
                if asked.requested_by != request.user:
                    approvals.tell_requester(asked, f"It is declined. The reason: {reason}")
        except approvals.ApprovalRefused as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, f"The {asked.what} is declined. Nothing was {self.approved_as}.")


_DECISION = ("state", "decided_by", "decided_at", "decision_reason")


@admin.register(CreditRequest)
class CreditRequestAdmin(WaitingActAdmin):
    approve_permission = "billing.approve_support_credit"
    approve_template = "admin/billing/creditrequest/approve.html"
    approved_as = "booked"
    list_display = ("requested_at", "account", "amount", "kind", "reason", "ticket", "requested_by", "state")
    search_fields = ("requested_by__email__exact", "account__name", "ticket__exact", "payment_id__exact")
    search_help_text = "Requester's email address, account name, ticket, or the bank's ID of a payment."
    fields = (
        *("account", "amount", "kind", "payment_id", "reason", "ticket", "requested_by", "requested_at"),
        *(*_DECISION, "entry"),
    )
    amount = column("amount", lambda asked: dollars.format_cents(asked.amount_cents), ordering="amount_cents")
    refusal = staticmethod(support_credit.approval_refusal)

    def facts(self, asked: CreditRequest) -> dict[str, str]:
        return {"amount": self.amount(asked), "balance": dollars.format_usd(asked.account.balance_nanos)}

    def approve(self, request: HttpRequest, asked: CreditRequest, by: User) -> tuple[log.Act, dict[str, Any], str]:
        entry = support_credit.approve(asked.pk, by=by).entry
        is_support = asked.kind == CreditRequest.Kind.SUPPORT_CREDIT
        act = log.Act.CREDITED if is_support else log.Act.PURCHASED
        values = {"entry": str(entry.pk), "amountInCents": asked.amount_cents}
        return act, values, f"The balance is {dollars.format_usd(entry.balance_after_nanos)}."


@admin.register(OwnerRequest)
class OwnerRequestAdmin(WaitingActAdmin):
    approve_permission = "billing.add_membership"
    approved_as = "made"
    list_display = ("requested_at", "account", "user", "reason", "requested_by", "state")
    list_select_related = ("account", "user", "requested_by")
    search_fields = ("requested_by__email__exact", "account__name", "user__email__exact")
    search_help_text = "Email address of the requester or new owner, or the account name."
    fields = ("account", "user", "reason", "ticket", "requested_by", "requested_at", *_DECISION)
    refusal = staticmethod(people_requests.owner_refusal)

    def approve(self, request: HttpRequest, asked: OwnerRequest, by: User) -> tuple[log.Act, dict[str, Any], str]:
        membership = people_requests.approve_owner(asked.pk, by=by)
        return log.Act.MEMBER_JOINED, {"membership": membership.pk}, f"{asked.user} is an owner now."


@admin.register(SecondFactorRequest)
class SecondFactorRequestAdmin(WaitingActAdmin):
    approve_permission = "billing.remove_second_factor"
    approved_as = "removed"
    list_display = ("requested_at", "user", "account", "reason", "ticket", "requested_by", "state")
    list_select_related = ("account", "user", "requested_by")
    search_fields = ("requested_by__email__exact", "user__email__exact", "ticket__exact")
    search_help_text = "Email address of the requester or of the person, or the ticket."
    fields = ("user", "account", "reason", "ticket", "requested_by", "requested_at", *_DECISION)
    refusal = staticmethod(people_requests.removal_refusal)

    def approve(self, request: HttpRequest, asked: SecondFactorRequest, by: User) -> tuple[log.Act, dict[str, Any], str]:
        removed = people_requests.approve_removal(asked.pk, by=by)
        return log.Act.SECOND_FACTOR_REMOVED, {"removed": removed}, f"{asked.user} signs in with the password alone."
