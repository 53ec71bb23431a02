"""Identities: accounts of people at Google or GitHub, by which they sign in. Each provider is there if it is configured.

An identity belongs to the user who proved it while signed in (``connect``), or who signed up with it. The same email address
gives no access. Only addresses that the provider has verified count.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.github.views import GitHubOAuth2Adapter
from allauth.socialaccount.providers.google.views import GoogleOAuth2Adapter
from allauth.socialaccount.signals import social_account_removed
from csp.decorators import csp_update
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, transaction
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from billing.email_addresses import canonical
from billing.models import User
from billing.sign_in import addresses, mails
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.text import web_addresses
from gateway_project.web.client_address import client_address

logger = logging.getLogger("gateway.sign_in")

NAMES = {"google": "Google", "github": "GitHub"}
_ADAPTERS = {"google": GoogleOAuth2Adapter, "github": GitHubOAuth2Adapter}
_NO_MAILBOX = "@users.noreply.github.com"  # GitHub verifies such addresses, and takes no mail for them
_SHOWN = ("email", "login")  # what is kept of the profile, to tell identities apart

View = Callable[..., Any]


def configured() -> dict[str, str]:
    return {id: name for id, name in NAMES.items() if id in settings.SOCIALACCOUNT_PROVIDERS}


def context(request: HttpRequest) -> dict[str, Any]:
    """Give templates the providers, and whether one can sign up with them."""
    providers = [{"id": id, "name": name, "start": f"{id}_login"} for id, name in configured().items()]
    return {"identity_providers": providers, "is_identity_sign_up_open": bool(providers and settings.SIGN_UP)}


def leads_to_providers(view: View) -> View:
    """Let the page's forms lead to the providers: browsers apply form-action to redirects, too."""

    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        begun_at = [web_addresses.parse(_ADAPTERS[id].authorize_url) for id in configured()]
        origins = [f"{scheme}://{host}" for scheme, host, *_ in begun_at]
        return (csp_update({"form-action": origins})(view) if origins else view)(request, *args, **kwargs)

    return page


def describe(identity: SocialAccount) -> str:
    """Return such as "Google (ann@example.org)"."""
    known = next((identity.extra_data[fact] for fact in _SHOWN if identity.extra_data.get(fact)), "")
    name = NAMES.get(identity.provider, identity.provider)
    return f"{name} ({known})" if known else name


class IdentityAdapter(DefaultSocialAccountAdapter):
    error_messages = {
        **DefaultSocialAccountAdapter.error_messages,
        "no_password": "This is your only way to sign in. Set a password first.",
    }

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        identity = sociallogin.account
        identity.extra_data = {fact: identity.extra_data[fact] for fact in _SHOWN if identity.extra_data.get(fact)}
        if sociallogin.is_existing:
            identity.save(update_fields=["extra_data"])
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            raise ImmediateHttpResponse(connect(request, sociallogin))
        if not sociallogin.is_existing:
            sociallogin.user.email = _address_of_new_user(request, sociallogin)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        """Make the user with their identity, and an account. Who is invited joins one instead."""
        user: User = sociallogin.user
        try:
            with transaction.atomic():
                user.save()
                sociallogin.account.user = user
                sociallogin.account.save()
                summary = f"Signed up with {describe(sociallogin.account)}."
                if addresses.is_invited(user.email):
                    log.record(request, log.Act.ADDED, user, summary)
                else:
                    addresses.open_account(request, user, summary)
        except IntegrityError:  # the same person in another tab
            raise _refusal(request, sociallogin, "identity_known", user.email) from None
        return user

    def validate_disconnect(self, account: SocialAccount, accounts: Any) -> None:
        """Keep the last way in: an identity at a provider that is no longer configured is none."""
        others = accounts.exclude(pk=account.pk).filter(provider__in=configured())
        if not account.user.has_usable_password() and not others.exists():
            raise self.validation_error("no_password")

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> None:
        """Log it, without what the provider sent, and lead back to where the sign-in began."""
        name, reason = NAMES[provider.id], type(exception).__name__ if exception else error
        address = client_address(request)
        named = address or "an unknown address"
        logger.warning("sign-in with %s from %s failed: %s", name, named, reason, extra={"address": address})
        messages.error(request, f"{name} did not confirm who you are. Nothing was changed. Try again or sign in another way.")
        page = "socialaccount_connections" if request.user.is_authenticated else "account_login"
        raise ImmediateHttpResponse(redirect(page))

    def get_requests_session(self) -> Any:
        """Return allauth's session. No database connection is held while the provider answers."""
        pool.release_connection()
        session = super().get_requests_session()
        session.trust_env = False  # no proxy, no ~/.netrc
        return session


def connect(request: HttpRequest, sociallogin: SocialLogin) -> HttpResponse:
    """Make the identity one of the signed-in user, unless it is another user's."""
    identity, text = sociallogin.account, describe(sociallogin.account)
    if not isinstance(request.user, User):
        return redirect("account_login")
    if not sociallogin.is_existing:
        try:
            with transaction.atomic():
                identity.user = request.user
                identity.save()
                _tell(request, identity, log.Act.ADDED, f"Connected {text} for signing in.")
            messages.success(request, f"You can now sign in with {text}.")
        except IntegrityError:
            messages.error(request, f"{text} is already connected.")
    elif sociallogin.user == request.user:
        messages.info(request, f"{text} is already connected.")
    else:
        messages.error(request, f"{text} is connected to another user. Disconnect it there first.")
    return redirect("socialaccount_connections")


@receiver(social_account_removed)
def _record_removed(request: HttpRequest, socialaccount: SocialAccount, **kwargs: Any) -> None:
    _tell(request, socialaccount, log.Act.DELETED, f"Disconnected {describe(socialaccount)} for signing in.")


def _tell(request: HttpRequest, identity: SocialAccount, act: log.Act, summary: str) -> None:
    log.record(request, act, identity.user, summary)
    mails.notify(identity.user, summary)


def _address_of_new_user(request: HttpRequest, sociallogin: SocialLogin) -> str:
    """Return the first verified address that may sign up. Raises ImmediateHttpResponse with the reason if there is none."""
    verified = [canonical(address.email) for address in sociallogin.email_addresses if address.verified]
    usable = [email for email in verified if email and not email.endswith(_NO_MAILBOX)]
    for email in usable:
        if User.objects.filter(email=email).exists():
            raise _refusal(request, sociallogin, "identity_known", email)
    for email in usable:
        if addresses.may_sign_up(email) or addresses.is_invited(email):
            return email
    raise _refusal(request, sociallogin, "identity_refused", usable[0] if usable else "")


def _refusal(request: HttpRequest, sociallogin: SocialLogin, page: str, email: str) -> ImmediateHttpResponse:
    facts = {"provider": NAMES[sociallogin.account.provider], "email": email}
    return ImmediateHttpResponse(render(request, f"account/{page}.html", facts, status=403))
