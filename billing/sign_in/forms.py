"""Allauth's forms that sign in, with the gateway's limits.

A code of an authenticator app (TOTP) counts once, however it is written, in all processes: the user's row has the last step of
30 seconds that was accepted. Allauth remembers used codes in one process only.
"""

import logging
import unicodedata
from typing import Any

from allauth.account.forms import LoginForm
from allauth.core import context
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal import auth
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django import forms
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils.crypto import constant_time_compare

from billing import email_addresses, locks
from billing.models import User
from billing.sign_in import backend, limits, mails
from gateway_project.web import hosts

logger = logging.getLogger("gateway.sign_in")

_CODE_INPUT = forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True})


class SignInForm(LoginForm):
    """Takes any text as the address, so that each attempt reaches the limits and the log as it was typed."""

    password = forms.CharField(strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"] = forms.CharField(
            label="Email address",
            max_length=email_addresses.CHARACTERS_MAX,
            widget=forms.EmailInput(attrs={"autocomplete": "username webauthn", "autofocus": True}),
        )


class CodeForm(AuthenticateForm):
    """A code of an app, which counts once, or a recovery code. Guessing is limited for each user."""

    code = forms.CharField(max_length=20, widget=_CODE_INPUT)

    def clean_code(self) -> str:
        limit = limits.second_factor_limit(self.user.pk)
        limits.count_attempt([limit])
        try:
            code = self._accept(_normalize(self.cleaned_data["code"]))
        except forms.ValidationError:
            backend.log_failure(context.request, self.user.email, "failed at two-factor authentication")
            raise
        limits.give_back_attempt([limit])
        return code

    def _accept(self, code: str) -> str:
        """Accept the code once, under a lock. Raises ValidationError."""
        self.cleaned_data["code"] = code
        with transaction.atomic():
            locks.lock_users([self.user.pk])
            step = find_step(self.user, code)
            is_used = step is not None and not use_step(self.user, step)
            if not is_used:
                return str(super().clean_code())
        # Someone else may have read it.
        logger.warning("a code of %s was tried a second time", self.user.email, extra={"user": self.user.email})
        if settings.SENDS_MAIL:
            mails.send(self.user.email, "code_used_again", link=hosts.mailed_page("password", "the page Password"))
        raise forms.ValidationError("This code was already used. Wait for the next one.")


class NewAppForm(ActivateTOTPForm):
    """The first code of a new app. It counts once, too."""

    def clean_code(self) -> str:
        self.cleaned_data["code"] = _normalize(self.cleaned_data["code"])
        code: str = super().clean_code()
        if step := _match(self.secret, code):
            use_step(self.user, step)
        return code


class NewPasskeyForm(AddWebAuthnForm):
    """A passkey. Unless told otherwise it also signs in by itself."""

    name = forms.CharField(required=False, max_length=100, help_text="To recognize it later, such as “laptop”.")
    passwordless = forms.BooleanField(
        label="Sign in with it alone, without email address and password",
        required=False,
        initial=True,
        help_text="Your device asks for your fingerprint, face or PIN each time.",
    )


def _normalize(typed: str) -> str:
    """Return a code without spaces, hyphens and the like, with ASCII digits."""
    text = unicodedata.normalize("NFKC", typed)
    return "".join(str(unicodedata.decimal(character, character)) for character in text if character.isalnum())


def find_step(user: User, code: str) -> int | None:
    """Return the step whose code of the user's app this is; None: it is no code of the app at this time."""
    app = Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).first()
    return _match(get_adapter().decrypt(app.data["secret"]), code) if app else None


def _match(secret: str, code: str) -> int | None:
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
