"""Bounds what strangers' attempts cost, before their form is checked, a page is rendered or the database is asked.

A process refuses an attempt from memory if it knows that a limit is used up. A flood from many addresses stays below the limit
of each address. So attempts to sign in without a known device take turns, and get a small share of a core together. Attempts as
one user, or from one address, first wait for each other, and take one place in the common queue. An attempt whose client leaves
while it waits costs little more than its connection.
"""

from collections.abc import Callable
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from billing.email_addresses import canonical
from billing.sign_in import backend, devices, limits
from gateway_project import errors, passwords
from gateway_project.web import client_address, error_replies

# A limit of a view by the client's address: the page, and whether only to read it counts. The view counts.
_BY_ADDRESS = {
    ("account_reset_password", False): limits.mail_request_limit,
    ("account_signup", False): limits.mail_request_limit,
    ("mfa_login_webauthn", True): limits.passkey_limit,
    ("mfa_login_webauthn", False): limits.passkey_limit,
    ("google_login", False): limits.identity_limit,
    ("github_login", False): limits.identity_limit,
}


class PageSignInFloodMiddleware(MiddlewareMixin):
    """Comes behind the middleware that adds headers and reads the form, and before all other."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            if request.method == "POST" and request.path_info == _path("account_login"):
                return self._sign_in(request, canonical(request.POST.get("login", "")))
            if limit := _by_path().get((request.path_info, request.method in ("GET", "HEAD"))):
                limits.require_not_known_refused([limit(client_address.network_of(request))])
        except errors.ApiError as refusal:
            return error_replies.refuse(request, refusal)
        return super().__call__(request)  # type: ignore[return-value]

    def _sign_in(self, request: HttpRequest, email: str) -> HttpResponse:
        backend.require_not_known_refused(request, email)
        with backend.queue(request, email):
            if devices.find_device(request, email):
                return super().__call__(request)  # type: ignore[return-value]
            with passwords.turn_within_share(request.META.get("gunicorn.socket")):
                return super().__call__(request)  # type: ignore[return-value]


_path = cache(reverse)


@cache
def _by_path() -> dict[tuple[str, bool], Callable[[str], limits.Limit]]:
    return {(_path(name), is_read): limit for (name, is_read), limit in _BY_ADDRESS.items()}
