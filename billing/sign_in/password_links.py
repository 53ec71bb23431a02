"""Links by which users set a password, once. Those that staff send have a row, to be seen and revoked."""

import secrets

from allauth.socialaccount.models import SocialAccount
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from billing.models import PasswordLink, User
from billing.sign_in import identities, links, mails
from gateway_project.activity import log
from gateway_project.db import pool


def invite(request: HttpRequest, user: User, sender: User) -> bool:
    """Send the user a link, which replaces earlier ones; not in a transaction. Return False, and revoke it, if that failed."""
    secret, now = secrets.token_urlsafe(32), pool.database_time()
    with transaction.atomic():
        PasswordLink.objects.filter(user=user, used_at=None, revoked_at=None).update(revoked_at=now)
        expires_at = now + links.Purpose.SET_PASSWORD.life
        PasswordLink.objects.create(user=user, digest=links.digest(secret), sent_by=sender, expires_at=expires_at)
        log.record(request, log.Act.INVITED, user, f"Sent {user} a link to set a password.")
    key = links.make(links.Purpose.SET_PASSWORD, {"secret": secret}, bound_to=user)
    is_sent = mails.send_link(request, user.email, "invitation", links.Purpose.SET_PASSWORD, key)
    if not is_sent:
        revoke(request, PasswordLink.objects.filter(user=user))
    return is_sent


def send_reset(request: HttpRequest, email: str) -> None:
    """Send the user with this address a link. Someone who is no user gets a mail at the same cost, and cannot be told apart."""
    user = User.objects.filter(email=email, is_active=True).first()
    key = reset_key(user or User(email=email))
    path = f"{reverse(links.Purpose.RESET_PASSWORD.page)}?key={key}" if user else reverse("account_reset_password")
    mails.send_path(request, email, "reset" if user else "no_user", path)


def reset_key(user: User) -> str:
    """Return the key of a link that sets the user's password. It works once, because it is bound to the present one."""
    return links.make(links.Purpose.RESET_PASSWORD, {}, bound_to=user)


def find_user(key: str) -> User | None:
    """Return the user whose password the link sets, if it is open."""
    found = _read(key)
    return found.user if found else None


def _read(key: str, *, locks_user: bool = False) -> links.Link | None:
    """Return the link if it counts. A link for staff also has a row, which must be open."""
    invitation = links.read(links.Purpose.SET_PASSWORD, key, locks_user=locks_user)
    if invitation is None:
        return links.read(links.Purpose.RESET_PASSWORD, key, locks_user=locks_user)
    rows = find_open().filter(digest=links.digest(invitation.facts["secret"]))
    return invitation if (rows.select_for_update(of=("self",)) if locks_user else rows).first() else None


def find_open() -> QuerySet[PasswordLink]:
    open = {"used_at": None, "revoked_at": None, "user__is_active": True}
    return PasswordLink.objects.filter(**open, expires_at__gt=pool.database_time())


def use(request: HttpRequest, key: str, password_hash: str) -> bool:
    """Set the password of the link's user. Return False if the link was used, or revoked, meanwhile."""
    with transaction.atomic():
        link = _read(key, locks_user=True)
        if link is None or link.user is None:
            return False
        user, digest = link.user, links.digest(link.facts.get("secret", ""))
        invitation = PasswordLink.objects.filter(digest=digest).select_related("sent_by").first()
        PasswordLink.objects.filter(digest=digest).update(used_at=pool.database_time())
        User.objects.filter(pk=user.pk).update(password=password_hash)
        links.void(user)
        found = [identities.describe(identity) for identity in SocialAccount.objects.filter(user=user)]
        # Someone else may have connected an identity.
        others = f" Anyone signed in at {' or '.join(found)} can sign in as you." if found else ""
        mails.notify(user, f"The password was set with a link.{others}")
        sender = f"that {invitation.sent_by} had sent" if invitation else "that was asked for on the page of sign-in"
        log.record(request, log.Act.PASSWORD_CHANGED, user, f"Set the password with a link {sender}.")
    return True


def revoke(request: HttpRequest, chosen: QuerySet[PasswordLink]) -> int:
    """Revoke those of the links that are open. Return how many."""
    with transaction.atomic():
        revoked = list(find_open().filter(pk__in=chosen.values("pk")).select_for_update(of=("self",)).select_related("user"))
        PasswordLink.objects.filter(pk__in=[link.pk for link in revoked]).update(revoked_at=pool.database_time())
        for link in revoked:
            log.record(request, log.Act.INVITATION_REVOKED, link.user, f"Revoked the link for {link.user}.")
    return len(revoked)
