"""Another role for a member, and the end of a membership, under the account's lock: of two owners who leave, one stays."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest

from billing import locks, staff_permissions
from billing.accounts import lifecycle, roles
from billing.members import invitations, notices
from billing.models import Membership, Role
from gateway_project.activity import log


class ChangeRefused(Exception):
    """The membership stays as it is; says why, as a sentence."""


def change_role(request: HttpRequest, membership: Membership, role: Role) -> None:
    """Give the member this role. The last active owner stays one. Raises ChangeRefused."""
    with transaction.atomic():
        member = _lock(request, membership)
        former = Role(member.role)
        if former == role:
            return
        _give_up_ownership(request, member)
        member.role = role
        member.save(update_fields=["role"])
        summary = f"Changed the role of {member.user} from {former.label} to {role.label}."
        values: Any = {"before": {"role": former}, "after": {"role": role}}
        is_less = roles.PERMISSIONS[role] < roles.PERMISSIONS[former]
        log.record(request, log.Act.MEMBER_CHANGED, member, summary, is_defence=is_less, **values)
        change = f"Your role is now {role.label}, no longer {former.label}. Changed by {request.user}."
        notices.tell([member.user.email], member.account, change)


def end_membership(request: HttpRequest, membership: Membership) -> None:
    """Remove the member, or let them leave. The last active owner stays. Raises ChangeRefused."""
    with transaction.atomic():
        with lifecycle.closing_abandoned([membership.account_id]) as closed:
            member = _lock(request, membership)
            if is_own(request, member) and member.user.is_staff:
                raise ChangeRefused(staff_permissions.OWN_MEMBERSHIP)  # else they could leave and credit the account
            _give_up_ownership(request, member)
            summary = "Left the account." if is_own(request, member) else f"Removed {member.user} from the account."
            log.record(request, log.Act.MEMBER_REMOVED, member, summary, before={"role": member.role})
            if is_own(request, member):
                notices.tell_owners(member.account, f"{member.user} has left.", but=member.user)
            else:
                notices.tell([member.user.email], member.account, f"You are no longer a member. Changed by {request.user}.")
            member.delete()
        for account in closed:
            log.record(request, log.Act.CLOSED, account, "Closed, because no member is active.")


def is_own(request: HttpRequest, membership: Membership) -> bool:
    """Say whether the membership is that of whoever asks."""
    return membership.user_id == request.user.pk


def is_last_owner(membership: Membership) -> bool:
    """Say whether the account would have no active owner without this one. Certain only under the account's lock."""
    owners = Membership.objects.filter(account=membership.account_id, role=Role.OWNER, user__is_active=True)
    return membership.role == Role.OWNER and not owners.exclude(pk=membership.pk).exists()


def _lock(request: HttpRequest, membership: Membership) -> Membership:
    """Lock the account, and ask again what the page asked before. Raises ChangeRefused."""
    account = locks.lock_account(membership.account_id)
    member = Membership.objects.select_related("user").filter(pk=membership.pk, account=account).first()
    if member is None:
        raise ChangeRefused(f"{membership.user} is no longer a member.")
    if not is_own(request, member) and not roles.may(request.user, account, roles.Permission.MANAGE_MEMBERS):  # type: ignore[arg-type]
        raise ChangeRefused("You are no longer an owner of the account.")
    return member


def _give_up_ownership(request: HttpRequest, member: Membership) -> None:
    if is_last_owner(member):
        raise ChangeRefused(f"{member.user} is the last owner. Make someone else an owner first.")
    if member.role == Role.OWNER:
        for invitation in invitations.find_waiting(member.account).filter(invited_by=member.user):
            invitations.revoke(request, invitation)
