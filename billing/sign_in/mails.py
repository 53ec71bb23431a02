"""Sends every mail of the gateway, within limits. Each is a template, whose first line is the subject.

``button`` in the context replaces the usual label of the link's button. Mails are limited for each mailbox and day, and for the
gateway and hour: apart for each ``Cause``, so that strangers cannot use up the limits of others. Notices of security are
limited for each address alone, so that no other mail can hold them back.
"""

import logging
from datetime import timedelta
from enum import Enum
from functools import partial
from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse

from billing.models import User
from billing.sign_in import devices, limits, links
from gateway_project import errors, logs, mail, metrics
from gateway_project.db import pool
from gateway_project.web import hosts
from gateway_project.web.client_address import client_address

logger = logging.getLogger("gateway.sign_in")

NEW_USER_TIME = timedelta(hours=1)
_refused = logs.Repetitions()  # by a limit: strangers can ask for any number

# The text on the button of a mail, by the mail's template. A mail without a link of its own line has none.
BUTTONS = {
    "account_by_staff": "Open settings",
    "account_closed": "Open settings",
    "address_changed": "Undo the change",
    "change_asked": "Stop the change",
    "change_of_address": "Confirm this address",
    "changed": "Change your password",
    "code_used_again": "Change your password",
    "handed_over": "Open the account",
    "export_ready": "Download the export",
    "invitation": "Choose a password",
    "member_invitation": "Join the account",
    "members_changed": "View members",
    "no_user": "Try another address",
    "reset": "Choose a new password",
    "second_factor_removal": "View your requests",
    "sign_up": "Confirm and choose a password",
    "sign_up_again": "Choose a new password",
    "signed_in": "Review your sessions",
    "alert": "See your alerts",
    "webhook_paused": "Open the webhook",
}


class Cause(Enum):
    """Why a mail is sent. Each cause has limits of its own."""

    EVENT = "what happened"
    SECURITY = "what happened to the sign-in of the user"
    STRANGER = "what strangers asked for"
    KNOWN_DEVICE = "what was asked for on a known device of the user"


class NotSent(Exception):
    """The mail could not be sent; says why."""


def send(email: str, template: str, **context: Any) -> bool:
    """Send the mail, as ``deliver`` does. Return False if that was not possible."""
    try:
        deliver(email, template, **context)
    except NotSent:
        return False
    return True


def send_once_committed(email: str, template: str, **context: Any) -> None:
    """Send the mail once the transaction is committed, where there is a mail server."""
    if settings.SENDS_MAIL:
        transaction.on_commit(partial(send, email, template, **context))


def deliver(email: str, template: str, *, cause: Cause = Cause.EVENT, **context: Any) -> None:
    """Send the mail. A ``message_id`` is its header of that name. Raises NotSent, and logs why."""
    try:
        _count(email, cause)
        _write(email, template, context).send()
    except (OSError, SMTPException, mail.NoMailServer, errors.RateLimitExceeded) as error:
        is_limited = isinstance(error, errors.RateLimitExceeded)
        repeated = _refused.count(str(error)) if is_limited else 0
        level = logging.INFO if repeated is None else logging.ERROR
        logger.log(level, "a mail to %s could not be sent: %s", email, error, extra={"user": email, "repeated": repeated})
        raise NotSent(str(error) if is_limited else "the mail server did not take it") from None


def _write(email: str, template: str, context: dict[str, Any]) -> EmailMultiAlternatives:
    """Return the mail as text, and as HTML of the same: paragraphs, and the one that is the link alone as a button."""
    first, _, body = render_to_string(f"mail/{template}.txt", {"email": email, **context}).partition("\n")
    advice = f"\nQuestions? Write to {settings.SUPPORT_ADDRESS}.\n" if settings.SUPPORT_ADDRESS else ""
    subject, text = first.strip(), f"{body.strip()}\n{advice}"
    headers = {"Message-ID": context["message_id"]} if "message_id" in context else None
    message = EmailMultiAlternatives(subject, text, None, [email], headers=headers)
    button = context.get("button") or BUTTONS.get(template, "")
    link = context.get("link", "") if button else ""
    is_address = link.startswith(("https://", "http://"))
    parts = [part.strip() for part in text.split("\n\n")]
    paragraphs = [{"text": part, "is_button": is_address and part == link} for part in parts if part]
    html = render_to_string("mail/frame.html", {"subject": subject, "paragraphs": paragraphs, "button": button})
    message.attach_alternative(html, "text/html")
    return message


def send_link(request: HttpRequest, email: str, template: str, purpose: links.Purpose, key: str, **context: Any) -> bool:
    """Send a mail with a link that the request leads to. Return False if that was not possible. ``cause`` as of ``send``."""
    # What the link proves stands behind its ?, which no log has.
    return send_path(request, email, template, f"{reverse(purpose.page)}?key={key}", **context)


def send_path(
    request: HttpRequest, email: str, template: str, path: str, *, cause: Cause | None = None, **context: Any
) -> bool:
    """The same, of a page that needs no key."""
    try:
        link = f"{hosts.mailed_base_url(request)}{path}"
    except hosts.NoBaseHost as error:
        logger.error("a mail to %s could not be sent: %s", email, error, extra={"user": email})
        return False
    asker = Cause.KNOWN_DEVICE if devices.find_device(request, email) else Cause.STRANGER
    return send(email, template, cause=cause or asker, link=link, **context)


def _count(email: str, cause: Cause) -> None:
    """Count the mail against its limits. One that is refused uses up nothing. Raises RateLimitExceeded."""
    counted: list[limits.Limit] = []
    if cause is Cause.SECURITY:
        applied = {"mailbox": limits.security_limit(email)}
    else:
        applied = {"mailbox": limits.mailbox_limit(email, cause.value), "gateway": limits.mails_limit(cause.value)}
    for name, limit in applied.items():
        try:
            limits.count_attempt([limit])
        except errors.RateLimitExceeded:
            limits.give_back_attempt(counted)
            metrics.mails_refused_total.labels(name).inc()
            raise errors.RateLimitExceeded(f"the limit of mails of the {name} is reached") from None
        counted.append(limit)


def notify_of_sign_in(request: HttpRequest, user: User) -> None:
    """Tell the user of a sign-in with a browser not seen before; not whoever has just signed up with it."""
    now = pool.database_time()
    if not settings.SENDS_MAIL or now - user.date_joined < NEW_USER_TIME:
        return
    browser = devices.describe_browser(request.META.get("HTTP_USER_AGENT", ""))
    facts = {"at": now, "address": client_address(request) or "an unknown address", "browser": browser}
    send_path(request, user.email, "signed_in", reverse("usersessions_list"), cause=Cause.SECURITY, **facts)


def notify(user: User, change: str) -> None:
    """Tell the user, once the transaction is committed, what was changed about their sign-in, such as "Added a passkey."."""
    link = hosts.mailed_page("password", "the page Password of the dashboard")
    send_once_committed(user.email, "changed", cause=Cause.SECURITY, change=change, link=link)
