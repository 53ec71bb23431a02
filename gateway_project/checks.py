"""System checks of a deployment's configuration. Each has an id, and most a hint that says what to do."""

import tempfile
from typing import Any

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

SECRET_KEY_CHARACTERS_MIN = 50
PEPPER_CHARACTERS_MIN = 32


@register()
def check_secrets(**kwargs: Any) -> list[CheckMessage]:
    """E001-E003: one of the three secrets, which have no default, is missing or too short."""
    found: list[CheckMessage] = []
    if len(_secret_key()) < SECRET_KEY_CHARACTERS_MIN:
        message = f"GATEWAY_SECRET_KEY is missing or shorter than {SECRET_KEY_CHARACTERS_MIN} characters."
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


@register()
def check_stores(**kwargs: Any) -> list[CheckMessage]:
    """E004: no database. E005: no host names. W001: no Redis."""
    found: list[CheckMessage] = []
    if settings.DATABASES["default"]["ENGINE"].endswith("dummy"):
        hint = "postgresql://user:password@host/name, PostgreSQL 15 or newer"
        found.append(Error("DATABASE_URL is not set.", hint=hint, id="gateway.E004"))
    if not settings.ALLOWED_HOSTS:
        hint = "Set GATEWAY_ALLOWED_HOSTS, or GATEWAY_API_HOST and GATEWAY_BASE_HOST."
        found.append(Error("No host name is allowed.", hint=hint, id="gateway.E005"))
    if not settings.REDIS_URL and not settings.GATEWAY_DEVELOPMENT:
        message = "REDIS_URL is not set: background work and the cache run in process."
        found.append(Warning(message, id="gateway.W001"))
    return found


@register()
def check_addresses(**kwargs: Any) -> list[CheckMessage]:
    """E006: only one of the two addresses is set, which would leave the other half of the service unreachable."""
    if bool(settings.GATEWAY_API_HOST) == bool(settings.GATEWAY_BASE_HOST):
        return []
    return [Error("Set both GATEWAY_API_HOST and GATEWAY_BASE_HOST, or neither.", id="gateway.E006")]


@register()
def check_transactions(**kwargs: Any) -> list[CheckMessage]:
    """E007: ATOMIC_REQUESTS would keep a connection and its locks during upstream calls."""
    if not settings.DATABASES["default"].get("ATOMIC_REQUESTS"):
        return []
    return [Error("ATOMIC_REQUESTS must be off.", id="gateway.E007")]


@register()
def check_outbox(**kwargs: Any) -> list[CheckMessage]:
    """E009: settlements that wait for the database need a directory that can be written to. Makes the directory."""
    try:
        settings.OUTBOX_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=settings.OUTBOX_DIR).close()
    except OSError as error:
        hint = "Set GATEWAY_OUTBOX_DIR to a directory that this process may make or write to, on a disk that lasts."
        return [Error(f"The outbox cannot be written: {error}.", hint=hint, id="gateway.E009")]
    return []
