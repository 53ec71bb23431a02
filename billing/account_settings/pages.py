"""/dashboard/settings/: leads to what owners see and do of the account as a whole."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from billing.accounts import lifecycle
from billing.accounts.member_pages import member_page_for
from billing.accounts.roles import Permission
from billing.models import Account


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
