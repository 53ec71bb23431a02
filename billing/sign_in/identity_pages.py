"""The pages of identities: the way to a provider and back, and the list of one's own."""

import functools
from collections.abc import Callable
from typing import Any

from allauth.account.utils import get_request_param
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.github import views as github
from allauth.socialaccount.providers.google import views as google
from allauth.socialaccount.views import ConnectionsView
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache

from billing.sign_in import identities, limits
from billing.sign_in.reauthentication import reauthenticates
from gateway_project.web.client_address import network_of

View = Callable[..., Any]


class Connections(ConnectionsView):
    """Allauth's view, with the user's identities in words, and the providers that none of them is at."""

    template_name = "account/identities.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        connected = list(context["form"].accounts)
        context["identities"] = [(identity, identities.describe(identity)) for identity in connected]
        offered, ids = identities.context(self.request)["identity_providers"], {identity.provider for identity in connected}
        context["identity_providers"] = [provider for provider in offered if provider["id"] not in ids]
        return context


def provider_paths() -> list[URLPattern]:
    """Return allauth's paths of the providers. Those of one that is not configured lead nowhere."""
    paths = []
    for provider, views in (("google", google), ("github", github)):
        start = identities.leads_to_providers(_if_configured(provider, _start(views.oauth2_login)))
        back = _if_configured(provider, views.oauth2_callback)
        paths.append(path(f"{provider}/login/", never_cache(start), name=f"{provider}_login"))
        paths.append(path(f"{provider}/login/callback/", never_cache(back), name=f"{provider}_callback"))
    return paths


def _start(view: View) -> View:
    """Wrap the view that leads to the provider. To connect an identity needs the password. Raises RateLimitExceeded."""
    to_connect = login_required(reauthenticates(view))

    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        process = get_request_param(request, "process", AuthProcess.LOGIN)
        if process not in (AuthProcess.LOGIN, AuthProcess.CONNECT):
            raise BadRequest
        if request.method == "POST":
            limits.count_attempt([limits.identity_limit(network_of(request))])
        return (to_connect if process == AuthProcess.CONNECT else view)(request, *args, **kwargs)

    return page


def _if_configured(provider: str, view: View) -> View:
    @functools.wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if provider not in identities.configured():
            raise Http404
        return view(request, *args, **kwargs)

    return page
