"""Keeps a form that was sent after its session had ended, and offers it once its sender has signed in again.

The form waits for half an hour in the session of its browser, if its CSRF token proved that a page of ours sent it. It is
offered only to the user who signed in last with this browser. Acts that need a recent password ask for it again, because
someone else may have planted the form. Passwords and codes are never kept, nor is a form with an API secret.
"""

import re
import time
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.text import capfirst

from billing.models import Membership
from billing.sign_in import limits
from gateway_project import errors
from gateway_project.db import everywhere
from gateway_project.desk import search
from gateway_project.web.client_address import network_of
from gateway_project.web.page_middleware import asks_who

KEPT_SECONDS = 30 * 60
CHARACTERS_MAX = 5_000
_FORM = "kept_form"  # session key
_NOT_KEPT = re.compile(r"csrfmiddlewaretoken|.*password.*|(.*_)?code", re.IGNORECASE)  # names of fields
_SECRETS = re.compile(r".*secret.*|api_key|credential", re.IGNORECASE)


class PageKeptFormMiddleware(MiddlewareMixin):
    """Comes behind what asks who is signed in and what checks CSRF tokens."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        if request.method != "GET" or not asks_who(request) or not request.user.is_authenticated:
            return None
        kept = request.session.get(_FORM)
        if kept is None or kept["path"] != request.get_full_path():
            return None
        del request.session[_FORM]
        if time.time() - kept["at"] > KEPT_SECONDS or _may_mean_another_account(request, kept["fields"]):
            return None
        from billing.sign_in import reauthentication  # with the library of second factors, which the API does not load

        reauthentication.forget_password(request)
        shown = [(capfirst(name.replace("_", " ")), value) for name, value in kept["fields"] if name != "account" and value]
        page = render(request, "dashboard/kept_form.html", {"fields": kept["fields"], "shown": shown})
        add_never_cache_headers(page)
        return page

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.method == "POST" and response.status_code == 302 and asks_who(request) and not request.user.is_authenticated:
            query = response["Location"].removeprefix(f"{reverse('account_login')}?")
            if QueryDict(query).get("next") == request.get_full_path():
                _keep(request)
        return response


def note_sign_in(request: HttpRequest, *, is_last_user: bool) -> None:
    """Let the session last as others do, and forget the form if someone else may have sent it."""
    if _FORM in request.session:
        request.session.set_expiry(settings.SESSION_COOKIE_AGE)
        if not is_last_user:
            del request.session[_FORM]


def _may_mean_another_account(request: HttpRequest, fields: list[tuple[str, str]]) -> bool:
    """Return whether the form may be for another account of its sender: only the ended session knew which was selected."""
    if any(name == "account" for name, _ in fields) or not request.path.startswith("/dashboard/"):
        return False
    memberships: Any = request.user.memberships  # type: ignore[union-attr]
    counts: list[int] = everywhere.run(memberships.count, numbers=Membership.cells_of(request.user.pk or 0))
    return sum(counts) > 1


def _keep(request: HttpRequest) -> None:
    """Keep the form in the session. A form that is empty, too long or has a secret is not kept, nor one beyond the limits."""
    fields = [(name, value) for name, values in request.POST.lists() for value in values if not _NOT_KEPT.fullmatch(name)]
    if not fields or sum(len(name) + len(value) for name, value in fields) > CHARACTERS_MAX:
        return
    if any(value and (_SECRETS.fullmatch(name) or search.conceal(value) != value) for name, value in fields):
        return
    try:
        limits.count_attempt(limits.kept_form_limits(network_of(request)))
    except errors.RateLimitExceeded:
        return
    request.session[_FORM] = {"path": request.get_full_path(), "fields": fields, "at": int(time.time())}
    request.session.set_expiry(KEPT_SECONDS)
