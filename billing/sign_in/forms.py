"""The form that signs in."""

from typing import Any

from allauth.account.forms import LoginForm
from django import forms

from billing.sign_in import backend


class SignInForm(LoginForm):
    """Takes any text as the address, so that each attempt reaches the limits and the log as it was typed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"] = forms.CharField(
            label="E-mail address",
            max_length=backend.EMAIL_CHARACTERS_MAX,
            widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True}),
        )
        self.fields["password"] = forms.CharField(
            strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
        )
        self.order_fields(["login", "password"])
