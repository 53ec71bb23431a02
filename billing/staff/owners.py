"""Owners that staff make, once a second person approves: no member of staff gives an account away alone. Owners are told."""

from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest

from billing import locks, staff_permissions
from billing.accounts import lifecycle
from billing.members import notices
from billing.models import Account, Membership, OwnerRequest, User
from billing.staff import approvals
from billing.staff.approvals import ApprovalRefused, Decision
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.web import hosts


def ask(request: HttpRequest, user: User, account: Account, staff: User) -> tuple[OwnerRequest, bool]:
    """Ask that the locked user become an owner. Return the request, and whether it is new. Must run in a transaction."""
    locks.lock_account(account.pk)
    approvals.decline_lapsed(OwnerRequest.objects.filter(account=account, user=user), staff)
    terms = {"requested_by": staff, "reason": "Added in the admin.", "seen": _state(user, account)}
    asked, is_new = OwnerRequest.objects.get_or_create(account=account, user=user, decision="", defaults=terms)
    if is_new:
        log.record(request, Activity.Act.OWNER_REQUESTED, account, f"Asked for a {asked.what}.")
        page = hosts.mailed_page("support-requests", "Requests of our support")
        change = f"Support staff want to make {user} an owner of the account. You can withdraw that: {page}"
        notices.tell_owners(account, change, but=user)
    return asked, is_new


def approve(request: HttpRequest, id: UUID, *, by: User) -> Membership:
    """Make the user an owner. Raises ApprovalRefused, OwnerRequest.DoesNotExist."""
    with transaction.atomic():
        user_id = OwnerRequest.objects.get(pk=id).user_id
        asked = approvals.lock(OwnerRequest, id, by.pk, user_id)
        if reason := refusal(asked, by):
            raise ApprovalRefused(reason)
        membership = lifecycle.add_member(asked.account, asked.user)
        approvals.decide(asked, Decision.APPROVED, by)
        notices.tell_owners(asked.account, f"{asked.user} is an owner now. Support staff added them.", but=asked.user)
    return membership


def refusal(asked: OwnerRequest, by: User) -> str:
    """Return why ``by`` cannot approve the request, or ''."""
    if reason := approvals.refusal(asked, by):
        return reason
    if Membership.objects.filter(account=asked.account, user=asked.user).exists():
        return f"{asked.user} is a member already: an owner can change the role."
    if not asked.user.is_active:
        return f"{asked.user} can no longer sign in."
    refused = staff_permissions.membership_refusal(by, asked.user, asked.account)
    return refused or approvals.change_since(asked, _state(asked.user, asked.account))


def _state(user: User, account: Account) -> dict[str, Any]:
    state = "open" if account.is_active else "closed"
    return {"The address of the new owner": user.email, "Whether the account is open": state, **state_of_owners(account)}


def state_of_owners(account: Account) -> dict[str, Any]:
    """Return who owns the account, for what waits for a second person and is about it."""
    return {"Who owns the account": list(lifecycle.active_owners(account).values_list("pk", flat=True))}
