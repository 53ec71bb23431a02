"""The dashboard's pages of management keys, with which programs manage keys at /api/keys. Owners make and revoke them."""

from django.contrib import messages
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from billing import locks as account_locks
from billing.accounts.member_pages import Pager, member_page, member_page_for
from billing.accounts.roles import Permission
from billing.models import Account
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.web import hosts
from keys import acts, secret
from keys.forms import ManagementKeyForm
from keys.models import ManagementKey

KEYS_PER_PAGE = 50


@require_safe
@member_page
def list_keys(request: HttpRequest, account: Account) -> HttpResponse:
    """List the management keys: those in use first, each newest first."""
    keys = account.management_keys.order_by(F("revoked_at").desc(nulls_first=True), "-id")
    pager = Pager.of(request, count=keys.count(), per_page=KEYS_PER_PAGE)
    shown = [_describe(key) for key in keys[pager.offset : pager.offset + KEYS_PER_PAGE]]
    return render(request, "dashboard/management_keys.html", {"keys": shown, "pager": pager, "address": _address(request)})


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.MANAGE_BY_PROGRAM)
@reauthenticates
def new_key(request: HttpRequest, account: Account) -> HttpResponse:
    """Make a management key. Its secret is shown only in the reply to the POST: it is in no URL, cookie or session."""
    if not account.is_active:
        messages.error(request, str(acts.AccountClosed()))
        return redirect("management-keys")
    if request.method != "POST":
        return render(request, "dashboard/management_key_new.html", {"form": ManagementKeyForm(account)})
    with transaction.atomic():
        account_locks.lock_account(account.pk)
        form = ManagementKeyForm(account, request.POST)
        if form.is_valid():
            with acts.refusals_in(form):
                _, minted = acts.make_management_key(request, account, form.cleaned_data["name"])
    if not form.is_valid():
        return render(request, "dashboard/management_key_new.html", {"form": form})
    context = {"name": form.cleaned_data["name"], "secret": minted, "address": _address(request)}
    return render(request, "dashboard/management_key_made.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.MANAGE_BY_PROGRAM)
def revoke_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Show a confirmation; a POST revokes the management key. Revoking twice changes nothing."""
    key = get_object_or_404(account.management_keys, pk=key_id)
    if request.method == "POST":
        acts.revoke_management_key(request, key)
        messages.success(request, f"{key.name} is revoked. Requests with it are now refused. Its keys keep working.")
        return redirect("management-keys")
    return render(request, "dashboard/management_key_revoke.html", {"key": _describe(key)})


def _describe(key: ManagementKey) -> dict[str, object]:
    return {
        "id": key.pk,
        "name": key.name,
        "hint": f"{secret.MANAGEMENT_PREFIX}…{key.last_four}",
        "created_at": key.created_at,
        "last_used_at": key.last_used_at,
        "revoked_at": key.revoked_at,
    }


def _address(request: HttpRequest) -> str:
    return f"{hosts.base_url(request)}/api/keys"
