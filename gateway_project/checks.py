"""System checks of a deployment's configuration. Each has an id, and most a hint that says what to do."""

import difflib
import os
import tempfile
from collections.abc import Sequence
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
from gateway_project.speedups import libraries

SECRET_KEY_CHARACTERS_MIN = 50
PEPPER_CHARACTERS_MIN = 32
METRICS_SECRET_CHARACTERS_MIN = 32


@register(environment.CHECK_TAG)
def check_secrets(**kwargs: Any) -> list[CheckMessage]:
    """E001-E003: one of the three secrets, which have no default, is missing or too short."""
    found: list[CheckMessage] = []
    if len(_secret_key()) < SECRET_KEY_CHARACTERS_MIN:
        message = f"GATEWAY_SECRET_KEY is missing or shorter than {SECRET_KEY_CHARACTERS_MIN} characters."
        found.append(Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E001"))
    if min(map(len, settings.SECRET_KEY_FALLBACKS), default=SECRET_KEY_CHARACTERS_MIN) < SECRET_KEY_CHARACTERS_MIN:
        message = f"GATEWAY_SECRET_KEY_FALLBACKS has an entry shorter than {SECRET_KEY_CHARACTERS_MIN} characters."
        found.append(Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E001"))
    if min(map(len, settings.KEY_PEPPERS), default=0) < PEPPER_CHARACTERS_MIN:
        message = f"GATEWAY_KEY_PEPPERS is missing or has an entry shorter than {PEPPER_CHARACTERS_MIN} characters."
        found.append(Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E002"))
    if not _are_fernet_keys(settings.ENCRYPTION_KEYS):
        message = "GATEWAY_ENCRYPTION_KEYS is missing or has an entry that is not a Fernet key."
        found.append(Error(message, hint=_FERNET_HINT, id="gateway.E003"))
    return found


_RANDOM_TEXT_HINT = "python -c 'import secrets; print(secrets.token_urlsafe(64))'"
_FERNET_HINT = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"


def _secret_key() -> str:
    try:
        return settings.SECRET_KEY
    except ImproperlyConfigured:  # Django raises it when an empty one is read
        return ""


def _are_fernet_keys(keys: list[str]) -> bool:
    try:
        return bool([Fernet(key) for key in keys])
    except ValueError:
        return False


@register(environment.CHECK_TAG)
def check_stores(**kwargs: Any) -> list[CheckMessage]:
    """E004: no database. E005: no host names. W001: no Redis."""
    found: list[CheckMessage] = []
    if missing := missing_database():
        found.append(missing)
    if not settings.ALLOWED_HOSTS:
        hint = "Set GATEWAY_ALLOWED_HOSTS, or GATEWAY_API_HOST and GATEWAY_BASE_HOST."
        found.append(Error("No host name is allowed.", hint=hint, id="gateway.E005"))
    if not settings.REDIS_URL and not settings.GATEWAY_DEVELOPMENT:
        message = "REDIS_URL is not set: background work and the cache run in process."
        found.append(Warning(message, hint="It is redis://host:6379/0.", id="gateway.W001"))
    return found


def missing_database() -> Error | None:
    """Return E004 if there is no database."""
    if not settings.DATABASES["default"]["ENGINE"].endswith("dummy"):
        return None
    hint = "It is postgresql://user:password@host/name, of PostgreSQL 15 or newer."
    return Error("DATABASE_URL is not set.", hint=hint, id="gateway.E004")


@register(environment.CHECK_TAG)
def check_addresses(**kwargs: Any) -> list[CheckMessage]:
    """E006: only one of the two addresses is set, which would leave the other half of the service unreachable."""
    if bool(settings.GATEWAY_API_HOST) == bool(settings.GATEWAY_BASE_HOST):
        return []
    hint = "Set both to the same name if there is only one."
    return [Error("Set both GATEWAY_API_HOST and GATEWAY_BASE_HOST, or neither.", hint=hint, id="gateway.E006")]


@register(environment.CHECK_TAG)
def check_metrics(**kwargs: Any) -> list[CheckMessage]:
    """E011, E012: the secret or the address of the metrics protects nothing. W004: nobody can read them. W005: many can."""
    found: list[CheckMessage] = []
    address, secret = settings.METRICS_ADDRESS, settings.METRICS_SECRET
    if 0 < len(secret) < METRICS_SECRET_CHARACTERS_MIN:
        message = f"GATEWAY_METRICS_SECRET is shorter than {METRICS_SECRET_CHARACTERS_MIN} characters."
        found.append(Error(message, hint=_RANDOM_TEXT_HINT, id="gateway.E011"))
    if address and address[1] == settings.WEB_PORT:
        message = "GATEWAY_METRICS_BIND has the port of the gateway itself, so the metrics have no address of their own."
        found.append(Error(message, hint="Give it another port than PORT.", id="gateway.E012"))
    if not (address or secret or settings.GATEWAY_DEVELOPMENT):
        hint = "Set GATEWAY_METRICS_BIND, such as 127.0.0.1:9464, or GATEWAY_METRICS_SECRET."
        found.append(Warning("No one can read /metrics.", hint=hint, id="gateway.W004"))
    for name, bound in (("GATEWAY_METRICS_BIND", address), ("GATEWAY_WORKER_METRICS_BIND", settings.WORKER_METRICS_ADDRESS)):
        if bound and not secret and not _is_loopback(bound[0]):
            message = f"{name} is reachable from other machines, and GATEWAY_METRICS_SECRET is not set."
            found.append(Warning(message, hint="Set the secret, or bind to 127.0.0.1.", id="gateway.W005"))
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@register(environment.CHECK_TAG)
def check_proxies(**kwargs: Any) -> list[CheckMessage]:
    """E013: the two settings about proxies contradict each other. Limits by address would count all clients as one."""
    if bool(settings.TRUSTED_PROXIES) == settings.GATEWAY_BEHIND_PROXY:
        return []
    hint = "GATEWAY_TRUSTED_PROXIES is how many proxies append to X-Forwarded-For; without a proxy, set neither."
    return [Error("GATEWAY_BEHIND_PROXY and GATEWAY_TRUSTED_PROXIES contradict each other.", hint=hint, id="gateway.E013")]


@register(environment.CHECK_TAG)
def check_mail(**kwargs: Any) -> list[CheckMessage]:
    """W010: nobody can be invited, and nobody who forgot a password can set another."""
    if settings.SENDS_MAIL:
        return []
    hint = "Set GATEWAY_SMTP_HOST, GATEWAY_SMTP_USER, GATEWAY_SMTP_PASSWORD and GATEWAY_MAIL_FROM."
    return [Warning("There is no mail server.", hint=hint, id="gateway.W010")]


@register(environment.CHECK_TAG)
def check_mailed_links(**kwargs: Any) -> list[CheckMessage]:
    """W011: mails with links are not sent, because only whoever asks for one says which host it is."""
    if settings.GATEWAY_BASE_HOST or settings.GATEWAY_DEVELOPMENT or not settings.SENDS_MAIL:
        return []
    hint = "Set GATEWAY_BASE_HOST and GATEWAY_API_HOST; both to the same name if there is only one."
    return [Warning("Mails with links are not sent: GATEWAY_BASE_HOST is not set.", hint=hint, id="gateway.W011")]


@register(environment.CHECK_TAG, deploy=True)
def check_allowed_hosts(**kwargs: Any) -> list[CheckMessage]:
    """E016: any host name is accepted, so pages name a host that whoever asks has chosen."""
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    hint = "List the names in GATEWAY_ALLOWED_HOSTS, or set GATEWAY_API_HOST and GATEWAY_BASE_HOST instead."
    return [Error("GATEWAY_ALLOWED_HOSTS accepts every host name.", hint=hint, id="gateway.E016")]


@register(environment.CHECK_TAG, deploy=True)
def check_names(**kwargs: Any) -> list[CheckMessage]:
    """W014: a variable that nothing reads: its name is misspelt, or of another version."""
    unread = sorted(name for name in os.environ if name.startswith("GATEWAY_") and name not in environment.names)
    return [Warning(f"No setting has the name {name}.", hint=_name_hint(name), id="gateway.W014") for name in unread]


def _name_hint(name: str) -> str:
    if likely := difflib.get_close_matches(name, environment.names, n=1, cutoff=0.8):
        return f"Write {likely[0]}."
    return "Remove it, unless the catalog names it for a provider's key."


@register(environment.CHECK_TAG)
def check_speedups(**kwargs: Any) -> list[CheckMessage]:
    """W018: the installed version of a library was not compared with what speeds it up, so its own code serves."""
    hint = "The gateway does the same, with more processor time. A later release will have compared it."
    return [
        Warning(f"{library} {libraries.version(library)} runs without its speedups.", hint=hint, id="gateway.W018")
        for library in libraries.unknown()
        if settings.SPEEDUPS
    ]


@register(environment.CHECK_TAG)
def check_bytes_in_flight(**kwargs: Any) -> list[CheckMessage]:
    """E014: the bytes in flight are bounded below the largest body, which would be refused however often it is sent."""
    hint = f"Set it to {settings.REQUEST_BYTES_MAX} or more, or GATEWAY_REQUEST_BYTES_MAX to less."
    bounds = ("BYTES_IN_FLIGHT_MAX", "ACCOUNT_BYTES_IN_FLIGHT_MAX")
    return [
        Error(f"GATEWAY_{name} is less than GATEWAY_REQUEST_BYTES_MAX.", hint=hint, id="gateway.E014")
        for name in bounds
        if getattr(settings, name) < settings.REQUEST_BYTES_MAX
    ]


@register(environment.CHECK_TAG)
def check_transactions(**kwargs: Any) -> list[CheckMessage]:
    """E007: ATOMIC_REQUESTS would keep a connection and its locks during upstream calls."""
    if not settings.DATABASES["default"].get("ATOMIC_REQUESTS"):
        return []
    hint = 'Remove it from DATABASES["default"].'
    return [Error("ATOMIC_REQUESTS must be off.", hint=hint, id="gateway.E007")]


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


@register(environment.CHECK_TAG)
def check_outbox(**kwargs: Any) -> list[CheckMessage]:
    """E009: settlements that wait for the database need a directory that can be written to. Makes the directory."""
    try:
        settings.OUTBOX_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=settings.OUTBOX_DIR).close()
    except OSError as error:
        hint = "Set GATEWAY_OUTBOX_DIR to a directory that this process may make or write to, on a disk that lasts."
        return [Error(f"The outbox cannot be written: {error}.", hint=hint, id="gateway.E009")]
    return []


# --- Signing in ---------------------------------------------------------------------------------------------------------


@register(environment.CHECK_TAG)
def check_identities(**kwargs: Any) -> list[CheckMessage]:
    """E030: half of what a provider of identities needs is missing, so that nobody could sign in with it."""
    return [
        Error(
            f"Only one of GATEWAY_{provider.upper()}_CLIENT_ID and GATEWAY_{provider.upper()}_CLIENT_SECRET is set.",
            hint="Set both, or neither: people sign in without this provider then.",
            id="gateway.E030",
        )
        for provider, client in settings.IDENTITY_CLIENTS.items()
        if any(client) and not all(client)
    ]


@register(environment.CHECK_TAG)
def check_support_address(**kwargs: Any) -> list[CheckMessage]:
    """E031: what pages and mails tell people to write to is no address."""
    try:
        if settings.SUPPORT_ADDRESS:
            validate_email(settings.SUPPORT_ADDRESS)
    except ValidationError:
        hint = "It is such as help@example.com, or empty."
        return [Error("GATEWAY_SUPPORT_ADDRESS is no email address.", hint=hint, id="gateway.E031")]
    return []
