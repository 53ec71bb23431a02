"""Allauth's forms that sign in, with the gateway's limits."""

from typing import Any

from allauth.account.forms import LoginForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django import forms
from django.db import transaction

from billing import email_addresses, locks
from billing.sign_in import backend, codes, limits

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
            code = self._accept(codes.normalize(self.cleaned_data["code"]))
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
            step = codes.find_step(self.user, code)
            is_used = step is not None and not codes.use_step(self.user, step)
            if not is_used:
                return str(super().clean_code())
        codes.tell_of_second_use(self.user)
        raise forms.ValidationError("This code was already used. Wait for the next one.")


class NewAppForm(ActivateTOTPForm):
    """The first code of a new app. It counts once, too."""

    def clean_code(self) -> str:
        self.cleaned_data["code"] = codes.normalize(self.cleaned_data["code"])
        code: str = super().clean_code()
        if step := codes.match(self.secret, code):
            codes.use_step(self.user, step)
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
