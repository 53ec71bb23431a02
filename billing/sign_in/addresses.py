"""Email addresses that their owners prove with a link: of new people who sign up, and of users who change theirs.

Each link works once. A sign-up leaves no row until its link is opened. The former address is told of a change, and can undo it.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.crypto import salted_hmac

from billing import email_addresses, locks
from billing.accounts import lifecycle
from billing.ledger import writer
from billing.models import AddressChange, Invitation, User
from billing.sign_in import limits, links, mails, second_factor
from billing.sign_in.links import Purpose
from gateway_project.activity import log
from gateway_project.db import everywhere, pool
from gateway_project.text import dollars

UNDO_TIME = timedelta(days=7)  # after the change


class FormerNotTold(Exception):
    """The present address could not be told that a change was asked for, so the new one was sent no link."""


def may_sign_up(email: str) -> bool:
    domains = [email_addresses.canonical_domain(domain) for domain in settings.SIGN_UP_DOMAINS]
    return settings.SIGN_UP and (not domains or email.rpartition("@")[2] in domains)


def is_invited(email: str) -> bool:
    waiting = Invitation.objects.filter(email=email, accepted_at=None, revoked_at=None)
    return any(everywhere.run(waiting.filter(expires_at__gt=pool.database_time()).exists, may_miss=True))


def send_sign_up(request: HttpRequest, email: str) -> None:
    """Send a link that opens an account. Whoever has one is told so by mail, and the page tells nothing."""
    is_taken = User.objects.filter(email=email).exists()
    key = links.make(Purpose.SIGN_UP, {"email": email}, bound_to=None)
    _send_or_tell(request, email, is_taken, "sign_up", Purpose.SIGN_UP, key)


def _send_or_tell(request: HttpRequest, email: str, is_taken: bool, template: str, purpose: Purpose, key: str) -> None:
    if is_taken:
        mails.send_path(request, email, "sign_up_again", reverse("account_reset_password"))
    else:
        mails.send_link(request, email, template, purpose, key)


def read_sign_up(key: str) -> str | None:
    """Return the address that a link proves, if it is open and no user's."""
    link = links.read(Purpose.SIGN_UP, key)
    email = link and link.facts["email"]
    return email if email and may_sign_up(email) and not User.objects.filter(email=email).exists() else None


def sign_up(request: HttpRequest, email: str, password_hash: str) -> bool:
    """Make the user and an account. Return False if that was done meanwhile."""
    try:
        with transaction.atomic():
            user = User.objects.create(email=email, password=password_hash)
            open_account(request, user, "Signed up.")
    except IntegrityError:
        return False
    return True


def open_account(request: HttpRequest, user: User, summary: str) -> None:
    """Open an account for a user who has just proved their address. Credit what the operator gives each new person to try."""
    account, _ = lifecycle.open_account(user.email, name=user.email)
    log.record(request, log.Act.ADDED, user, summary, account_id=account.pk)
    if cents := settings.TRIAL_CREDIT_CENTS:
        person = salted_hmac("trial credit", limits.mailbox(user.email), algorithm="sha256").hexdigest()
        with suppress(writer.ReferenceReused):
            entry = writer.grant_trial_credit(account.pk, amount_cents=cents, person=person).entry
            text = f"Credited {dollars.format_cents(cents)} to try, entry {entry.pk}."
            log.record(request, log.Act.CREDITED, account, text)


def ask_for_change(request: HttpRequest, user: User, email: str) -> None:
    """Send the present address a link that undoes the change, then the new one a link that confirms it. Raises FormerNotTold.

    Another user who has the new address is told so by mail; the page shows no difference. Not in a transaction: mails are slow.
    """
    is_taken = User.objects.filter(email=email).exists()
    with transaction.atomic():
        locks.lock_users([user.pk])
        # An earlier request is replaced, but no link that undoes a change.
        pending: Any = {"user": user, "changed_at": None, "undone_at": None}
        asked, _ = AddressChange.objects.update_or_create(**pending, defaults={"former": user.email, "address": email})
        log.record(request, log.Act.CHANGED, user, f"Asked to change their own email address to {email}.")
    if not tell_former(request, asked, "change_asked"):
        raise FormerNotTold
    key = links.make(Purpose.CHANGE_ADDRESS, {"change": str(asked.pk), "to": email}, bound_to=user)
    _send_or_tell(request, email, is_taken, "change_of_address", Purpose.CHANGE_ADDRESS, key)


