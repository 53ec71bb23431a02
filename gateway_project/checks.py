"""System checks of a deployment's configuration. Each has an id, and most a hint that says what to do."""

import difflib
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any

import psycopg
from cryptography.fernet import Fernet
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import validate_email

from gateway_project import environment
from gateway_project.db import direct_connections
from gateway_project.environment import Findings, check
from gateway_project.speedups import libraries

SECRET_KEY_CHARACTERS_MIN, PEPPER_CHARACTERS_MIN, METRICS_SECRET_CHARACTERS_MIN = 50, 32, 32
_RANDOM_TEXT_HINT = "python -c 'import secrets; print(secrets.token_urlsafe(64))'"
_FERNET_HINT = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"


@check
def check_secrets() -> Findings:
    """E001-E003: one of the three secrets, which have no default, is missing or too short."""
    try:
        secret_key = settings.SECRET_KEY
    except ImproperlyConfigured:  # Django raises it when an empty one is read
        secret_key = ""
    if len(secret_key) < SECRET_KEY_CHARACTERS_MIN:
        message = f"GATEWAY_SECRET_KEY is missing or shorter than {SECRET_KEY_CHARACTERS_MIN} characters."
        yield Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E001")
    if min(map(len, settings.SECRET_KEY_FALLBACKS), default=SECRET_KEY_CHARACTERS_MIN) < SECRET_KEY_CHARACTERS_MIN:
        message = f"GATEWAY_SECRET_KEY_FALLBACKS has an entry shorter than {SECRET_KEY_CHARACTERS_MIN} characters."
        yield Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E001")
    if min(map(len, settings.KEY_PEPPERS), default=0) < PEPPER_CHARACTERS_MIN:
        message = f"GATEWAY_KEY_PEPPERS is missing or has an entry shorter than {PEPPER_CHARACTERS_MIN} characters."
        yield Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E002")
    if not _are_fernet_keys(settings.ENCRYPTION_KEYS):
        message = "GATEWAY_ENCRYPTION_KEYS is missing or has an entry that is not a Fernet key."
        yield Error(message, hint=_FERNET_HINT, id="gateway.E003")


def _are_fernet_keys(keys: list[str]) -> bool:
    try:
        return bool([Fernet(key) for key in keys])
    except ValueError:
        return False


@check
def check_stores() -> Findings:
    """E004: no database. E005: no host names. E007: connections and locks kept during provider calls. W001: no Redis."""
    if missing := missing_database():
        yield missing
    if not settings.ALLOWED_HOSTS:
        hint = "Set GATEWAY_ALLOWED_HOSTS, or GATEWAY_API_HOST and GATEWAY_BASE_HOST."
        yield Error("No host name is allowed.", hint=hint, id="gateway.E005")
    if settings.DATABASES["default"].get("ATOMIC_REQUESTS"):
        yield Error("ATOMIC_REQUESTS must be off.", hint='Remove it from DATABASES["default"].', id="gateway.E007")
    if not settings.REDIS_URL and not settings.GATEWAY_DEVELOPMENT:
        message = "REDIS_URL is not set: background work and the cache run in process."
        yield Warning(message, hint="It is redis://host:6379/0.", id="gateway.W001")


def missing_database() -> Error | None:
    if not settings.DATABASES["default"]["ENGINE"].endswith("dummy"):
        return None
    hint = "It is postgresql://user:password@host/name, of PostgreSQL 15 or newer."
    return Error("DATABASE_URL is not set.", hint=hint, id="gateway.E004")


@check
def check_addresses() -> Findings:
    """E006: half of the service would be unreachable. E013: limits by address would count all clients as one."""
    if bool(settings.GATEWAY_API_HOST) != bool(settings.GATEWAY_BASE_HOST):
        hint = "Set both to the same name if there is only one."
        yield Error("Set both GATEWAY_API_HOST and GATEWAY_BASE_HOST, or neither.", hint=hint, id="gateway.E006")
    if bool(settings.TRUSTED_PROXIES) != settings.GATEWAY_BEHIND_PROXY:
        message = "GATEWAY_BEHIND_PROXY and GATEWAY_TRUSTED_PROXIES contradict each other."
        hint = "GATEWAY_TRUSTED_PROXIES is how many proxies append to X-Forwarded-For; without a proxy, set neither."
        yield Error(message, hint=hint, id="gateway.E013")


@check
def check_metrics() -> Findings:
    """E011, E012: the secret or the address of the metrics protects nothing. W004: they cannot be read. W005: many can."""
    address, secret = settings.METRICS_ADDRESS, settings.METRICS_SECRET
    if 0 < len(secret) < METRICS_SECRET_CHARACTERS_MIN:
        message = f"GATEWAY_METRICS_SECRET is shorter than {METRICS_SECRET_CHARACTERS_MIN} characters."
        yield Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E011")
    if address and address[1] == settings.WEB_PORT:
        message = "GATEWAY_METRICS_BIND has the port of the gateway itself, so the metrics have no address of their own."
        yield Error(message, hint="Give it another port than PORT.", id="gateway.E012")
    if not (address or secret or settings.GATEWAY_DEVELOPMENT):
        hint = "Set GATEWAY_METRICS_BIND, such as 127.0.0.1:9464, or GATEWAY_METRICS_SECRET."
        yield Warning("No one can read /metrics.", hint=hint, id="gateway.W004")
    for name, bound in (("GATEWAY_METRICS_BIND", address), ("GATEWAY_WORKER_METRICS_BIND", settings.WORKER_METRICS_ADDRESS)):
        if bound and not secret and not _is_loopback(bound[0]):
            message = f"{name} is reachable from other machines, and GATEWAY_METRICS_SECRET is not set."
            yield Warning(message, hint="Set the secret, or bind to 127.0.0.1.", id="gateway.W005")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@check
