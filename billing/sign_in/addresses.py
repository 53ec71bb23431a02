"""E-mail addresses that their owners prove with a link: of new people who sign up, and of users who change theirs.

The links are signed and stored nowhere: whoever does not open one leaves no row. Each works once, because what it does can be
done once.
"""

from typing import Any

from django.conf import settings
from django.core import signing
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.urls import reverse

from billing import accounts
from billing.models import Invitation, User
from billing.sign_in import mails
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from gateway_project.web import hosts

_SIGN_UP, _CHANGE = "billing.sign_in.sign_up", "billing.sign_in.change_of_address"  # salts
_SECONDS = 86_400


def may_sign_up(email: str) -> bool:
    """Return whether people with such an address may sign up without an invitation."""
    domains = settings.SIGN_UP_DOMAINS
    return settings.SIGN_UP and (not domains or email.rpartition("@")[2] in domains)


def is_invited(email: str) -> bool:
    """Return whether an invitation to join an account waits for somebody with this address."""
    waiting = Invitation.objects.filter(email=email, accepted_at=None, revoked_at=None)
    return waiting.filter(expires_at__gt=pool.database_time()).exists()


def send_sign_up(request: HttpRequest, email: str) -> None:
    """Send a link that opens an account. Whoever has one is told so by mail: nobody else learns that."""
    if User.objects.filter(email=email).exists():
        mails.send(email, "sign_up_again", link=_address(request, "account_reset_password"))
    else:
        mails.send(email, "sign_up", link=_link(request, "sign-up-link", {"email": email}, _SIGN_UP))


def read_sign_up(key: str) -> str | None:
    """Return the address that a link proves, if it is open and still that of nobody."""
    facts = _read(key, _SIGN_UP)
    email = facts and facts["email"]
    return email if email and may_sign_up(email) and not User.objects.filter(email=email).exists() else None


def sign_up(request: HttpRequest, email: str, password_hash: str) -> bool:
    """Make the user and an account. Return False if somebody has done so meanwhile."""
    try:
        with transaction.atomic():
            user = User.objects.create(email=email, password=password_hash)
            account, _ = accounts.open_account(email, name=email)
            log.record(request, Activity.Act.ADDED, user, "Signed up.", account_id=account.pk)
    except IntegrityError:
        return False
    return True


def send_change(request: HttpRequest, user: User, email: str) -> None:
    """Send a link to the user's new address. Somebody else's is told that it is taken."""
    if User.objects.filter(email=email).exists():
        mails.send(email, "sign_up_again", link=_address(request, "account_reset_password"))
    else:
        facts = {"user": user.pk, "from": user.email, "to": email}
        mails.send(email, "change_of_address", link=_link(request, "account_confirm_email", facts, _CHANGE))


def read_change(key: str) -> tuple[User, str] | None:
    """Return whose address a link changes, and to which, if it is open."""
    facts = _read(key, _CHANGE)
    user = facts and User.objects.filter(pk=facts["user"], email=facts["from"], is_active=True).first()
    return (user, facts["to"]) if facts and user else None


def change(request: HttpRequest, user: User, email: str) -> bool:
    """Change the user's address, and tell the former one. Return False if another user has it."""
    former = user.email
    try:
        with transaction.atomic():
            if not User.objects.filter(pk=user.pk, email=former).update(email=email):
                return False
            mails.notify(user, f"The e-mail address is now {email}.")  # to the former one, which ``user`` still has
            summary = "Changed their own e-mail address."
            log.record(request, Activity.Act.CHANGED, user, summary, before={"email": former}, after={"email": email})
    except IntegrityError:
        return False
    return True


def _link(request: HttpRequest, name: str, facts: dict[str, Any], salt: str) -> str:
    """Return the address. What it proves stands behind its ``?``, which no log has."""
    return f"{_address(request, name)}?key={signing.dumps(facts, salt=salt)}"


def _address(request: HttpRequest, name: str) -> str:
    return f"{hosts.base_url(request)}{reverse(name)}"


def _read(key: str, salt: str) -> dict[str, Any] | None:
    try:
        facts: dict[str, Any] = signing.loads(key, salt=salt, max_age=_SECONDS)
    except signing.BadSignature:
        return None
    return facts
