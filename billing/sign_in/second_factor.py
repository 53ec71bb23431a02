"""Second factors: staff need one outside of development, and changes of them are recorded."""

from datetime import datetime
from typing import Any

from allauth.core import context
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from billing.models import User
from billing.sign_in import mails
from gateway_project.activity import log
from gateway_project.web.page_middleware import asks_who

_FACTORS = [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]  # recovery codes only stand in for them
_WORDS = {
    Authenticator.Type.TOTP: "an authenticator app",
    Authenticator.Type.WEBAUTHN: "a passkey",
    Authenticator.Type.RECOVERY_CODES: "recovery codes",
}
_OPEN = {  # names of paths
    *("mfa_index", "mfa_activate_totp", "mfa_add_webauthn", "mfa_view_recovery_codes"),
    *("account_login", "account_logout", "sign-out", "logout"),
}


class PageSecondFactorMiddleware(MiddlewareMixin):
    """Leads staff without a second factor to the page that sets one up. They can open no other page of theirs."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        match = request.resolver_match
        is_closed = match is not None and asks_who(request) and match.url_name not in _OPEN
        needs_one = is_closed and settings.STAFF_NEED_SECOND_FACTOR and request.user.is_staff
        return redirect("mfa_index") if needs_one and not has_any(request.user) else None


def has_any(user: Any) -> bool:
    return bool(is_mfa_enabled(user, _FACTORS))


def ids(user: User) -> list[int]:
    """Return the ids of the second factors and the recovery codes. One that replaces another has an id of its own."""
    return list(Authenticator.objects.filter(user=user).order_by("pk").values_list("pk", flat=True))


def remove_all(user: User, *, since: datetime | None = None) -> int:
    """Remove the user's second factors, or those that were added since then. Return how many."""
    factors = Authenticator.objects.filter(user=user)
    removed = list(factors.filter(created_at__gte=since) if since else factors)
    for factor in removed:
        factor.delete()
    return len(removed)


@receiver(post_save, sender=Authenticator)
def _record_added(instance: Authenticator, created: bool, **kwargs: Any) -> None:
    if created:
        _record(instance, log.Act.ADDED, f"Added {_WORDS[instance.type]} for signing in.")


@receiver(post_delete, sender=Authenticator)
def _record_removed(instance: Authenticator, **kwargs: Any) -> None:
    _record(instance, log.Act.DELETED, f"Removed {_WORDS[instance.type]} for signing in.")


def _record(authenticator: Authenticator, act: log.Act, summary: str) -> None:
    """Record what was done to the user. The views run in a transaction; so do a deleted user's rows."""
    log.record(context.request, act, authenticator.user, summary)
    mails.notify(authenticator.user, summary)
