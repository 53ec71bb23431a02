"""Where mail goes: to GATEWAY_SMTP_HOST; on a developer's machine without one, to the console and to files, which
``gateway_project.web.mailbox`` shows.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.core.mail.backends.smtp import EmailBackend
from django.http import HttpRequest

from gateway_project import identifiers
from gateway_project.db import pool


class NoMailServer(Exception):
    """Mail cannot be sent: GATEWAY_SMTP_HOST is not set."""


class SMTPBackend(EmailBackend):
    """Django's, without a database connection while the server answers."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        pool.release_connection()
        return super().send_messages(email_messages) or 0


class DirectoryBackend(BaseEmailBackend):
    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        directory = Path(settings.MAIL_DIR or "")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for message in email_messages:
            (directory / f"{identifiers.uuid7()}.eml").write_bytes(message.message().as_bytes())
            sys.stderr.write(f"Mail to {', '.join(message.to)}: {message.subject}\n{message.body}\n")
        return len(email_messages)


class NoBackend(BaseEmailBackend):
    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        raise NoMailServer("GATEWAY_SMTP_HOST is not set")


def context(request: HttpRequest) -> dict[str, Any]:
    """Give templates the address of support, whether mail is sent and can be read here, and whether people may sign up."""
    return {
        "support_address": settings.SUPPORT_ADDRESS,
        "sends_mail": settings.SENDS_MAIL,
        "has_mailbox": settings.MAIL_DIR is not None,
        "is_sign_up_open": settings.SIGN_UP and settings.SENDS_MAIL,
    }
