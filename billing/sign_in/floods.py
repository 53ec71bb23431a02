"""Bounds what attempts to sign in cost, before their form is checked, a page is rendered or the database is asked.

A process refuses an attempt from memory if it knows that a limit is used up. A flood from many addresses stays below the limit
of each address. So attempts without a known device take turns, and get a small share of a core together. Completions go on, and
so do sign-ins on known devices. Attempts as one user, or from one address, first wait for each other, so that they take one
place in the common queue. An attempt whose client leaves while it waits costs little more than its connection.
"""

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from billing.email_addresses import canonical
from billing.sign_in import backend, devices
from gateway_project import errors, passwords
from gateway_project.web import error_handlers


class PageSignInFloodMiddleware(MiddlewareMixin):
    """Comes behind the middleware that adds headers and reads the form, and before all other."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST" or request.path_info != _sign_in_path():
            return super().__call__(request)  # type: ignore[return-value]
        try:
            return self._sign_in(request, canonical(request.POST.get("login", "")))
        except errors.ApiError as refusal:
            return error_handlers.refusal_page(refusal)

    def _sign_in(self, request: HttpRequest, email: str) -> HttpResponse:
        backend.require_not_known_refused(request, email)
        with backend.queue(request, email):
            if devices.find_device(request, email):
                return super().__call__(request)  # type: ignore[return-value]
            with passwords.turn_within_share(request.META.get("gunicorn.socket")):
                return super().__call__(request)  # type: ignore[return-value]


@cache
def _sign_in_path() -> str:
    return reverse("account_login")
