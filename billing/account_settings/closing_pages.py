"""/dashboard/settings/close/: an owner closes the account, in two steps and with the password, and opens it again."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from billing.account_settings import closing
from billing.account_settings.closing import ClosingRefused
from billing.accounts import lifecycle
from billing.accounts.member_pages import member_page_for
from billing.accounts.roles import Permission
from billing.models import Account
from billing.sign_in.reauthentication import asks_anew, reauthenticates
from gateway_project.text import dollars


class ClosingForm(forms.Form):
    """The name of the account, typed to confirm."""

    name = forms.CharField(max_length=200, widget=forms.TextInput(attrs={"autocomplete": "off"}))

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._account = account
        self.fields["name"].label = f"Type {account.name} to confirm"

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if name != self._account.name.strip():
            raise forms.ValidationError("This is not the name of the account.")
        return name


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.CLOSE_ACCOUNT)
@asks_anew
@reauthenticates
def close_account(request: HttpRequest, account: Account) -> HttpResponse:
    """Say what closing does; then ask for the password, and for the name of the account; then close it."""
    if not account.is_active and lifecycle.find_open_closing(account):
        return redirect("settings")
    form = ClosingForm(account, request.POST if "name" in request.POST else None)
    if form.is_valid():
        try:
            closing.close(request, account)
            messages.success(request, "The account is closed. Its keys stopped.")
            return redirect("settings")
        except ClosingRefused as refusal:
            form.add_error(None, str(refusal))
    unused_cents, refunded_cents = closing.unused_cents(account), closing.refundable_cents(account)
    context = {
        "form": form if request.method == "POST" else None,
        "balance_nanos": account.balance_nanos,
        "unused": dollars.format_cents(unused_cents) if unused_cents else "",
        "refunded": dollars.format_cents(refunded_cents) if refunded_cents else "",
        "others": dollars.format_cents(unused_cents - refunded_cents) if unused_cents > refunded_cents else "",
        "is_refunded": settings.CLOSING_REFUNDS,
        "days": settings.ERASE_AFTER_DAYS,
        "running": account.open_holds,
        "is_active": account.is_active,
    }
    return render(request, "settings/close.html", context)


@require_POST
@member_page_for(Permission.CLOSE_ACCOUNT)
@reauthenticates
def undo_closing(request: HttpRequest, account: Account) -> HttpResponse:
    try:
        closing.undo(request, account)
        messages.success(request, "The account is open again. Its keys work.")
    except ClosingRefused as refusal:
        messages.error(request, str(refusal))
    return redirect("settings")
