"""Where an invitation leads: people join who are signed in, sign in first, or choose a password."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from billing.accounts.member_pages import select_account
from billing.members import invitations
from billing.members.invitations import InvitationEnded, InvitationRefused
from billing.models import Invitation, Role, User
from billing.sign_in.identities import leads_to_providers


@never_cache
@leads_to_providers
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters()
def join(request: HttpRequest) -> HttpResponse:
    """Let whoever has the link, and the address that it was sent to, join the account."""
    key = request.POST.get("key") or request.GET.get("key", "")
    invitation = invitations.find(key)
    if invitation is None:
        return _ended(request)
    try:
        if isinstance(request.user, User):
            return _join(request, request.user, key, invitation)
        if User.objects.filter(email=invitation.email).exists():
            sign_in = f"{reverse('account_login')}?{urlencode({'next': _here(key)})}"  # which leads back here
            return _render(request, key, invitation, sign_in=sign_in)
        return _sign_up(request, key, invitation)
    except InvitationEnded:
        return _ended(request)


def _join(request: HttpRequest, user: User, key: str, invitation: Invitation) -> HttpResponse:
    if user.email != invitation.email:
        return _render(request, key, invitation, other=user.email, status=403)
    if request.method != "POST":
        return _render(request, key, invitation)
    try:
        account = invitations.accept(request, key, user)
    except InvitationRefused as refusal:
        return _render(request, key, invitation, refusal=str(refusal), status=403)
    select_account(request, account)
    messages.success(request, f"You are a member of {account.name}.")
    return redirect("dashboard")


def _sign_up(request: HttpRequest, key: str, invitation: Invitation) -> HttpResponse:
    user: AbstractBaseUser = User(email=invitation.email)
    form: Any = SetPasswordForm(user, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = {**_context(key, invitation), "form": form, "here": _here(key)}
        return render(request, "members/choose_password.html", context)
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


def _ended(request: HttpRequest) -> HttpResponse:
    return render(request, "account/password_link_ended.html", {"is_of_address": True}, status=404)
