"""Finds the limits on signing in of one person or of one network address, for support to reset.

The table has digests only: the possible limits of an address are looked up, those on known devices by the address's digest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from billing.email_addresses import canonical
from billing.models import SignInLimit, User
from billing.sign_in import limits, mails
from gateway_project.db import pool
from gateway_project.web.client_address import read_network


@dataclass(frozen=True)
class Used:
    """A limit of which something is used up: what it limits, in words, and when the next attempt is due, if not now."""

    row: SignInLimit
    words: str
    blocked_until: datetime | None


def read_address(term: str) -> str:
    """Return the email address or the network that a text names; '' if it names neither."""
    email = canonical(term)
    return read_network(term.strip()) or (email if "@" in email else "")


def find_user(address: str) -> User | None:
    return User.objects.filter(email=address).first()


def find(address: str) -> list[Used]:
    """Return what is used up of the limits of an address that ``read_address`` returned, those that block first."""
    now = pool.database_time()
    words = {limit.digest: (limit.rate, text) for limit, text in _limits_of(address)}
    rows = [(row, *words[row.pk]) for row in SignInLimit.objects.filter(pk__in=words, full_at__gt=now)]
    if "@" in address:
        on_devices = limits.find_known_devices(address).filter(full_at__gt=now)
        rows += [(row, limits.RATES["user"], "Attempts to sign in on a device that is known") for row in on_devices]
    used = []
    for row, rate, text in rows:
        due = row.full_at - timedelta(seconds=rate.interval_seconds * (rate.burst - 1))
        used.append(Used(row, text, due if due > now else None))
    return sorted(used, key=lambda each: (each.blocked_until is None, each.words))


def _limits_of(address: str) -> Iterator[tuple[limits.Limit, str]]:
    if "@" not in address:
        yield limits.address_limit(address), "Attempts to sign in"
        yield limits.passkey_limit(address), "Attempts to sign in with a passkey"
        yield limits.identity_limit(address), "Attempts to sign in with Google or GitHub"
        yield limits.mail_request_limit(address), "Emails with links, invitations too"
        yield limits.kept_form_limits(address)[0], "Forms that wait for a sign-in"
        return
    yield limits.user_limit(address), "Attempts to sign in on a new device"
    yield limits.success_limit(address), "Sign-ins with the right password"
    yield limits.security_limit(address), "Emails about changes of the sign-in"
    for cause in mails.Cause:
        yield limits.mailbox_limit(address, cause.value), f"Emails about {cause.value}"
    if user := find_user(address):
        yield limits.second_factor_limit(user.pk), "Codes of two-factor authentication"
