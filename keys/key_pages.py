"""The pages of one key: what it may do, its secrets; change, limit, pause, rotate, revoke it; find it by a leaked secret."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from billing import locks as account_locks
from billing.accounts import roles
from billing.accounts.member_pages import Page, act_page, form_page, member_page, plain_page, select_account
from billing.accounts.roles import Permission
from billing.models import Account, Membership
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.activity.models import SentForm
from gateway_project.db import cell, pool
from gateway_project.web import hosts
from keys import acts, lifetimes, locks, management_keys, rotation, summaries
from keys.forms import ChangeForm, LimitForm, RotateForm, SecretForm
from keys.models import ApiKey, ManagementKey

Key = TypeVar("Key", ApiKey, ManagementKey)
_REVOKED = "{} was revoked and can no longer be changed."


@plain_page()
def show_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Show a key with its limits, and which of its secrets work."""
    key, now = get_object_or_404(account.keys, pk=key_id), pool.database_time()
    [summary] = summaries.summarize_keys([key], now)
    former = [
        {"hint": summaries.mask(each.last_four), "ends_at": each.ends_at, "works": each.ends_at > now}
        for each in key.former_secrets.order_by("-rotated_at", "-id")[: rotation.WORKING_MAX]
    ]
    return render(request, "dashboard/key.html", {"key": summary, "former": former, "account": account})


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def change_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Change a key's name, last day, models, rates and tags."""
    key = _key(account, key_id)
    with transaction.atomic():
        account_locks.lock_account(account.pk)  # two keys of one name would be made or renamed at the same time
        form = ChangeForm(key, request.POST if request.method == "POST" else None)
        is_valid = request.method == "POST" and form.is_valid()
        if is_valid:
            words = "{} saved. Changes apply from the next request."
            try:
                _act(request, key, lambda: acts.change(request, key, form.details), words)
            except lifetimes.ExpiresTooLate as refusal:
                form.add_error("last_day", str(refusal))
    if is_valid and form.is_valid():
        return redirect("key", key_id)
    return render(request, "dashboard/key_change.html", {"form": form, "key": key})


