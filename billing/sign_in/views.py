"""What every view that signs in does afterwards, and what every page of the admin asks before it changes something."""

import functools
from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from billing.sign_in import devices, reauthentication, sessions
from billing.sign_in.reauthentication import reauthenticates

View = Callable[..., Any]

# Leaving, stopping a leaked key and giving the password anyhow must not wait for a password.
_WITHOUT_PASSWORD = {"logout", "password_change", "keys_apikey_revoke"}


def signs_in(view: View) -> View:
    """Wrap a view that signs in: when it has, the device is known, and the password was given just now."""

    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        session_before = request.session.session_key
        response = view(request, *args, **kwargs)
        # Whoever was signed in already and gave a wrong password has kept the session; signing in begins another.
        if request.user.is_authenticated and request.session.session_key != session_before:
            devices.remember(request, response, request.user.email)
            reauthentication.note_password(request)
            sessions.note_use(request)
        return response

    return page


def protect(site: AdminSite) -> None:
    """Make the admin's sign-in one that is remembered, and every POST of staff one that needs a recent password."""
    admin_view = site.admin_view

    def reauthenticating_view(view: View, cacheable: bool = False) -> View:
        asked, plain = admin_view(reauthenticates(view), cacheable), admin_view(view, cacheable)

        @functools.wraps(asked)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            match = request.resolver_match
            return (plain if match and match.url_name in _WITHOUT_PASSWORD else asked)(request, *args, **kwargs)

        return page

    site.admin_view = reauthenticating_view  # type: ignore[method-assign, assignment]
    site.login = signs_in(site.login)  # type: ignore[method-assign]
