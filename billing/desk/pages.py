"""The pages of the acts on an account, which the admin adds to the account's."""

from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_http_methods

from billing import locks, staff_permissions
from billing.desk.acts import Close, HandOver, Reopen, StaffAct
from billing.desk.money_acts import BookPurchase, CloseWithRefund, Correct, Refund, SupportCredit
from billing.ledger import credits, writer
from billing.models import Account, LedgerEntry, User
from billing.sign_in import password_links, second_factor
from billing.staff import people_requests
from billing.staff_permissions import staff_of
from gateway_project.activity.admin_pages import RecordedAdmin
from gateway_project.activity.models import SentForm
from gateway_project.desk.forms import ReasonForm, SeenForm, act_once
from gateway_project.text import dollars

_OWN_ACCOUNT = "You are a member of this account, so a colleague must do this."
OF_ACCOUNTS: list[type[StaffAct]] = [SupportCredit, BookPurchase, HandOver, Close, Reopen, CloseWithRefund]
OF_CREDITS: list[type[StaffAct]] = [Correct, Refund]


def possible_acts_on_entry(request: HttpRequest, entry: LedgerEntry) -> list[dict[str, str]]:
    """Return title and address of each act on the credit that the user may do now; none if the entry is no credit."""
    if not credits.is_credit(entry):
        return []
    acts: list[type[StaffAct]] = [] if credits.is_corrected(entry) else [Correct]
    if entry.type == LedgerEntry.Type.CREDIT_PURCHASE:
        acts.append(Refund)
    return [
        {"title": act.title, "address": reverse(f"admin:billing_account_{act.name}", args=[entry.account_id, entry.pk])}
        for act in acts
        if act.may(request, entry.account)
    ]


