"""LEAF. What a developer's machine gets for free: PostgreSQL, Redis, and the secrets a deployment must set itself.

Everything lives in GATEWAY_VAR (default ``var/``). What the environment sets is left alone; REDIS_URL set to nothing means
no Redis.
"""

import os
import secrets
import tempfile
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from gateway_project import environment
from gateway_project.local import postgresql
from gateway_project.local import redis as embedded_redis

ROOT = Path(__file__).resolve().parent.parent.parent
Environment = MutableMapping[str, str]


def prepare(environ: Environment) -> None:
    """Fill in what is missing, if this is a developer's machine: one where DATABASE_URL is not set, or that says so.

    Raises embedded.CannotStart, or ImproperlyConfigured when GATEWAY_DEVELOPMENT cannot be read.
    """
    environ.setdefault("GATEWAY_DEVELOPMENT", "0" if environ.get("DATABASE_URL") else "1")
    if not environment.parse_boolean("GATEWAY_DEVELOPMENT", environ["GATEWAY_DEVELOPMENT"]):
        return
    prepare_secrets(environ)
    if not environ.get("DATABASE_URL"):
        environ["DATABASE_URL"] = postgresql.start(var(environ))
    if "REDIS_URL" not in environ:
        environ["REDIS_URL"] = embedded_redis.url(var(environ))


def var(environ: Environment) -> Path:
    """Where this machine's data is, made if need be."""
    path = Path(environ.get("GATEWAY_VAR") or ROOT / "var").resolve()
    (path / "static").mkdir(parents=True, exist_ok=True)
    return path


# --- Secrets -----------------------------------------------------------------------------------------------------


def prepare_secrets(environ: Environment) -> None:
    """Set the secrets that are not set, from a file only its owner can read; the first time, make it."""
    path = var(environ) / "secrets.env"
    if not path.exists():
        _write_secrets(path)
    for line in path.read_text().splitlines():
        name, _, value = line.partition("=")
        environ.setdefault(name, value)


def _write_secrets(path: Path) -> None:
    # Linked into place when whole: a command started at the same moment reads all of it or makes none of its own.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".secrets-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.writelines(f"{name}={value}\n" for name, value in _new_secrets().items())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def _new_secrets() -> dict[str, str]:
    from cryptography.fernet import Fernet

    return {
        "GATEWAY_SECRET_KEY": secrets.token_urlsafe(64),
        "GATEWAY_KEY_PEPPERS": secrets.token_urlsafe(48),
        "GATEWAY_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    }
