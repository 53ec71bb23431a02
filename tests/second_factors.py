"""Second factors of users in tests: an authenticator app, as a telephone has it."""

import time

from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from django.db import transaction

from billing.models import User
from billing.sign_in.adapter import SecondFactorAdapter

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def give_app(user: User) -> None:
    """Give the user an app with SECRET."""
    sealed = SecondFactorAdapter().encrypt(SECRET)
    with transaction.atomic():  # which also holds the record of it
        Authenticator.objects.create(user=user, type=Authenticator.Type.TOTP, data={"secret": sealed})


def code(secret: str = SECRET, *, seconds: int = 0) -> str:
    """Return what the app shows, now or in so many seconds."""
    return code_of(int(time.time() + seconds) // 30, secret)


def code_of(step: int, secret: str = SECRET) -> str:
    """Return what the app shows in a step, which has 30 seconds."""
    return auth.format_hotp_value(auth.hotp_value(secret, step))