def read_change(key: str, *, locks_user: bool = False) -> AddressChange | None:
    link = links.read(Purpose.CHANGE_ADDRESS, key, locks_user=locks_user)
    if link is None:
        return None
    asked = AddressChange.objects.filter(pk=link.facts["change"], address=link.facts["to"], changed_at=None, undone_at=None)
    return asked.select_related("user").first()


def change(request: HttpRequest, key: str) -> AddressChange | None:
    """Change the user's address by a link, and tell the former one. Return None if the link ended or another user has it."""
    try:
        with transaction.atomic():
            asked = read_change(key, locks_user=True)
            if asked is None:
                return None
            asked.changed_at = pool.database_time()
            asked.save(update_fields=["changed_at"])
            User.objects.filter(pk=asked.user_id).update(email=asked.address)
            transaction.on_commit(partial(tell_former, request, asked, "address_changed"))
            summary, before, after = "Changed their own email address.", {"email": asked.former}, {"email": asked.address}
            log.record(request, log.Act.CHANGED, asked.user, summary, before=before, after=after)
    except IntegrityError:
        return None
    return asked


def change_by_staff(user: User, former: str) -> AddressChange:
    """Note that staff changed the user's address. The former one is then to be told."""
    now = pool.database_time()
    AddressChange.objects.filter(user=user, changed_at=None, undone_at=None).update(undone_at=now)
    return AddressChange.objects.create(user=user, former=former, address=user.email, changed_at=now)


def tell_former(request: HttpRequest, asked: AddressChange, template: str) -> bool:
    """Send the former address a link that undoes the change. Return False if that was not possible."""
    if not settings.SENDS_MAIL:
        return False
    # Not bound to the user: whoever has taken the user over can void the user's links.
    key = links.make(Purpose.UNDO_ADDRESS, {"change": str(asked.pk)}, bound_to=None)
    details = {"address": asked.address, "cause": mails.Cause.SECURITY}
    return mails.send_link(request, asked.former, template, Purpose.UNDO_ADDRESS, key, **details)


def read_undo(key: str, *, locks_user: bool = False) -> AddressChange | None:
    """Return the change that a link undoes: one that was requested, or made within UNDO_TIME."""
    link = links.read(Purpose.UNDO_ADDRESS, key)
    is_open = Q(changed_at=None) | Q(changed_at__gt=pool.database_time() - UNDO_TIME)
    found = AddressChange.objects.filter(is_open, undone_at=None, user__is_active=True).select_related("user")
    asked = found.filter(pk=link.facts["change"]).first() if link else None
    if asked and locks_user:
        locks.lock_users([asked.user_id])
        return found.filter(pk=asked.pk).first()
    return asked


def undo(request: HttpRequest, key: str) -> User | None:
    """Give the user the former address back, and end all other access: sessions, password, links, later changes of the address.

    Identities and second factors that were added since the change was requested are removed, too. Return the user, who has no
    password now, or None if the link ended. Raises IntegrityError if another user has the former address.
    """
    with transaction.atomic():
        asked = read_undo(key, locks_user=True)
        if asked is None:
            return None
        user, taken = asked.user, asked.user.email
        later = AddressChange.objects.filter(user=user, pk__gte=asked.pk, undone_at=None)
        later.update(undone_at=pool.database_time())
        user.email = asked.former
        user.set_unusable_password()
        user.save(update_fields=["email", "password"])
        links.void(user)
        SocialAccount.objects.filter(user=user, date_joined__gte=asked.asked_at).delete()
        second_factor.remove_all(user, since=asked.asked_at)
        summary = "Undid the change of the email address. All sessions ended, and a new password must be set."
        before, after = {"email": taken}, {"email": user.email}
        log.record(request, log.Act.CHANGED, user, summary, before=before, after=after, is_defence=True)
    return user


def forget_old() -> int:
    """Delete what can no longer be made or undone. Return how many."""
    ended = pool.database_time() - Purpose.UNDO_ADDRESS.life
    old = AddressChange.objects.filter(Q(changed_at__lt=ended) | Q(changed_at=None, asked_at__lt=ended))
    deleted, _ = old.delete()
    return deleted
