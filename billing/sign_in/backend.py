"""Django's authentication by email address and password, limited. Every sign-in, of owners and of staff, passes here."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

from billing.email_addresses import CHARACTERS_MAX, canonical
from billing.models import User
from billing.sign_in import devices, limits
from gateway_project import errors, passwords
from gateway_project.web.client_address import client_address, network_of

logger = logging.getLogger("gateway.sign_in")


class LimitedBackend(ModelBackend):
    """Counts an attempt before it looks for the user, so that a refusal says nothing about user or password."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> Any:
        """Return the user, or None. Raises RateLimitExceeded, ServiceUnavailable, and RequestTimeout for a client that left."""
        username = kwargs.pop(User.USERNAME_FIELD, None) if username is None else username
        if request is None or username is None or password is None:  # not from a client
            return super().authenticate(request, username, password, **kwargs)
        email = canonical(username)
        applied = _limits_of(request, email)
        require_not_known_refused(request, email)
        with _logging_refusal(request, email):
            limits.count_attempt(applied)
        with passwords.hash_for(request.META.get("gunicorn.socket")):
            user = super().authenticate(request, username, password, **kwargs)
        if not isinstance(user, User):
            log_failure(request, email or username.lower())
            return None
        limits.give_back_attempt(applied)
        with _logging_refusal(request, email):
            limits.count_attempt([limits.success_limit(email)])
        return user


@contextmanager
def _logging_refusal(request: HttpRequest, email: str) -> Iterator[None]:
    try:
        yield
    except errors.RateLimitExceeded:
        log_failure(request, email, "refused, after too many attempts")
        raise


def require_not_known_refused(request: HttpRequest, email: str) -> None:
    """Raise RateLimitExceeded if this process knows that an attempt as this user would be refused. Needs no query."""
    with _logging_refusal(request, email):
        limits.require_not_known_refused([*_limits_of(request, email), limits.success_limit(email)])


@contextmanager
def queue(request: HttpRequest, email: str) -> Iterator[None]:
    """Let in one attempt at a time of those that a limit counts together. Raises ServiceUnavailable, RequestTimeout."""
    with ExitStack() as turns:
        for limit in _limits_of(request, email):
            turns.enter_context(passwords.turn_of(limit.subject, request.META.get("gunicorn.socket")))
        yield


def _limits_of(request: HttpRequest, email: str) -> list[limits.Limit]:
    """Return what limits an attempt as this user: the known device alone, or the address of the client and the user."""
    if device := devices.find_device(request, email):
        return [limits.device_limit(device, email)]
    return [limits.address_limit(network_of(request)), limits.user_limit(email)]


def log_failure(request: HttpRequest, email: str, outcome: str = "failed") -> None:
    address = client_address(request)
    printable = "".join(character if character.isprintable() else "?" for character in email[:CHARACTERS_MAX])
    facts = {"user": printable, "address": address}
    logger.warning("sign-in as %s from %s %s", printable, address or "an unknown address", outcome, extra=facts)