def _act_page(act: Callable[[HttpRequest, ApiKey], None], words: str, *, asks_password: bool = False) -> Page:
    """Return the page of an act that needs nothing but the key. It leads back to the key."""

    def page(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
        key = _key(account, key_id)
        _act(request, key, lambda: act(request, key), words)
        return redirect("key", key_id)

    return act_page(Permission.MANAGE_KEYS)(reauthenticates(page) if asks_password else page)


pause_key = _act_page(acts.pause, "")  # the page says so
resume_key = _act_page(acts.resume, "{} works again.", asks_password=True)
end_former_secrets = _act_page(acts.end_former_secrets, "Only the newest secret of {} works now.")


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def rotate_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Give the key a new secret, which is shown only in the reply to the POST: it is in no URL, cookie or session."""
    key = _key(account, key_id)
    form, minted = RotateForm(key), None
    if request.method == "POST":
        with transaction.atomic():
            account_locks.lock_account(account.pk)
            form = RotateForm(locks.lock_key(key.pk), request.POST)
            minted = _rotate(request, key, form) if form.is_valid() else None
    if minted is None:
        [summary] = summaries.summarize_keys([key], pool.database_time())
        return render(request, "dashboard/key_rotate.html", {"form": form, "key": summary})
    context = {"name": key.name, "secret": minted, "grace": form.grace, "ends_at": pool.database_time() + form.grace}
    return render(request, "dashboard/key_made.html", {**context, "api_url": hosts.api_url(request), "is_rotated": True})


def _rotate(request: HttpRequest, key: ApiKey, form: RotateForm) -> str | None:
    """Return the new secret; None, with an error in the form, if the form was acted on before or the key cannot be rotated."""
    if not SentForm.use(form.cleaned_data["token"]):
        words = "This form was already sent, and the new secret was shown then. To replace it, open this page again."
        form.add_error(None, words)
        return None
    try:
        return acts.rotate(request, key, form.grace)
    except acts.KeyRevoked:
        form.add_error(None, _REVOKED.format(key.name))
    except rotation.TooManySecrets as refusal:
        form.add_error(None, str(refusal))
    return None


@form_page(Permission.MANAGE_KEYS)
@reauthenticates
def limit_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Set, change or clear a key's spending limit."""
    key = get_object_or_404(account.keys, pk=key_id, revoked_at=None)
    form = LimitForm(request.POST if request.method == "POST" else None, initial=LimitForm.initial_of(key))
    if request.method == "POST" and form.is_valid():
        acts.set_spending_limit(request, key, form.limit)
        messages.success(request, f"The spending limit of {key.name} is now: {form.limit}.")
        return redirect("keys")
    [summary] = summaries.summarize_keys([key], pool.database_time())
    return render(request, "dashboard/key_limit.html", {"form": form, "key": summary})


@form_page(Permission.MANAGE_KEYS)
def revoke_key(request: HttpRequest, account: Account, key_id: str) -> HttpResponse:
    """Show a confirmation; a POST revokes the key. Revoking twice changes nothing."""
    key = get_object_or_404(account.keys, pk=key_id)
    if request.method == "POST":
        acts.revoke(request, key)
        messages.success(request, f"{key.name} is revoked. Requests with it are now refused.")
        return redirect("keys")
    [summary] = summaries.summarize_keys([key], pool.database_time())
    return render(request, "dashboard/key_revoke.html", {"key": summary})


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("secret")
@sensitive_variables("given", "form")
@member_page
def find_key(request: HttpRequest, account: Account) -> HttpResponse:
    """Find the key of a leaked secret among those of the member's accounts, and lead to where it is revoked.

    A key of another account looks like one that does not exist. The secret is in no URL, page or log.
    """
    form = SecretForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data["secret"].strip()
        with cell.use(cell.current()):  # each enters the cell of what it finds
            if (key := _own(request, rotation.find_key(given))) is not None:
                return _lead_to(request, key)
            if (management_key := _own(request, management_keys.find(given))) is not None:
                return _lead_to_management_key(request, management_key)
        form.add_error("secret", "No key in your accounts has or had this secret.")
    return render(request, "dashboard/key_find.html", {"form": form})


def _own(request: HttpRequest, key: Key | None) -> Key | None:
    """Return the key if it is of an account of the member."""
    is_own = key is not None and Membership.objects.filter(user=request.user.pk, account=key.account_id).exists()
    return key if is_own else None


def _lead_to_management_key(request: HttpRequest, key: ManagementKey) -> HttpResponse:
    select_account(request, key.account)
    if key.revoked_at is not None:
        messages.success(request, f"This is the secret of the management key {key.name}, which is revoked already.")
    elif roles.may(request.user, key.account, Permission.MANAGE_BY_PROGRAM):  # type: ignore[arg-type]  # a member page has a user
        messages.warning(request, f"This is the secret of the management key {key.name} in {key.account.name}. Revoke it here.")
        return redirect("revoke-management-key", key.pk)
    else:
        messages.warning(request, f"This is the secret of a management key. An owner of {key.account.name} can revoke it.")
    return redirect("management-keys")


def _lead_to(request: HttpRequest, key: ApiKey) -> HttpResponse:
    select_account(request, key.account)
    if key.revoked_at is not None:
        messages.success(request, f"This is a secret of {key.name}, which is revoked already.")
    elif roles.may(request.user, key.account, Permission.MANAGE_KEYS):  # type: ignore[arg-type]  # a member page has a user
        words = f"This is a secret of {key.name} in {key.account.name}. Revoke the key here, or rotate it at once."
        messages.warning(request, words)
        return redirect("revoke-key", key.pk)
    else:
        messages.warning(request, f"This is a secret of {key.name}. An owner or developer of {key.account.name} can revoke it.")
    return redirect("key", key.pk)


def _key(account: Account, key_id: str) -> ApiKey:
    return get_object_or_404(account.keys.select_related("account"), pk=key_id, revoked_at=None)


def _act(request: HttpRequest, key: ApiKey, act: Callable[[], Any], words: str) -> None:
    try:
        act()
    except acts.KeyRevoked:
        messages.warning(request, _REVOKED.format(key.name))
    else:
        if words:
            messages.success(request, words.format(key.name))
