"""Requests of staff about people that wait for a second person: a new owner of an account, and a second factor that is lost.

No member of staff gives an account away alone. Nor does one remove a second factor: someone who has the password could talk
support into letting them in. The person and the owners of the account get an email when such a request is made and approved.
Whom it is about may withdraw it at /dashboard/support-requests/. That stops something, so it asks for no password.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from billing import locks, staff_permissions
from billing.accounts import lifecycle
from billing.members import notices
from billing.models import Account, AccountAct, Membership, OwnerRequest, Role, SecondFactorRequest, User
from billing.sign_in import mails, second_factor
from billing.staff import approvals
from gateway_project.activity import log
from gateway_project.cells import directory
from gateway_project.db import everywhere
from gateway_project.web import hosts


@contextmanager
def _approving(model: Any, id: UUID, by: User, refusal: Callable[[Any, User], str]) -> Iterator[Any]:
    """Lock the request, let the block do what it asks for, and write who approved it. Raises ApprovalRefused, DoesNotExist."""
    with transaction.atomic():
        asked = approvals.lock(model, id, by.pk, model.objects.get(pk=id).user_id)
        if reason := refusal(asked, by):
            raise approvals.ApprovalRefused(reason)
        yield asked
        approvals.decide(asked, approvals.Decision.APPROVED, by)


def ask_for_owner(request: HttpRequest, user: User, account: Account, staff: User) -> tuple[OwnerRequest, bool]:
    """Ask that the locked user become an owner. Return the request, and whether it is new. Must run in a transaction."""
    locks.lock_account(account.pk)
    approvals.decline_lapsed(OwnerRequest.objects.filter(account=account, user=user), staff)
    terms = {"requested_by": staff, "reason": "Added in the admin.", "seen": _state_of_ownership(user, account)}
    asked, is_new = OwnerRequest.objects.get_or_create(account=account, user=user, decision="", defaults=terms)
    if is_new:
        log.record(request, log.Act.OWNER_REQUESTED, account, f"Asked for a {asked.what}.")
        page = hosts.mailed_page("support-requests", "Requests of our support")
        change = f"Support staff want to make {user} an owner of the account. You can withdraw that: {page}"
        notices.tell_owners(account, change, but=user)
    return asked, is_new


def approve_owner(id: UUID, *, by: User) -> Membership:
    """Make the user an owner. Raises ApprovalRefused, OwnerRequest.DoesNotExist."""
    with _approving(OwnerRequest, id, by, owner_refusal) as asked:
        membership = lifecycle.add_member(asked.account, asked.user)
        notices.tell_owners(asked.account, f"{asked.user} is an owner now. Support staff added them.", but=asked.user)
    return membership


def owner_refusal(asked: OwnerRequest, by: User) -> str:
    """Return why ``by`` cannot approve the request, or ''."""
    if reason := approvals.refusal(asked, by):
        return reason
    if Membership.objects.filter(account=asked.account, user=asked.user).exists():
        return f"{asked.user} is a member already: an owner can change the role."
    if not asked.user.is_active:
        return f"{asked.user} can no longer sign in."
    refused = staff_permissions.membership_refusal(by, asked.user, asked.account)
    return refused or approvals.change_since(asked, _state_of_ownership(asked.user, asked.account))


def _state_of_ownership(user: User, account: Account) -> dict[str, Any]:
    state = "open" if account.is_active else "closed"
    return {"The address of the new owner": user.email, "Whether the account is open": state, **state_of_owners(account)}


def state_of_owners(account: Account) -> dict[str, Any]:
    """Return who owns the account, for what waits for a second person and is about it."""
    return {"Who owns the account": list(lifecycle.active_owners(account).values_list("pk", flat=True))}


def ask_for_removal(
    request: HttpRequest, user: User, account: Account, staff: User, *, reason: str, ticket: str
) -> tuple[SecondFactorRequest, bool]:
    """Ask for the removal. Return the request, and whether it is new. Must run in a transaction."""
    locks.lock_users([user.pk])
    locks.lock_account(account.pk)
    approvals.decline_lapsed(SecondFactorRequest.objects.filter(user=user), staff)
    notes: dict[str, Any] = {"reason": reason, "ticket": ticket}
    terms = {"account": account, "requested_by": staff, "seen": _state_of_factors(user), **notes}
    asked, is_new = SecondFactorRequest.objects.get_or_create(user=user, decision="", defaults=terms)
    if is_new:
        summary = f"Asked for a {asked.what}."
        log.record(request, log.Act.SECOND_FACTOR_REQUESTED, user, summary, account_id=account.pk, **notes)
        _tell(asked, "Support was asked to remove two-factor authentication. A second member of staff must approve it.")
    return asked, is_new


def approve_removal(id: UUID, *, by: User) -> int:
    """Remove the second factors, and return how many. Raises ApprovalRefused, SecondFactorRequest.DoesNotExist."""
    with _approving(SecondFactorRequest, id, by, removal_refusal) as asked:
        removed = second_factor.remove_all(asked.user)
        _tell(asked, "Two-factor authentication was removed by support. Set it up again after signing in.")
    return removed


def removal_refusal(asked: SecondFactorRequest, by: User) -> str:
    """Return why ``by`` cannot approve the request, or ''."""
    if reason := approvals.refusal(asked, by):
        return reason
    if by == asked.user:
        return "This is about your own second factor. Someone else must approve it."
    if not staff_permissions.may_change_user(by, asked.user):
        return f"{asked.user} has permissions that you lack."
    if not asked.account.members.filter(pk=asked.user.pk).exists():
        return f"{asked.user} is no longer a member of {asked.account}."
    return colleague_refusal(asked.user) or approvals.change_since(asked, _state_of_factors(asked.user))


def colleague_refusal(user: User) -> str:
    """Return why this is not asked for as for a customer, or ''."""
    return f"{user} is staff: a superuser removes second factors of staff, in the list of users." if user.is_staff else ""


def _state_of_factors(user: User) -> dict[str, Any]:
    return {f"Two-factor authentication of {user}": second_factor.ids(user), "The address of the person": user.email}


def _tell(asked: SecondFactorRequest, what: str) -> None:
    notices.tell_owners(asked.account, f"{asked.user}: {what}", but=asked.user)
    link = hosts.mailed_page("support-requests", "the page Two-factor authentication")
    mails.send_once_committed(asked.user.email, "second_factor_removal", what=what, link=link)


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
            approvals.decide(locked, approvals.Decision.DECLINED, person, decision_reason=reason)
            summary = f"Withdrew the {asked.what} that support asked for."
            details: dict[str, Any] = {"account_id": asked.account_id, "ticket": asked.ticket, "is_defence": True}
            log.record(request, log.Act.CREDIT_DECLINED, asked.target, summary, **details)
            approvals.tell_requester(locked, f"It is declined. {reason}")
    except approvals.ApprovalRefused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"The {asked.what} is withdrawn. Nothing was changed.")
    return redirect("support-requests")