class AccountActPages(RecordedAdmin):
    def get_urls(self) -> list[URLPattern]:
        paths = [self._path(f"<uuid:account_id>/{act.name}/", act) for act in OF_ACCOUNTS]
        paths += [self._path(f"<uuid:account_id>/{act.name}/<uuid:entry_id>/", act) for act in OF_CREDITS]
        link = self.admin_site.admin_view(self.password_link_view)
        paths.append(path("<uuid:account_id>/password-link/<int:user_id>/", link, name="billing_account_password_link"))
        lost = self.admin_site.admin_view(self.lost_phone_view)
        paths.append(path("<uuid:account_id>/lost-phone/<int:user_id>/", lost, name="billing_account_lost_phone"))
        return [*paths, *super().get_urls()]

    def _path(self, address: str, act: type[StaffAct]) -> URLPattern:
        view = self.admin_site.admin_view(self._act_view)
        pattern: URLPattern = path(address, view, {"act": act}, name=f"billing_account_{act.name.replace('-', '_')}")
        return pattern

    def possible_acts(self, request: HttpRequest, account: Account) -> list[dict[str, str]]:
        return [
            {"title": act.title, "address": reverse(f"admin:billing_account_{act.name.replace('-', '_')}", args=[account.pk])}
            for act in OF_ACCOUNTS
            if act.is_possible(account) and act.may(request, account)
        ]

    def _act_view(
        self, request: HttpRequest, account_id: UUID, act: type[StaffAct], entry_id: UUID | None = None
    ) -> HttpResponse:
        """Show the form; a POST acts by it, once, with the locks held under which it is validated."""
        account = self.object_for(request, str(account_id), act.permission)
        if not act.may(request, account):
            raise PermissionDenied(_OWN_ACCOUNT)
        staff = staff_of(request)
        if request.method != "POST":
            return self._show(request, _form(act, account, staff, entry_id))
        with transaction.atomic():
            locks.lock_users([staff.pk])
            account = locks.lock_account(account_id)
            if not act.may(request, account):  # the staff may have become a member meanwhile
                raise PermissionDenied(_OWN_ACCOUNT)
            form = _form(act, account, staff, entry_id, request.POST)
            is_done = act_once(request, form, lambda: _perform(form, request))
        return self.back_to(account) if is_done else self._show(request, form)

    def _show(self, request: HttpRequest, form: StaffAct) -> HttpResponse:
        context = {"form": form, "balance": dollars.format_usd(form.subject.balance_nanos), **form.context()}
        return self.show_action(request, form.template, form.title, form.subject, **context)

    @method_decorator(require_http_methods(["GET", "POST"]))
    def password_link_view(self, request: HttpRequest, account_id: UUID, user_id: int) -> HttpResponse:
        """Send a member a link to set a password. ``password_links`` records it."""
        account = self.object_for(request, str(account_id), "billing.send_password_link")
        member = get_object_or_404(account.members, pk=user_id, is_active=True)
        if not staff_permissions.may_set_credentials(staff_of(request), member):
            raise PermissionDenied(f"{member} is a colleague, or has permissions that you lack: only a superuser may do this.")
        form = SeenForm(member, request.POST if request.method == "POST" else None)
        if request.method == "POST" and self._send_link(request, form, member):
            return self.back_to(account)
        context = {"form": form, "member": member}
        template, title = "admin/billing/account/password_link.html", "Send a password link"
        return self.show_action(request, template, title, account, **context)

    def _send_link(self, request: HttpRequest, form: SeenForm, member: User) -> bool:
        """Return False if the form is damaged. The mail server may take long, so it is not asked in the transaction."""
        if not form.is_valid():
            return False
        with transaction.atomic():
            is_new = SentForm.use(form.cleaned_data["token"])
        if not is_new:
            messages.warning(request, "This form was already sent. No new link was sent.")
        elif password_links.invite(request, member, staff_of(request)):
            messages.success(request, f"{member} was sent a link to set a password. It works for 7 days.")
        else:
            messages.error(request, f"The email to {member} could not be sent. No link is active.")
        return True

    @method_decorator(require_http_methods(["GET", "POST"]))
    def lost_phone_view(self, request: HttpRequest, account_id: UUID, user_id: int) -> HttpResponse:
        """Ask that a member's two-factor authentication be removed. A colleague approves it."""
        account = self.object_for(request, str(account_id), "billing.send_password_link")
        member = get_object_or_404(account.members, pk=user_id, is_active=True)
        if refusal := people_requests.colleague_refusal(member):
            raise PermissionDenied(refusal)
        form = ReasonForm(member, request.POST if request.method == "POST" else None)
        with transaction.atomic():
            ask = partial(_ask_for_removal, request, form, account, member)
            if request.method == "POST" and act_once(request, form, ask):
                return self.back_to(account)
        title, context = "Lost phone", {"form": form, "member": member}
        return self.show_action(request, "admin/billing/account/lost_phone.html", title, account, **context)


def _ask_for_removal(request: HttpRequest, form: ReasonForm, account: Account, member: User) -> str:
    if not second_factor.has_any(member):
        raise ValidationError(f"{member} has no two-factor authentication.")
    asked, is_new = people_requests.ask_for_removal(request, member, account, staff_of(request), **form.notes)
    waits = "Nothing changes until a colleague approves it." if is_new else "It was already requested."
    return f"The {asked.what} waits for approval. {waits}"


def _form(act: type[StaffAct], account: Account, staff: User, entry_id: UUID | None, *data: Any) -> StaffAct:
    """Make the form. Raises Http404 if it is of a credit that the account does not have, or cannot be refunded."""
    if entry_id is None:
        return act(account, staff, *data)
    credit = next((each for each in credits.read_credits(account) if each.entry.pk == entry_id), None)
    if credit is None or (act is Refund and not credit.is_purchase):
        raise Http404
    return act(account, staff, credit, *data)


def _perform(form: StaffAct, request: HttpRequest) -> str:
    try:
        return form.perform(request)
    except writer.ReferenceReused as error:  # for another account, at the same moment
        raise ValidationError("It was booked in the meantime. See the ledger.") from error
