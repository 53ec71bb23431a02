"""Allauth's forms that sign in, with the gateway's limits."""

from typing import Any

from allauth.account.forms import LoginForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django import forms

from billing.sign_in import backend, limits
from gateway_project.web.client_address import client_address

_CODE_SECONDS = 120  # a code counts for less: its own step of 30 seconds, and one before and after


class SignInForm(LoginForm):
    """Takes any text as the address, so that each attempt reaches the limits and the log as it was typed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"] = forms.CharField(
            label="E-mail address",
            max_length=backend.EMAIL_CHARACTERS_MAX,
            widget=forms.EmailInput(attrs={"autocomplete": "username webauthn", "autofocus": True}),
        )
        self.fields["password"] = forms.CharField(
            strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
        )
        self.order_fields(["login", "password"])


class CodeForm(AuthenticateForm):
    """A code of an app, which counts once in all processes, or a recovery code. Guessing is limited for each user."""

    code = forms.CharField(
        max_length=20,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True}),
    )

    def clean_code(self) -> str:
        limit = limits.second_factor_limit(self.user.pk)
        limits.count_attempt([limit])
        try:
            code: str = super().clean_code()
            self._use_up(code)
        except forms.ValidationError:
            backend.log_wrong_code(self.user.email, client_address(context.request))
            raise
        limits.give_back_attempt([limit])
        return code

    def _use_up(self, code: str) -> None:
        """Allauth remembers codes of apps in the cache of one process only; recovery codes are in the database."""
        is_of_app = self.authenticator.type == Authenticator.Type.TOTP
        if is_of_app and not limits.use_once(f"code {self.user.pk} {code.strip()}", _CODE_SECONDS):
            raise forms.ValidationError("This code was used already. Wait for the next one.")


class NewPasskeyForm(AddWebAuthnForm):
    """A passkey. Unless told otherwise it also signs in by itself."""

    name = forms.CharField(required=False, max_length=100, help_text="How you will recognize it, such as “laptop”.")
    passwordless = forms.BooleanField(
        label="Also sign in with it alone, without e-mail address and password",
        required=False,
        initial=True,
        help_text="The device then asks for your finger, face or PIN each time.",
    )
