"""Allauth's paths, as far as the gateway has their pages. Its acts ask for the password, and run in a transaction."""

import functools
from collections.abc import Callable
from typing import Any

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.generic import RedirectView

from billing.sign_in import credential_pages, identity_pages, limits, session_pages
from billing.sign_in.identities import leads_to_providers
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.web.client_address import network_of

View = Callable[..., Any]


def _page(view: View) -> View:
    return never_cache(login_required(view))


def _act(view: View) -> View:
    return _page(reauthenticates(transaction.atomic(view)))


def _limited(view: View) -> View:
    """Wrap the view that begins to sign in with a passkey. Raises RateLimitExceeded."""

    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        limits.count_attempt([limits.passkey_limit(network_of(request))])
        return view(request, *args, **kwargs)

    return never_cache(page)


urlpatterns = [
    path("login/", leads_to_providers(account.login), name="account_login"),
    path("logout/", account.logout, name="account_logout"),
    path("password/reset/", credential_pages.AskForReset.as_view(), name="account_reset_password"),
    path("password/link/", credential_pages.set_password, name="password-link"),
    path("signup/", leads_to_providers(credential_pages.AskForSignUp.as_view()), name="account_signup"),
    path("signup/link/", credential_pages.sign_up, name="sign-up-link"),
    path("email/", _page(reauthenticates(credential_pages.ChangeAddress.as_view())), name="account_email"),
    path("confirm-email/", credential_pages.confirm_address, name="account_confirm_email"),
    path("undo-email/", credential_pages.undo_address, name="undo-address"),
    path("inactive/", account.account_inactive, name="account_inactive"),
    path("password/change/", RedirectView.as_view(pattern_name="password"), name="account_change_password"),
    path("2fa/", _page(mfa.index), name="mfa_index"),
    path("2fa/authenticate/", mfa.authenticate, name="mfa_authenticate"),
    path("2fa/totp/activate/", _act(totp.activate_totp), name="mfa_activate_totp"),
    path("2fa/totp/deactivate/", _act(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path("2fa/recovery-codes/", _page(recovery_codes.view_recovery_codes), name="mfa_view_recovery_codes"),
    path("2fa/recovery-codes/generate/", _act(recovery_codes.generate_recovery_codes), name="mfa_generate_recovery_codes"),
    path("2fa/webauthn/", RedirectView.as_view(pattern_name="mfa_index"), name="mfa_list_webauthn"),
    path("2fa/webauthn/add/", _act(webauthn.add_webauthn), name="mfa_add_webauthn"),
    path("2fa/webauthn/keys/<int:pk>/remove/", _act(webauthn.remove_webauthn), name="mfa_remove_webauthn"),
    path("2fa/webauthn/login/", _limited(webauthn.login_webauthn), name="mfa_login_webauthn"),
    path("3rdparty/", leads_to_providers(_act(identity_pages.Connections.as_view())), name="socialaccount_connections"),
    *identity_pages.provider_paths(),
    path("sessions/", _page(session_pages.SessionList.as_view()), name="usersessions_list"),
    path("sessions/<int:session_id>/end/", _page(session_pages.end), name="end-session"),
]
