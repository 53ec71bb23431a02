"""Links by which users set a password, once and within their time: invitations, and for those who forgot the password."""

import secrets
from datetime import timedelta
from hashlib import sha256
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse

from billing.models import PasswordLink, User
from billing.sign_in import identities, mails
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from gateway_project.web import hosts

INVITATION_LIFE, RESET_LIFE = timedelta(days=7), timedelta(hours=1)
_OPEN = Q(used_at=None, revoked_at=None, user__is_active=True)


def invite(request: HttpRequest, user: User, sender: User) -> bool:
    """Send the user a link, which replaces earlier ones. Return False if the mail could not be sent; the link is revoked then.

    Must not run in a transaction, because the mail server may take long.
    """
    with transaction.atomic():
        secret = _make(user, INVITATION_LIFE, sent_by=sender)
        log.record(request, Activity.Act.INVITED, user, f"Sent {user} a link to set a password.")
    is_sent = mails.send(user.email, "invitation", link=_link(request, secret))
    if not is_sent:
        revoke(request, PasswordLink.objects.filter(user=user))
    return is_sent


def send_reset(request: HttpRequest, email: str) -> None:
    """Send the user with this address a link. Somebody who is no user gets a mail, too, so that nobody learns who is one."""
    user = User.objects.filter(email=email, is_active=True).first()
    if user is None:
        mails.send(email, "no_user", base_url=hosts.base_url(request))
    else:
        mails.send(email, "reset", link=_link(request, _make(user, RESET_LIFE, sent_by=None)))


def find(secret: str) -> PasswordLink | None:
    """Return the link, if it is open."""
    return find_open().filter(digest=_digest(secret)).select_related("user").first()


def find_open() -> QuerySet[PasswordLink]:
    """Return the links that can be used now."""
    return PasswordLink.objects.filter(_OPEN, expires_at__gt=pool.database_time())


def use(request: HttpRequest, secret: str, password_hash: str) -> bool:
    """Set the password of the link's user. Return False if the link was used, or revoked, meanwhile."""
    with transaction.atomic():
        link = find_open().filter(digest=_digest(secret)).select_for_update(of=("self",)).first()
        if link is None:
            return False
        User.objects.filter(pk=link.user_id).update(password=password_hash)
        _end([link.pk], used_at=pool.database_time())
        sender = f"that {link.sent_by} had sent" if link.sent_by else "that was asked for on the page of sign-in"
        mails.notify(link.user, " ".join(["The password was set with a link.", *_other_ways(link.user)]))
        log.record(request, Activity.Act.PASSWORD_CHANGED, link.user, f"Set the password with a link {sender}.")
    return True


def _other_ways(user: User) -> list[str]:
    """Say what else signs the user in: somebody else may have connected it."""
    found = [identities.describe(identity) for identity in SocialAccount.objects.filter(user=user)]
    return [f"Who is signed in at {' or '.join(found)} signs in as you, too."] if found else []


def revoke(request: HttpRequest, links: QuerySet[PasswordLink]) -> int:
    """Revoke those of the links that are open. Return how many."""
    with transaction.atomic():
        revoked = list(find_open().filter(pk__in=links.values("pk")).select_for_update(of=("self",)).select_related("user"))
        _end([link.pk for link in revoked], revoked_at=pool.database_time())
        for link in revoked:
            log.record(request, Activity.Act.INVITATION_REVOKED, link.user, f"Revoked the link for {link.user}.")
    return len(revoked)


def _make(user: User, life: timedelta, *, sent_by: User | None) -> str:
    secret = secrets.token_urlsafe(32)
    now = pool.database_time()
    PasswordLink.objects.filter(user=user, used_at=None, revoked_at=None).update(revoked_at=now)
    PasswordLink.objects.create(user=user, digest=_digest(secret), sent_by=sent_by, expires_at=now + life)
    return secret


def _end(ids: list[Any], **moment: Any) -> None:
    PasswordLink.objects.filter(pk__in=ids).update(**moment)


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _link(request: HttpRequest, secret: str) -> str:
    """Return the address. The secret stands behind its ``?``, which no log has."""
    return f"{hosts.base_url(request)}{reverse('password-link')}?key={secret}"
