"""/dashboard/settings/: what owners see and do of the account as a whole, which emails its members get, and the export.

An owner closes the account in two steps and with the password, and opens it again. The acts on the account have filters,
and the CSV file of exactly what is filtered.
"""

from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render

from billing import locks
from billing.account_settings import activity, closing, exports
from billing.accounts import lifecycle, list_forms
from billing.accounts.member_pages import act_page, download_page, form_page, plain_page
from billing.accounts.roles import Permission
from billing.forms import DataDemandsForm
from billing.models import Account, EmailChoice
from billing.sign_in.reauthentication import asks_anew, reauthenticates
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db import newest_first
from gateway_project.text import dollars, number_fields
from gateway_project.web import downloads

EMAILS = ("receipts", "credits", "refunds", "changes")
EXPORTS_SHOWN_MAX = 10
ACTS_PER_PAGE = 50
_ACTS = [("", "All")] + [(act.value, f"{act.label[:1].upper()}{act.label[1:]}") for act in log.Act]
_DOERS = [("", "Everyone")] + [(doer.name, doer.value) for doer in activity.Doer]
_KEY_MAX = 2**63 - 1

EmailForm = forms.modelform_factory(EmailChoice, fields=EMAILS)
NameForm = forms.modelform_factory(Account, fields=["name"])


@plain_page(Permission.SEE_SETTINGS)
def show(request: HttpRequest, account: Account) -> HttpResponse:
    return render(request, "settings/overview.html", {"account": account, "closing": lifecycle.find_open_closing(account)})


@form_page(Permission.SEE_SETTINGS)
def rename(request: HttpRequest, account: Account) -> HttpResponse:
    """Give the account another name. Documents that were issued keep the former one."""
    form = NameForm(request.POST if request.method == "POST" else None, instance=account)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            log.change(request, log.Act.CHANGED, locks.lock_account(account.pk), "Renamed the account.", form.cleaned_data)
        messages.success(request, f"The account is now {account.name}.")
        return redirect("settings")
    return render(request, "settings/rename.html", {"form": form})


@form_page(Permission.SEE_SETTINGS)
def change_emails(request: HttpRequest, account: Account) -> HttpResponse:
    """Switch kinds of emails on or off. Those about security are always sent."""
    choice = EmailChoice.objects.filter(account=account).first() or EmailChoice(account=account)
    form = EmailForm(request.POST if request.method == "POST" else None, instance=choice)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            locks.lock_account(account.pk)
            choice, _ = EmailChoice.objects.get_or_create(account=account)
            summary = "Changed which emails about money are sent."
            log.change(request, log.Act.EMAILS_CHANGED, choice, summary, form.cleaned_data)
        messages.success(request, "Email settings saved.")
        return redirect("settings")
    return render(request, "settings/emails.html", {"form": form})


@form_page(Permission.SEE_SETTINGS)
def change_data_demands(request: HttpRequest, account: Account) -> HttpResponse:
    """Set what all keys of the account demand of providers about data, from the next request on."""
    posted = request.POST if request.method == "POST" else None
    form = DataDemandsForm(posted, initial=DataDemandsForm.initial_of(account))
    if posted and form.is_valid():
        with transaction.atomic():
            summary = "Changed what is demanded of providers about data."
            log.change(request, log.Act.CHANGED, locks.lock_account(account.pk), summary, form.cleaned_data)
        messages.success(request, "Data settings saved. They hold from the next request on.")
        return redirect("settings")
    return render(request, "settings/data.html", {"form": form})


@form_page(Permission.EXPORT_DATA)
@reauthenticates
def export_data(request: HttpRequest, account: Account) -> HttpResponse:
    """List the exports. A POST asks for one."""
    if request.method == "POST":
        try:
            exports.ask(request, account)
            messages.success(request, "We are preparing the export, and email you when it is ready.")
        except exports.ExportRefused as refusal:
            messages.warning(request, str(refusal))
        return redirect("export")
    found = list(account.exports.select_related("asked_by").order_by("-pk")[:EXPORTS_SHOWN_MAX])
    is_waiting = any(each.state == exports.State.WAITING for each in found)
    return render(request, "settings/export.html", {"exports": found, "is_waiting": is_waiting, "days": settings.EXPORT_DAYS})


