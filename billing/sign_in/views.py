"""What every page of the admin asks before it changes something, and how staff sign in: as everybody does."""

import functools
from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from billing.sign_in.reauthentication import reauthenticates
from gateway_project.desk import search

View = Callable[..., Any]

# Leaving, stopping a leaked key and giving the password anyhow must not wait for a password. The search changes nothing.
_WITHOUT_PASSWORD = {"logout", "password_change", "keys_apikey_revoke", "admin_search"}


def protect(site: AdminSite) -> None:
    """Make the admin's sign-in the page of all, and every POST of staff one that needs a recent password."""
    admin_view = site.admin_view

    def reauthenticating_view(view: View, cacheable: bool = False) -> View:
        asked, plain = admin_view(reauthenticates(view), cacheable), admin_view(view, cacheable)

        @never_cache
        @functools.wraps(asked)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            name = request.resolver_match.url_name if request.resolver_match else None
            address = request.get_full_path()
            may_be_kept = search.conceal(address)
            if (
                may_be_kept != address
                and request.method == "GET"
                and not (name == "admin_search" and request.user.is_authenticated)
            ):
                return redirect(may_be_kept)  # a browser keeps this address instead, and shows it
            if not request.user.is_authenticated and name != "logout":
                return redirect_to_login(request.get_full_path())  # where Django's own page would lead, in one step
            return (plain if name in _WITHOUT_PASSWORD else asked)(request, *args, **kwargs)

        return page

    site.admin_view = reauthenticating_view  # type: ignore[method-assign, assignment]
    site.login = _sign_in  # type: ignore[method-assign]


@never_cache
def _sign_in(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """Lead to the page that signs in, and staff who are signed in to where they wanted to go."""
    wanted = request.GET.get("next", "")
    path = wanted if url_has_allowed_host_and_scheme(wanted, None) else reverse("admin:index")
    if not request.user.is_authenticated:
        return redirect_to_login(path)
    if not (request.user.is_staff and request.user.is_active):
        raise PermissionDenied
    return redirect(path)
