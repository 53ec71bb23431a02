"""Refuses sign-ins of an address that this process knows to be refused, before their form is checked and a page is rendered.

So a flood costs little more than its connections, and completions go on.
"""

from functools import cache, lru_cache

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from billing.sign_in import devices, limits
from billing.sign_in.backend import log_refusal
from gateway_project import errors
from gateway_project.web.client_address import client_address, client_network
from gateway_project.web.page_middleware import PagesOnly


class PageSignInFloodMiddleware(PagesOnly, MiddlewareMixin):
    """Comes behind the other middleware, so that its replies have the headers of pages."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.method != "POST" or request.path_info not in _sign_in_paths() or devices.is_known(request):
            return None
        address = client_address(request)
        refusal = limits.known_refusal(limits.address_limit(client_network(address)))
        if refusal is None:
            return None
        log_refusal(request.POST.get("username", ""), address)
        return HttpResponse(_page(refusal.message), status=refusal.status, headers=refusal.headers)


@cache
def _sign_in_paths() -> tuple[str, str]:
    return reverse("sign-in"), reverse("admin:login")


@lru_cache(maxsize=64)  # one for each second that an address may have to wait
def _page(message: str) -> bytes:
    return render_to_string("error.html", {"error": errors.RateLimitExceeded(message)}).encode()