def check_mail() -> Findings:
    """W010: invitations and forgotten passwords need mail. W011: only whoever asks for a mail names the host of its links."""
    if not settings.SENDS_MAIL:
        hint = "Set GATEWAY_SMTP_HOST, GATEWAY_SMTP_USER, GATEWAY_SMTP_PASSWORD and GATEWAY_MAIL_FROM."
        yield Warning("There is no mail server.", hint=hint, id="gateway.W010")
    elif not (settings.GATEWAY_BASE_HOST or settings.GATEWAY_DEVELOPMENT):
        hint = "Set GATEWAY_BASE_HOST and GATEWAY_API_HOST; both to the same name if there is only one."
        yield Warning("Mails with links are not sent: GATEWAY_BASE_HOST is not set.", hint=hint, id="gateway.W011")


@partial(check, deploy=True)
def check_names() -> Findings:
    """E016: pages name a host that whoever asks has chosen. W014: nothing reads a variable; its name is misspelt, or former."""
    if "*" in settings.ALLOWED_HOSTS:
        hint = "List the names in GATEWAY_ALLOWED_HOSTS, or set GATEWAY_API_HOST and GATEWAY_BASE_HOST instead."
        yield Error("GATEWAY_ALLOWED_HOSTS accepts every host name.", hint=hint, id="gateway.E016")
    for name in sorted(name for name in os.environ if name.startswith("GATEWAY_") and name not in environment.names):
        likely = difflib.get_close_matches(name, environment.names, n=1, cutoff=0.8)
        hint = f"Write {likely[0]}." if likely else "Remove it, unless the catalog names it for a provider's key."
        yield Warning(f"No setting has the name {name}.", hint=hint, id="gateway.W014")


@check
def check_speedups() -> Findings:
    """W018: the installed version of a library was not compared with what speeds it up, so its own code serves."""
    hint = "The gateway does the same, with more processor time. A later release will have compared it."
    for library in libraries.unknown() if settings.SPEEDUPS else ():
        message = f"{library} {libraries.version(library)} runs without its speedups."
        yield Warning(message, hint=hint, id="gateway.W018")


@check
def check_bytes_in_flight() -> Findings:
    """E014: the bytes in flight are bounded below the largest body, which would be refused however often it is sent."""
    hint = f"Set it to {settings.REQUEST_BYTES_MAX} or more, or GATEWAY_REQUEST_BYTES_MAX to less."
    for name in ("BYTES_IN_FLIGHT_MAX", "ACCOUNT_BYTES_IN_FLIGHT_MAX"):
        if getattr(settings, name) < settings.REQUEST_BYTES_MAX:
            yield Error(f"GATEWAY_{name} is less than GATEWAY_REQUEST_BYTES_MAX.", hint=hint, id="gateway.E014")


@register(Tags.database, "pooler")
def check_pooler(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """E015: a pooler lends connections for single transactions. Settings and advisory locks of a session would be lost."""
    try:
        if "default" not in (databases or []) or not direct_connections.are_shared():
            return []
    except psycopg.Error:  # other checks and /readyz tell that the database cannot be reached
        return []
    hint = "Set pool_mode = session for this database in PgBouncer, or connect to PostgreSQL itself."
    message = "A pooler between the gateway and PostgreSQL shares connections within sessions (pool_mode = transaction)."
    return [Error(message, hint=hint, id="gateway.E015")]


@check
def check_outbox() -> Findings:
    """E009: settlements that wait for the database need a directory that can be written to. Makes the directory."""
    try:
        settings.OUTBOX_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=settings.OUTBOX_DIR).close()
    except OSError as error:
        hint = "Set GATEWAY_OUTBOX_DIR to a directory that this process may make or write to, on a disk that lasts."
        yield Error(f"The outbox cannot be written: {error}.", hint=hint, id="gateway.E009")


@check
def check_identities() -> Findings:
    """E030: half of what a provider of identities needs is missing, so that sign-in with it would fail."""
    hint = "Set both, or neither: people sign in without this provider then."
    for provider, client in settings.IDENTITY_CLIENTS.items():
        if any(client) and not all(client):
            named = f"GATEWAY_{provider.upper()}_CLIENT"
            yield Error(f"Only one of {named}_ID and {named}_SECRET is set.", hint=hint, id="gateway.E030")


@check
def check_support_address() -> Findings:
    """E031: what pages and mails tell people to write to is no address."""
    try:
        if settings.SUPPORT_ADDRESS:
            validate_email(settings.SUPPORT_ADDRESS)
    except ValidationError:
        hint = "It is such as help@example.com, or empty."
        yield Error("GATEWAY_SUPPORT_ADDRESS is no email address.", hint=hint, id="gateway.E031")
