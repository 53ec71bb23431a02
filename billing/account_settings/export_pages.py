"""/dashboard/settings/export/: an owner asks for all data of the account, and downloads it."""

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from billing.account_settings import exports
from billing.account_settings.exports import ExportRefused, State
from billing.accounts.member_pages import member_page_for
from billing.accounts.roles import Permission
from billing.models import Account
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.web import downloads

SHOWN_MAX = 10


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
    found = list(account.exports.select_related("asked_by").order_by("-pk")[:SHOWN_MAX])
    is_waiting = any(each.state == State.WAITING for each in found)
    return render(request, "settings/export.html", {"exports": found, "is_waiting": is_waiting, "days": settings.EXPORT_DAYS})


@require_GET
@member_page_for(Permission.EXPORT_DATA)
def download_export(request: HttpRequest, account: Account, export_id: UUID) -> HttpResponseBase:
    export = get_object_or_404(account.exports, pk=export_id, state=State.READY)
    file = {"filename": f"export-{export.ready_at:%Y-%m-%d}.zip", "content_type": "application/zip"}
    parts = exports.read_parts(export)
    return downloads.respond(parts, **file, downloader=f"user {request.user.pk}", subject="the export")
