"""/dashboard/settings/: what owners see and do of the account as a whole, which emails its members get, and the export."""

from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_safe

from billing import locks
from billing.account_settings import exports
from billing.account_settings.exports import ExportRefused, State
from billing.accounts import lifecycle
from billing.accounts.member_pages import member_page_for
from billing.accounts.roles import Permission
from billing.models import Account, EmailChoice
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.web import downloads

EMAILS = ("receipts", "credits", "refunds", "changes")
EXPORTS_SHOWN_MAX = 10


@require_safe
@member_page_for(Permission.SEE_SETTINGS)
def show(request: HttpRequest, account: Account) -> HttpResponse:
    context = {
        "account_id": account.pk,
        "opened_at": account.created_at,
        "is_active": account.is_active,
        "closing": lifecycle.find_open_closing(account),
    }
    return render(request, "settings/overview.html", context)


class EmailForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = EmailChoice
        fields = EMAILS


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.SEE_SETTINGS)
def change_emails(request: HttpRequest, account: Account) -> HttpResponse:
    """Switch kinds of emails on or off. Those about security are always sent."""
    choice = EmailChoice.objects.filter(account=account).first() or EmailChoice(account=account)
    form = EmailForm(request.POST if request.method == "POST" else None, instance=choice)
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        with transaction.atomic():
            locks.lock_account(account.pk)
            choice, _ = EmailChoice.objects.get_or_create(account=account)
            before = {name: getattr(choice, name) for name in EMAILS}
            if before != chosen:
                EmailChoice.objects.filter(pk=account.pk).update(**chosen)
                act, summary = Activity.Act.EMAILS_CHANGED, "Changed which emails about money are sent."
                log.record(request, act, choice, summary, account_id=account.pk, before=before, after=chosen)
        messages.success(request, "Email settings saved.")
        return redirect("settings")
    return render(request, "settings/emails.html", {"form": form})


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.EXPORT_DATA)
@reauthenticates
def export_data(request: HttpRequest, account: Account) -> HttpResponse:
    """List the exports. A POST asks for one."""
    if request.method == "POST":
        try:
            exports.ask(request, account)
            messages.success(request, "We are preparing the export, and email you when it is ready.")
        except ExportRefused as refusal:
            messages.warning(request, str(refusal))
        return redirect("export")
    found = list(account.exports.select_related("asked_by").order_by("-pk")[:EXPORTS_SHOWN_MAX])
    is_waiting = any(each.state == State.WAITING for each in found)
    return render(request, "settings/export.html", {"exports": found, "is_waiting": is_waiting, "days": settings.EXPORT_DAYS})


@require_GET
@member_page_for(Permission.EXPORT_DATA)
def download_export(request: HttpRequest, account: Account, export_id: UUID) -> HttpResponseBase:
    export = get_object_or_404(account.exports, pk=export_id, state=State.READY)
    file = {"filename": f"export-{export.ready_at:%Y-%m-%d}.zip", "content_type": "application/zip"}
    parts = exports.read_parts(export)
    return downloads.respond(parts, **file, downloader=f"user {request.user.pk}", subject="the export")
