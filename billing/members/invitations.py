"""Links by which people join an account, once and within their time, in the role that an owner chose.

A link is sent by mail and joins only the invited address. It is stored as a digest; every act on it holds the account's lock.
"""

import secrets

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from billing import locks, staff_permissions
from billing.accounts import roles
from billing.members import notices
from billing.models import Account, Invitation, Membership, Role, User
from billing.sign_in import links, mails
from gateway_project.activity import log
from gateway_project.db import cell, pool


class InvitationRefused(Exception):
    """The person was not invited, or did not join; says why, as a sentence."""


class InvitationEnded(LookupError):
    """The link was used or revoked, its time is over, or the user has another address than the invited one."""


def invite(request: HttpRequest, account: Account, email: str, role: Role) -> bool:
    """Send a link, which replaces an earlier one. Return False if the mail could not be sent; the link is revoked then.

    Must not run in a transaction, because the mail server may take long. Raises InvitationRefused.
    """
    secret = secrets.token_urlsafe(32)
    with transaction.atomic():
        locks.lock_account(account.pk)
        _check(request, account, email)
        _end(find_waiting(account).filter(email=email))
        if account.memberships.count() + find_waiting(account).count() >= settings.ACCOUNT_PEOPLE_MAX:
            raise InvitationRefused(
                f"An account has at most {settings.ACCOUNT_PEOPLE_MAX} members, with those who are invited."
                " Revoke an invitation or remove a member first."
            )
        invitation = _make(request, account, email, role, secret)
    details = {"account": account, "inviter": request.user, "role": role}
    key = links.make(links.Purpose.JOIN, {"secret": secret}, bound_to=invitation.invited_by)
    is_sent = mails.send_link(request, email, "member_invitation", links.Purpose.JOIN, key, **details)
    if not is_sent:
        revoke(request, invitation)
    return is_sent


def _check(request: HttpRequest, account: Account, email: str) -> None:
    """Ask again what the page asked before, now under the lock. Raises InvitationRefused."""
    if not roles.may(request.user, account, roles.Permission.MANAGE_MEMBERS):  # type: ignore[arg-type]
        raise InvitationRefused("You are no longer an owner of the account.")
    if account.memberships.filter(user__email=email).exists():
        raise InvitationRefused(f"{email} is already a member.")


def _make(request: HttpRequest, account: Account, email: str, role: Role, secret: str) -> Invitation:
    assert isinstance(request.user, User)
    invitation = Invitation.objects.create(
        account=account,
        email=email,
        role=role,
        digest=links.digest(secret),
        invited_by=request.user,
        expires_at=pool.database_time() + links.Purpose.JOIN.life,
    )
    log.record(request, log.Act.MEMBER_INVITED, invitation, f"Invited {email} to be {role.label}.")
    return invitation


def find_waiting(account: Account) -> QuerySet[Invitation]:
    """Return the account's invitations that were neither accepted nor revoked, also those whose time is over."""
    return account.invitations.filter(accepted_at=None, revoked_at=None)


def find(key: str) -> Invitation | None:
    link = links.read(links.Purpose.JOIN, key)
    if link is None:
        return None
    cell.enter(Invitation.cell_of(links.digest(link.facts["secret"])))
    found = Invitation.objects.filter(digest=links.digest(link.facts["secret"]), accepted_at=None, revoked_at=None)
    return found.filter(expires_at__gt=pool.database_time()).select_related("account").first()


def accept(request: HttpRequest, key: str, user: User) -> Account:
    """Make the user a member. Who is one already keeps their role. Raises InvitationEnded, InvitationRefused."""
    with transaction.atomic():
        invitation = _find(key)
        locks.lock_users([user.pk, invitation.invited_by_id])
        account = locks.lock_account(invitation.account_id)
        invitation = _find(key)  # again: someone may have used or ended it before the locks
        if not User.objects.filter(pk=user.pk, email=invitation.email, is_active=True).exists():
            raise InvitationEnded
        if refusal := staff_permissions.credit_refusal(user, account):
            raise InvitationRefused(refusal)
        membership, is_new = Membership.objects.get_or_create(account=account, user=user, defaults={"role": invitation.role})
        Invitation.objects.filter(pk=invitation.pk).update(accepted_at=pool.database_time())
        if is_new:
            summary = f"{user} joined as {Role(invitation.role).label}, invited by {invitation.invited_by}."
            log.record(request, log.Act.MEMBER_JOINED, membership, summary)
            notices.tell_owners(account, summary, but=user)
    return account


def sign_up(request: HttpRequest, key: str, password_hash: str) -> None:
    """Make a user of the invited address, and a member. Raises InvitationEnded, also if there is such a user meanwhile."""
    try:
        with transaction.atomic():
            invitation = _find(key)
            user = User.objects.create(email=invitation.email, password=password_hash)
            summary = "Signed up with an invitation."
            log.record(request, log.Act.ADDED, user, summary, account_id=invitation.account_id)
            accept(request, key, user)
    except IntegrityError:
        raise InvitationEnded from None


def revoke(request: HttpRequest, invitation: Invitation) -> bool:
    """Revoke the invitation. Return False, and record nothing, if it no longer waits."""
    with transaction.atomic():
        account = locks.lock_account(invitation.account_id)
        is_revoked = bool(_end(find_waiting(account).filter(pk=invitation.pk)))
        if is_revoked:
            summary = f"Revoked the invitation of {invitation.email}."
            log.record(request, log.Act.MEMBER_UNINVITED, invitation, summary)
    return is_revoked


def _find(key: str) -> Invitation:
    invitation = find(key)
    if invitation is None:
        raise InvitationEnded
    return invitation


def _end(invitations: QuerySet[Invitation]) -> int:
    return invitations.update(revoked_at=pool.database_time())
