"""/dashboard/support-requests/: requests of staff that wait, for those whom they are about, who may withdraw them.

A removal of a second factor is about the person, a new owner about that person and the owners of the account. Withdrawing stops
something, so it asks for no password.
"""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from billing.models import AccountAct, OwnerRequest, Role, SecondFactorRequest, User
from billing.staff import approvals
from billing.staff.approvals import ApprovalRefused, Decision
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.cells import directory
from gateway_project.db import everywhere


def find_about(user: User) -> list[AccountAct]:
    """Return the requests that wait and that the user may withdraw, the newest first."""
    found = everywhere.gather(lambda: _find_in_cell(user), may_miss=True)
    return sorted(found, key=lambda asked: asked.pk, reverse=True)


def _find_in_cell(user: User) -> list[AccountAct]:
    owns = Q(account__memberships__user=user, account__memberships__role=Role.OWNER)
    removals = approvals.waiting(SecondFactorRequest).filter(user=user)
    owners = approvals.waiting(OwnerRequest).filter(Q(user=user) | owns).distinct()
    return [*removals.select_related("account", "user"), *owners.select_related("account", "user")]


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    assert isinstance(request.user, User)
    return render(request, "account/support_requests.html", {"waiting": find_about(request.user)})


@require_POST
def withdraw(request: HttpRequest, id: UUID) -> HttpResponse:
    """Decline the request in the name of whom it is about. Its author is told."""
    person = request.user
    assert isinstance(person, User)
    asked = next((each for each in find_about(person) if each.pk == id), None)
    if asked is None:
        raise Http404
    try:
        with directory.within(asked.account_id), transaction.atomic():
            locked = approvals.lock(type(asked), asked.pk, person.pk)
            reason = f"Withdrawn by {person.email}, whom it is about."
            approvals.decide(locked, Decision.DECLINED, person, decision_reason=reason)
            summary = f"Withdrew the {asked.what} that support asked for."
            details: dict[str, Any] = {"account_id": asked.account_id, "ticket": asked.ticket, "is_defence": True}
            log.record(request, Activity.Act.CREDIT_DECLINED, asked.target, summary, **details)
            approvals.tell_requester(locked, f"It is declined. {reason}")
    except ApprovalRefused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"The {asked.what} is withdrawn. Nothing was changed.")
    return redirect("support-requests")
