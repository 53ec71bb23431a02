"""/dashboard/members/: who is a member, in which role, and who is invited. Owners change it; each member may leave.

An invitation leads people to where they join: they are signed in, sign in first, or choose a password.
"""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from billing.accounts.member_pages import act_page, form_page, member_of, plain_page, requires, select_account
from billing.accounts.roles import DESCRIPTIONS, Permission
from billing.email_addresses import EmailAddressField
from billing.forms import SelectedAccountForm
from billing.members import changes, invitations
from billing.models import Account, Invitation, Membership, Role, User
from billing.sign_in import credential_pages, limits
from billing.sign_in.identities import leads_to_providers
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.db import pool
from gateway_project.errors import RateLimitExceeded
from gateway_project.web.client_address import network_of

_CHOICES = [(role.value, f"{role.label}: {DESCRIPTIONS[role]}") for role in Role]


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(choices=_CHOICES, coerce=Role, widget=forms.RadioSelect)


class InvitationForm(SelectedAccountForm, RoleForm):
    email = EmailAddressField(label="Email address", widget=forms.EmailInput(attrs={"autocomplete": "off"}))

    field_order = ["email", "role"]
    purpose = "invite someone"


@plain_page()
def show(request: HttpRequest, account: Account) -> HttpResponse:
    """List the members; to those who may invite, also who is invited."""
    members = account.memberships.select_related("user").order_by("user__email")
    context: dict[str, Any] = {"members": [(each, DESCRIPTIONS[Role(each.role)]) for each in members]}
    if member_of(request).may[Permission.MANAGE_MEMBERS.name]:
        waiting = invitations.find_waiting(account).select_related("invited_by").order_by("email")
        context |= {"waiting": waiting, "now": pool.database_time()}
    return render(request, "members/list.html", context)


@form_page(Permission.MANAGE_MEMBERS)
@reauthenticates
def invite(request: HttpRequest, account: Account) -> HttpResponse:
    """Send someone a link by which they join the account."""
    form = InvitationForm(account, request.POST if request.method == "POST" else None, initial={"role": Role.DEVELOPER})
    if request.method == "POST" and form.is_valid() and _send(request, account, form):
        messages.success(request, f"{form.cleaned_data['email']} was sent an invitation. It works once, for 7 days.")
        return redirect("members")
    return render(request, "members/invite.html", {"form": form})


def _send(request: HttpRequest, account: Account, form: InvitationForm) -> bool:
    """Send the invitation of a valid form. Return False, with an error on the form, if that was not possible."""
    email = form.cleaned_data["email"]
    try:
        limits.count_attempt([limits.mail_request_limit(network_of(request))])
        if invitations.invite(request, account, email, form.cleaned_data["role"]):
            return True
        form.add_error("email", "We could not send the email, or sent too many there. No one was invited. Try again later.")
    except invitations.InvitationRefused as refusal:
        form.add_error("email", str(refusal))
    except RateLimitExceeded as refusal:
        wait_seconds = refusal.headers["Retry-After"]
        form.add_error("email", f"Too many emails were requested from your address. Try again in {wait_seconds} seconds.")
    return False


@act_page(Permission.MANAGE_MEMBERS)
def revoke_invitation(request: HttpRequest, account: Account, invitation_id: UUID) -> HttpResponse:
    """Revoke an invitation. Stopping one must not wait for a password."""
    invitation = get_object_or_404(account.invitations, pk=invitation_id)
    if invitations.revoke(request, invitation):
        messages.success(request, f"The invitation of {invitation.email} is revoked.")
    else:
        messages.warning(request, f"The invitation of {invitation.email} was already used or revoked.")
    return redirect("members")


