"""Removes someone's two-factor authentication because the phone is lost: support asks, a second person approves.

Otherwise someone who has the password could talk support into letting them in. So a removal needs two members of staff, and
the person and the owners of the account get an email when it is requested and when it is done.
"""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest

from billing import locks, staff_permissions
from billing.members import notices
from billing.models import Account, SecondFactorRequest, User
from billing.sign_in import mails, second_factor
from billing.staff import approvals
from billing.staff.approvals import ApprovalRefused, Decision
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.web import hosts


def ask(
    request: HttpRequest, user: User, account: Account, staff: User, *, reason: str, ticket: str
) -> tuple[SecondFactorRequest, bool]:
    """Ask for the removal. Return the request, and whether it is new. Must run in a transaction."""
    locks.lock_users([user.pk])
    locks.lock_account(account.pk)
    approvals.decline_lapsed(SecondFactorRequest.objects.filter(user=user), staff)
    notes: dict[str, Any] = {"reason": reason, "ticket": ticket}
    terms = {"account": account, "requested_by": staff, "seen": _state(user), **notes}
    asked, is_new = SecondFactorRequest.objects.get_or_create(user=user, decision="", defaults=terms)
    if is_new:
        summary = f"Asked for a {asked.what}."
        log.record(request, Activity.Act.SECOND_FACTOR_REQUESTED, user, summary, account_id=account.pk, **notes)
        _tell(asked, "Support was asked to remove two-factor authentication. A second member of staff must approve it.")
    return asked, is_new


def approve(id: UUID, *, by: User) -> int:
    """Remove the second factors, and return how many. Raises ApprovalRefused, SecondFactorRequest.DoesNotExist."""
    with transaction.atomic():
        user_id = SecondFactorRequest.objects.get(pk=id).user_id
        asked = approvals.lock(SecondFactorRequest, id, by.pk, user_id)
        if reason := refusal(asked, by):
            raise ApprovalRefused(reason)
        removed = second_factor.remove_all(asked.user)
        approvals.decide(asked, Decision.APPROVED, by)
        _tell(asked, "Two-factor authentication was removed by support. Set it up again after signing in.")
    return removed


def refusal(asked: SecondFactorRequest, by: User) -> str:
    """Return why ``by`` cannot approve the request, or ''."""
    if reason := approvals.refusal(asked, by):
        return reason
    if by == asked.user:
        return "This is about your own second factor. Someone else must approve it."
    if not staff_permissions.may_change_user(by, asked.user):
        return f"{asked.user} has permissions that you lack."
    if not asked.account.members.filter(pk=asked.user.pk).exists():
        return f"{asked.user} is no longer a member of {asked.account}."
    return colleague_refusal(asked.user) or approvals.change_since(asked, _state(asked.user))


def colleague_refusal(user: User) -> str:
    """Return why this is not asked for as for a customer, or ''."""
    return f"{user} is staff: a superuser removes second factors of staff, in the list of users." if user.is_staff else ""


def _state(user: User) -> dict[str, Any]:
    return {f"Two-factor authentication of {user}": second_factor.ids(user), "The address of the person": user.email}


def _tell(asked: SecondFactorRequest, what: str) -> None:
    notices.tell_owners(asked.account, f"{asked.user}: {what}", but=asked.user)
    if settings.SENDS_MAIL:
        page = hosts.mailed_page("support-requests", "Two-factor authentication")
        transaction.on_commit(lambda: mails.send(asked.user.email, "second_factor_removal", what=what, page=page))
