"""Mails about signing in: the text of each is a template, whose first line is the subject."""

import logging
from functools import partial
from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.template.loader import render_to_string

from billing.models import User
from gateway_project import mail

logger = logging.getLogger("gateway.sign_in")


def send(email: str, template: str, **context: Any) -> bool:
    """Send the mail. Return False, and log why, if that was not possible. A ``message_id`` is its header of that name."""
    text = render_to_string(f"mail/{template}.txt", {"email": email, **context})
    subject, _, body = text.partition("\n")
    try:
        headers = {"Message-ID": context["message_id"]} if "message_id" in context else None
        EmailMessage(subject.strip(), f"{body.strip()}\n{_help()}", None, [email], headers=headers).send()
    except (OSError, SMTPException, mail.NoMailServer) as error:
        logger.error("a mail to %s could not be sent: %s", email, error, extra={"user": email})
        return False
    return True


def _help() -> str:
    return f"\nQuestions? Write to {settings.SUPPORT_ADDRESS}.\n" if settings.SUPPORT_ADDRESS else ""


def notify(user: User, change: str) -> None:
    """Tell the user, once the transaction is committed, what was changed about their sign-in, such as "Added a passkey."."""
    if settings.SENDS_MAIL:
        transaction.on_commit(partial(send, user.email, "changed", change=change))
