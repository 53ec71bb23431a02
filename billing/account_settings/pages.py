"""/dashboard/settings/: leads to what owners see and do of the account as a whole."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from billing.members.roles import Act
from billing.models import Account
from billing.pages import member_page_for


@require_safe
@member_page_for(Act.SEE_ACTIVITY)
def show(request: HttpRequest, account: Account) -> HttpResponse:
    """Show what can be set."""
    return render(request, "settings/overview.html", {"account_id": account.pk, "opened_at": account.created_at})
