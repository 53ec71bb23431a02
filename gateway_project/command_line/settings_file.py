"""The settings file, in the form of systemd's EnvironmentFile and of ``docker run --env-file``, without their escapes."""

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from gateway_project import installation

DEFAULT = Path("/etc/model-gateway/gateway.env")
# Beside it, for root alone: the database role that owns the tables, which the processes that serve must not be.
OWNER_NAME = "owner.env"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def path(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the settings file. A checkout has one only where GATEWAY_SETTINGS_FILE names it."""
    if named := environ.get("GATEWAY_SETTINGS_FILE", "").strip():
        return Path(named)
    return DEFAULT if not installation.IS_CHECKOUT and DEFAULT.exists() else None


def load(environ: MutableMapping[str, str], *, as_owner: bool = False) -> None:
    """Set what ``environ`` lacks from the file, first from that of the owner if ``as_owner``. Raises ImproperlyConfigured."""
    if (file := path(environ)) is None:
        return
    owner = file.with_name(OWNER_NAME)
    for each in [owner] * (as_owner and owner.exists()) + [file]:
        for name, value in dict(_variables(each)).items():
            environ.setdefault(name, value)


def _variables(file: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is not UTF-8"
        advice = " Run this as root." if isinstance(error, PermissionError) else ""
        raise ImproperlyConfigured(f"The settings file {file} cannot be read: {reason}.{advice}") from None
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield _variable(line, f"{file}, line {number}")


def _variable(line: str, place: str) -> tuple[str, str]:
    name, equals, value = line.strip().partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise ImproperlyConfigured(f"{place}: write NAME=value, without spaces around the name.")
    value = value.strip()
    if value[:1] in ("'", '"'):
        if len(value) < 2 or value[-1] != value[0]:
            raise ImproperlyConfigured(f"{place}: the quotation mark of {name} is not closed.")
        value = value[1:-1]
    return name, value
