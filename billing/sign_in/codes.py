"""Codes of authenticator apps (TOTP): each counts once, however it is written, in all processes.

The user's row has the last step of 30 seconds that was accepted. Allauth remembers used codes in one process only.
"""

import logging
import unicodedata

from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from django.conf import settings
from django.db.models import Q
from django.utils.crypto import constant_time_compare

from billing.models import User
from billing.sign_in import mails

logger = logging.getLogger("gateway.sign_in")


def normalize(typed: str) -> str:
    """Return a code without spaces, hyphens and the like, with ASCII digits."""
    text = unicodedata.normalize("NFKC", typed)
    return "".join(str(unicodedata.decimal(character, character)) for character in text if character.isalnum())


def find_step(user: User, code: str) -> int | None:
    """Return the step whose code of the user's app this is; None: it is no code of the app at this time."""
    app = Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).first()
    return match(get_adapter().decrypt(app.data["secret"]), code) if app else None


def match(secret: str, code: str) -> int | None:
    """Return the step, near to now, whose code this is."""
    for step in auth.yield_hotp_counters_from_time():
        if constant_time_compare(auth.format_hotp_value(auth.hotp_value(secret, step)), code):
            return int(step)
    return None


def use_step(user: User, step: int) -> bool:
    """Use up the step and all before it. Return False if that was done before.

    A later step than now was used by a wrong clock, and does not lock the user out.
    """
    latest = max(auth.yield_hotp_counters_from_time())
    unused = User.objects.filter(Q(last_code_step__lt=step) | Q(last_code_step__gt=latest), pk=user.pk)
    return bool(unused.update(last_code_step=step))


def tell_of_second_use(user: User) -> None:
    """Log that a code was tried a second time, and tell the user: someone else may have read it."""
    logger.warning("a code of %s was tried a second time", user.email, extra={"user": user.email})
    if settings.SENDS_MAIL:
        mails.send(user.email, "code_used_again")
