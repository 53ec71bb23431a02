"""Defaults for a developer's machine: an embedded PostgreSQL and Redis, and generated secrets.

All data is in GATEWAY_VAR (default ``var/``). Variables that are set stay as they are; an empty REDIS_URL means no Redis.
"""

import os
import secrets
import tempfile
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from gateway_project import environment, installation
from gateway_project.local import embedded

ROOT = installation.CODE
Environment = MutableMapping[str, str]

_SECRETS = ("GATEWAY_SECRET_KEY", "GATEWAY_KEY_PEPPERS", "GATEWAY_ENCRYPTION_KEYS")
# A developer's machine has none of these. Whoever sets the secrets alone has forgotten DATABASE_URL: that migrates nothing.
_OF_DEPLOYMENTS = ("DATABASE_URL", *_SECRETS)


def prepare(environ: Environment) -> None:
    """Set what is missing where GATEWAY_DEVELOPMENT is on, or nothing tells of a deployment.

    Raises embedded.CannotStart, or ImproperlyConfigured when GATEWAY_DEVELOPMENT cannot be read.
    """
    environ.setdefault("GATEWAY_DEVELOPMENT", "0" if any(map(environ.get, _OF_DEPLOYMENTS)) else "1")
    if not environment.parse_boolean("GATEWAY_DEVELOPMENT", environ["GATEWAY_DEVELOPMENT"]):
        return
    is_complete = bool(environ.get("DATABASE_URL")) and "REDIS_URL" in environ
    if not is_complete:
        embedded.require_installed()
    prepare_secrets(environ)
    if is_complete:
        return
    # A server does not have installed what these modules import.
    from gateway_project.local import postgresql
    from gateway_project.local import redis as embedded_redis

    if not environ.get("DATABASE_URL"):
        environ["DATABASE_URL"] = postgresql.start(var(environ))
    if "REDIS_URL" not in environ:
        environ["REDIS_URL"] = embedded_redis.url(var(environ))


def is_prepared(environ: Environment) -> bool:
    """Return whether a start made the secrets, or the environment says by itself what it is."""
    says_it = any(map(environ.get, ("GATEWAY_DEVELOPMENT", *_OF_DEPLOYMENTS)))
    return says_it or (installation.var(environ) / "secrets.env").exists()


def var(environ: Environment) -> Path:
    """Return the data directory, and make it if it does not exist. Raises embedded.CannotStart."""
    path = installation.var(environ)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:  # the disk may be full, or another user's
            file.write(b"0" * 2**16)
    except OSError as error:
        raise embedded.cannot_write(path, error) from None
    return path


def prepare_secrets(environ: Environment) -> None:
    """Set the missing secrets from a file that only its owner can read. Make the file if it does not exist."""
    path = var(environ) / "secrets.env"
    if not path.exists():
        _write_secrets(path)
    for line in path.read_text().splitlines():
        name, _, value = line.partition("=")
        environ.setdefault(name, value)


def _write_secrets(path: Path) -> None:
    from cryptography.fernet import Fernet

    values = secrets.token_urlsafe(64), secrets.token_urlsafe(48), Fernet.generate_key().decode()
    # Linked into place when complete, so that a command that starts at the same moment reads the whole file.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".secrets-") as file:
        file.writelines(f"{name}={value}\n" for name, value in zip(_SECRETS, values, strict=True))
        file.flush()
        with suppress(FileExistsError):
            os.link(file.name, path)
