"""Links in mails. Each is signed, expires, and is bound to the credentials of the user on whose behalf it was sent.

A new password or email address makes all earlier links of a user void, because the stamp in a link is made from both. ``void``
ends them when someone else may have had a session: such a person may have sent a link to themselves.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.core import signing
from django.db.models import F
from django.utils.crypto import constant_time_compare, salted_hmac

from billing import locks
from billing.models import Invitation, Membership, PasswordLink, User
from gateway_project.db import everywhere, pool

_SALT = "billing.sign_in.links"


class Purpose(Enum):
    """The purpose of a link, the name of its page, and how long it works."""

    SET_PASSWORD = "password-link", timedelta(days=7)
    RESET_PASSWORD = "password-link", timedelta(hours=1)
    SIGN_UP = "sign-up-link", timedelta(days=1)
    CHANGE_ADDRESS = "account_confirm_email", timedelta(days=1)
    UNDO_ADDRESS = "undo-address", timedelta(days=30)  # ``addresses`` says until when: 7 days after the change
    JOIN = "join", timedelta(days=7)

    def __init__(self, page: str, life: timedelta) -> None:
        self.page, self.life = page, life


@dataclass(frozen=True, slots=True)
class Link:
    """The facts of a link that counts, and the user it is bound to; None if no user can void the link."""

    facts: dict[str, Any]
    user: User | None


def make(purpose: Purpose, facts: dict[str, Any], *, bound_to: User | None) -> str:
    """Return the key of a link, bound to None if it is for someone who is no user yet, or if no user may void it."""
    binding = None if bound_to is None else [bound_to.pk, _stamp(bound_to)]
    return _signer(purpose).sign_object([facts, binding])


def read(purpose: Purpose, key: str, *, locks_user: bool = False) -> Link | None:
    """Return what the link says, if it is ours, in its time and not void. ``locks_user`` keeps it so during a transaction."""
    try:
        facts, binding = _signer(purpose).unsign_object(key, max_age=purpose.life)
    except signing.BadSignature:
        return None
    if binding is None:
        return Link(facts, None)
    user_id, stamp = binding
    if locks_user:
        locks.lock_users([user_id])
    user = User.objects.filter(pk=user_id, is_active=True).first()
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]  # the stamp may be of any
    return Link(facts, user) if user and any([constant_time_compare(stamp, _stamp(user, each)) for each in secrets]) else None


def digest(secret: str) -> str:
    """Return what rows keep of the secret in a link."""
    return sha256(secret.encode()).hexdigest()


def void(user: User) -> None:
    """Make all links void that were mailed on the user's behalf, also their invitations of others. Locks the user."""
    locks.lock_users([user.pk])
    User.objects.filter(pk=user.pk).update(links_generation=F("links_generation") + 1)
    user.refresh_from_db(fields=["links_generation"])
    ended = {"revoked_at": pool.database_time()}
    PasswordLink.objects.filter(user=user, used_at=None, revoked_at=None).update(**ended)
    invitations = Invitation.objects.filter(invited_by=user, accepted_at=None, revoked_at=None)
    everywhere.run(lambda: invitations.update(**ended), numbers=Membership.cells_of(user.pk))


def _signer(purpose: Purpose) -> signing.TimestampSigner:
    return signing.TimestampSigner(salt=f"{_SALT}.{purpose.name}", sep=".")  # in addresses as it is


def _stamp(user: User, secret: str | None = None) -> str:
    credentials = f"{user.pk} {user.links_generation} {user.email} {user.password}"
    return salted_hmac(_SALT, credentials, secret, algorithm="sha256").hexdigest()
