"""/dashboard/settings/emails/: which emails about money the members of the account get."""

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from billing import locks
from billing.accounts.member_pages import member_page_for
from billing.accounts.roles import Permission
from billing.models import Account, EmailChoice
from gateway_project.activity import log
from gateway_project.activity.models import Activity

FIELDS = ("receipts", "credits", "refunds", "changes")


class EmailForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = EmailChoice
        fields = FIELDS


@require_http_methods(["GET", "HEAD", "POST"])
@member_page_for(Permission.SEE_SETTINGS)
def change_emails(request: HttpRequest, account: Account) -> HttpResponse:
    """Switch kinds of emails on or off. Those about security are always sent."""
    choice = EmailChoice.objects.filter(account=account).first() or EmailChoice(account=account)
    form = EmailForm(request.POST if request.method == "POST" else None, instance=choice)
    if request.method == "POST" and form.is_valid():
        _save(request, account, form.cleaned_data)
        messages.success(request, "Email settings saved.")
        return redirect("settings")
    return render(request, "settings/emails.html", {"form": form})


def _save(request: HttpRequest, account: Account, chosen: dict[str, bool]) -> None:
    with transaction.atomic():
        locks.lock_account(account.pk)
        choice, _ = EmailChoice.objects.get_or_create(account=account)
        before = {name: getattr(choice, name) for name in FIELDS}
        if before == chosen:
            return
        EmailChoice.objects.filter(pk=account.pk).update(**chosen)
        act, summary = Activity.Act.EMAILS_CHANGED, "Changed which emails about money are sent."
        log.record(request, act, choice, summary, account_id=account.pk, before=before, after=chosen)
