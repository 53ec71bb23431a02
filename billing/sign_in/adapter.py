"""The adapter of django-allauth for accounts. It keeps the steps of a sign-in; the rules are this package's."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from billing.models import Membership, User
from billing.sign_in import devices, kept_forms, mails, reauthentication, sessions
from gateway_project import secretbox
from gateway_project.db import everywhere
from gateway_project.text import web_addresses
from gateway_project.web.client_address import client_address

PURPOSE = "second factor"  # of what is encrypted in allauth's table of second factors


class SignInAdapter(DefaultAccountAdapter):
    """Ends each sign-in, by whatever means, in the same way."""

    error_messages = {**DefaultAccountAdapter.error_messages, "email_password_mismatch": "Wrong email address or password."}

    def post_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **kwargs)
        was_last = devices.was_last(request, user.email)
        if devices.find_device(request, user.email) is None:
            mails.notify_of_sign_in(request, user)
        devices.remember(request, response, user.email)
        reauthentication.note_password(request)
        sessions.note_sign_in(request)
        kept_forms.note_sign_in(request, is_last_user=was_last)
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Lead staff who are members of no account to the admin, unless they asked for another page."""
        user: Any = request.user
        if user.is_staff and not any(everywhere.run(user.accounts.exists, numbers=Membership.cells_of(user.pk))):
            return reverse("admin:index")
        return str(super().get_login_redirect_url(request))

    def is_safe_url(self, url: str | None) -> bool:
        return url is not None and web_addresses.parse(url) is not web_addresses.NO_ADDRESS and super().is_safe_url(url)

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """No: ``reauthentication`` asks, before the view is called."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request) or "::"  # a Unix socket without a proxy that says


class SecondFactorAdapter(DefaultMFAAdapter):
    """Stores the secrets of second factors encrypted."""

    error_messages = {**DefaultMFAAdapter.error_messages, "incorrect_code": "Wrong code, or a passkey that was removed."}

    def encrypt(self, text: str) -> str:
        return secretbox.encrypt(text, purpose=PURPOSE)

    def decrypt(self, encrypted_text: str) -> str:
        return secretbox.decrypt(encrypted_text, purpose=PURPOSE)

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:
        return f"Passkey {Authenticator.objects.filter(user=user, type=type).count() + 1}"