@download_page(Permission.EXPORT_DATA)
def download_export(request: HttpRequest, account: Account, export_id: UUID) -> HttpResponseBase:
    export = get_object_or_404(account.exports, pk=export_id, state=exports.State.READY)
    file = {"filename": f"export-{export.ready_at:%Y-%m-%d}.zip", "content_type": "application/zip"}
    return downloads.respond(exports.read_parts(export), **file, downloader=f"user {request.user.pk}", subject="the export")


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


@form_page(Permission.CLOSE_ACCOUNT)
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
        except closing.ClosingRefused as refusal:
            form.add_error(None, str(refusal))
    unused_cents, refunded_cents = closing.unused_cents(account), closing.refundable_cents(account)
    context = {
        "form": form if request.method == "POST" else None,
        "account": account,
        "unused": dollars.format_cents(unused_cents) if unused_cents else "",
        "refunded": dollars.format_cents(refunded_cents) if refunded_cents else "",
        "others": dollars.format_cents(unused_cents - refunded_cents) if unused_cents > refunded_cents else "",
        "is_refunded": settings.CLOSING_REFUNDS,
        "days": settings.ERASE_AFTER_DAYS,
    }
    return render(request, "settings/close.html", context)


@act_page(Permission.CLOSE_ACCOUNT)
@reauthenticates
def undo_closing(request: HttpRequest, account: Account) -> HttpResponse:
    try:
        closing.undo(request, account)
        messages.success(request, "The account is open again. Its keys work.")
    except closing.ClosingRefused as refusal:
        messages.error(request, str(refusal))
    return redirect("settings")


class ActivityForm(list_forms.ListForm):
    act = forms.ChoiceField(required=False, choices=_ACTS, label="What")
    by = forms.ChoiceField(required=False, choices=_DOERS, label="Who")
    older = number_fields.IntegerField(required=False, min_value=1, max_value=_KEY_MAX, widget=forms.HiddenInput)
    newer = number_fields.IntegerField(required=False, min_value=0, max_value=_KEY_MAX - 1, widget=forms.HiddenInput)
    field_order = ("act", "by", "since", "until")

    def find(self, account: Account) -> QuerySet[Activity]:
        by = self.cleaned_data["by"]
        doer = activity.Doer[by] if by else None
        return activity.find(account, act=self.cleaned_data["act"], doer=doer, begin=self.begin, end=self.end)


@plain_page(Permission.SEE_SETTINGS)
def show_activity(request: HttpRequest, account: Account) -> HttpResponse:
    form = ActivityForm(request.GET)
    context: dict[str, Any] = {"form": form, "is_filtered": bool(form.filters)}
    if not form.is_valid():
        return render(request, "settings/activity.html", context, status=400)
    acts, given = form.find(account), form.cleaned_data
    page = newest_first.read_page(acts, ACTS_PER_PAGE, newer_than=given["newer"], older_than=given["older"])
    context |= {
        **form.places(page.newer, page.older),
        "rows": activity.describe(account, page.rows),
        "csv_query": form.address() if form.filters else "",
    }
    return render(request, "settings/activity.html", context)


@download_page(Permission.SEE_SETTINGS)
def download_activity(request: HttpRequest, account: Account) -> HttpResponseBase:
    form = ActivityForm(request.GET)
    if not form.is_valid():
        raise form.refusal()
    parts = activity.csv_parts(account, form.find(account))
    file = {"filename": "activity.csv", "content_type": "text/csv"}
    return downloads.respond(parts, **file, downloader=f"user {request.user.pk}", subject="the activity")