@form_page(Permission.MANAGE_MEMBERS)
@reauthenticates
def change_role(request: HttpRequest, account: Account, membership_id: int) -> HttpResponse:
    """Give a member another role."""
    member = _find(account, membership_id)
    form = RoleForm(request.POST if request.method == "POST" else None, initial={"role": member.role})
    if request.method == "POST" and form.is_valid():
        try:
            changes.change_role(request, member, form.cleaned_data["role"])
            messages.success(request, f"{member.user.email} is now {form.cleaned_data['role'].label}.")
            return redirect("members")
        except changes.ChangeRefused as refusal:
            form.add_error("role", str(refusal))
    return render(request, "members/role.html", {"form": form, "email": member.user.email})


@form_page()
def end_membership(request: HttpRequest, account: Account, membership_id: int) -> HttpResponseBase:
    """Remove a member, or leave: each member may end their own membership."""
    member = _find(account, membership_id)
    page = _end if changes.is_own(request, member) else requires(Permission.MANAGE_MEMBERS)(_end)
    return page(request, account, member)


@reauthenticates
def _end(request: HttpRequest, account: Account, member: Membership) -> HttpResponse:
    is_own, refusal = changes.is_own(request, member), ""
    if request.method == "POST":
        try:
            changes.end_membership(request, member)
            left = f"You are no longer a member of {account.name}." if is_own else f"{member.user.email} is removed."
            messages.success(request, left)
            return redirect("dashboard" if is_own else "members")
        except changes.ChangeRefused as reason:
            refusal = str(reason)
    is_last_owner = changes.is_last_owner(member)
    context = {"email": member.user.email, "is_own": is_own, "is_last_owner": is_last_owner, "refusal": refusal}
    return render(request, "members/end.html", context)


def _find(account: Account, membership_id: int) -> Membership:
    return get_object_or_404(account.memberships.select_related("user"), pk=membership_id)


@never_cache
@leads_to_providers
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters()
def join(request: HttpRequest) -> HttpResponse:
    """Let whoever has the link, and the address that it was sent to, join the account."""
    key = request.POST.get("key") or request.GET.get("key", "")
    invitation = invitations.find(key)
    if invitation is None:
        return credential_pages.link_ended(request)
    try:
        if isinstance(request.user, User):
            return _join(request, request.user, key, invitation)
        if User.objects.filter(email=invitation.email).exists():
            sign_in = f"{reverse('account_login')}?{urlencode({'next': _here(key)})}"  # which leads back here
            return _render(request, key, invitation, sign_in=sign_in)
        return _sign_up(request, key, invitation)
    except invitations.InvitationEnded:
        return credential_pages.link_ended(request)


def _join(request: HttpRequest, user: User, key: str, invitation: Invitation) -> HttpResponse:
    if user.email != invitation.email:
        return _render(request, key, invitation, other=user.email, status=403)
    if request.method != "POST":
        return _render(request, key, invitation)
    try:
        account = invitations.accept(request, key, user)
    except invitations.InvitationRefused as refusal:
        return _render(request, key, invitation, refusal=str(refusal), status=403)
    select_account(request, account)
    messages.success(request, f"You are a member of {account.name}.")
    return redirect("dashboard")


def _sign_up(request: HttpRequest, key: str, invitation: Invitation) -> HttpResponse:
    user: AbstractBaseUser = User(email=invitation.email)
    form: Any = SetPasswordForm(user, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return render(request, "members/choose_password.html", {**_context(key, invitation), "form": form, "here": _here(key)})
    form.save(commit=False)  # hashes, outside of any transaction
    invitations.sign_up(request, key, user.password)
    messages.success(request, f"You are a member of {invitation.account.name}. Sign in to see it.")
    return redirect("account_login")


def _render(request: HttpRequest, key: str, invitation: Invitation, *, status: int = 200, **context: str) -> HttpResponse:
    return render(request, "members/join.html", {**_context(key, invitation), **context}, status=status)


def _context(key: str, invitation: Invitation) -> dict[str, str]:
    role = Role(invitation.role)
    return {"key": key, "email": invitation.email, "account": invitation.account.name, "role": role.label}


def _here(key: str) -> str:
    return f"{reverse('join')}?{urlencode({'key': key})}"
