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
from gateway_project.web.client_address import client_address, client_network

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
        email, address = canonical(username), client_address(request)
        applied, success = limits_of(request, email, address), limits.success_limit(email)
        require_not_known_refused(request, email)
        with _logging_refusal(email, address):
            limits.count_attempt(applied)
        with passwords.hash_for(request.META.get("gunicorn.socket")):
            user = super().authenticate(request, username, password, **kwargs)
        if not isinstance(user, User):
            _log("failed", email or username.lower(), address)
            return None
        limits.give_back_attempt(applied)
        with _logging_refusal(email, address):
            limits.count_attempt([success])
        return user


@contextmanager
def _logging_refusal(email: str, address: str) -> Iterator[None]:
    try:
        yield
    except errors.RateLimitExceeded:
        log_refusal(email, address)
        raise


def require_not_known_refused(request: HttpRequest, email: str) -> None:
    """Raise RateLimitExceeded if this process knows that an attempt as this user would be refused. Needs no query."""
    address = client_address(request)
    with _logging_refusal(email, address):
        limits.require_not_known_refused([*limits_of(request, email, address), limits.success_limit(email)])


@contextmanager
def queue(request: HttpRequest, email: str) -> Iterator[None]:
    """Let one attempt at a time into the block of those that a limit counts together: nobody waits behind many of another.

    Raises ServiceUnavailable, RequestTimeout.
    """
    with ExitStack() as turns:
        for limit in limits_of(request, email, client_address(request)):
            turns.enter_context(passwords.turn_of(limit.subject, request.META.get("gunicorn.socket")))
        yield


def limits_of(request: HttpRequest, email: str, address: str) -> list[limits.Limit]:
    """Return what limits an attempt as this user: the known device alone, or the address of the client and the user."""
    device = devices.find_device(request, email)
    if device:
        return [limits.device_limit(device, email)]
    return [limits.address_limit(client_network(address)), limits.user_limit(email)]


def log_wrong_code(email: str, address: str) -> None:
    """Log an attempt that had the password, and then a wrong code."""
    _log("failed at two-factor authentication", email, address)


def log_refusal(email: str, address: str) -> None:
    """Log an attempt that was refused uncounted, after too many others."""
    _log("refused, after too many attempts", email, address)


def _log(outcome: str, email: str, address: str) -> None:
    printable = "".join(character if character.isprintable() else "?" for character in email[:CHARACTERS_MAX])
    facts = {"user": printable, "address": address}
    logger.warning("sign-in as %s from %s %s", printable, address or "an unknown address", outcome, extra=facts)
