"""Asks for the password again before an act that a stranger at an unattended browser must not do.

A password counts for 15 minutes, and so does a code of an authenticator app. Signing in counts as well, so a user without
either signs in again. The page that asks carries the fields of the form. Attempts have the limits of signing in.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth import authenticate
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from billing.sign_in import backend
from billing.sign_in.forms import CodeForm
from billing.sign_in.identities import leads_to_providers

RECENT_SECONDS = 15 * 60
FIELD, CODE_FIELD = "current_password", "current_code"
_GIVEN_AT = "password_given_at"  # session key
NOT_SHOWN = "own_"  # of a field whose secret no page shows
_NOT_CARRIED = ("csrfmiddlewaretoken", "password", NOT_SHOWN)  # beginnings of names of fields

View = Callable[..., Any]


def reauthenticates(view: View) -> View:
    """Wrap a view of signed-in users: a POST needs a recent password. Other methods pass."""

    @sensitive_post_parameters(FIELD, CODE_FIELD)
    @never_cache
    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method == "POST" and time.time() - request.session.get(_GIVEN_AT, 0) > RECENT_SECONDS:
            if not _is_correct(request):
                return _ask(request)
            note_password(request)
            request.POST = _form(request)  # type: ignore[assignment]
        return view(request, *args, **kwargs)

    return page


def asks_anew(view: View) -> View:
    """Wrap a view that ``reauthenticates``, so that opening its page forgets a password that was given, however recently."""

    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method in ("GET", "HEAD"):
            forget_password(request)
        return view(request, *args, **kwargs)

    return page


def forget_password(request: HttpRequest) -> None:
    """Let the next act ask for the password, however recently it was given."""
    request.session.pop(_GIVEN_AT, None)


def note_password(request: HttpRequest) -> None:
    request.session[_GIVEN_AT] = int(time.time())


def is_password(request: HttpRequest, password: str) -> bool:
    """Return whether this is the user's password. That counts as an attempt to sign in. Raises what ``backend`` raises."""
    email = request.user.get_username()
    with backend.queue(request, email):
        return authenticate(request, username=email, password=password) == request.user


def _is_correct(request: HttpRequest) -> bool:
    if password := request.POST.get(FIELD):
        return is_password(request, password)
    code = request.POST.get(CODE_FIELD)
    return bool(code and CodeForm({"code": code}, user=request.user).is_valid())


def _form(request: HttpRequest) -> QueryDict:
    form = request.POST.copy()
    for field in (FIELD, CODE_FIELD):
        form.pop(field, None)
    form._mutable = False
    return form


@leads_to_providers
def _ask(request: HttpRequest) -> HttpResponse:
    """Ask for the password, and carry the fields of the form except passwords, which a page must not show."""
    form = [(name, values) for name, values in _form(request).lists() if not name.startswith(_NOT_CARRIED)]
    context = {
        "carried": [(name, value) for name, values in form for value in values],
        "field": FIELD,
        "code_field": CODE_FIELD,
        "has_codes": is_mfa_enabled(request.user, [Authenticator.Type.TOTP]),
        "has_password": request.user.has_usable_password(),  # type: ignore[union-attr]
        "is_wrong": FIELD in request.POST or CODE_FIELD in request.POST,
        "email": request.user.get_username(),
    }
    return render(request, "dashboard/reauthentication.html", context)
