"""The command ``model-gateway``, and ``manage.py`` of a checkout: starts a process, or passes every other word to Django."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from gateway_project import installation
from gateway_project.local import development, embedded

USAGE = """\
model-gateway init HOST     writes the settings, secrets and units of this server
model-gateway web           serves: gunicorn, with any of its options
model-gateway worker        does background work: Celery, with any of its options
model-gateway beat          starts background work when it is due: one for all servers
model-gateway version       prints the version of the gateway
model-gateway run           serves on a developer's machine, with a PostgreSQL and a Redis of its own
model-gateway COMMAND       any of the following; COMMAND --help describes it
"""
_OF_OWNER = ("migrate", "add_cell", "move_account")  # what the role that serves may not do
_HELP = ("help", "--help", "-h")
_VERSION = ("version", "--version")  # Django's own would print Django's
_SETTINGS_FILE = Path("/etc/model-gateway/gateway.env")
# Beside it, for root alone: the database role that owns the tables, which the processes that serve must not be.
_OWNER_FILE_NAME = "owner.env"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    word, rest = (sys.argv[1] if sys.argv[1:] else "help"), sys.argv[2:]
    try:
        if word in _VERSION:
            sys.stdout.write(f"{installation.VERSION}\n")
            return
        if word == "init":
            from gateway_project.command_line import server_files

            server_files.main(rest)
            return
        load_settings(os.environ, as_owner=word in _OF_OWNER)
        _become_owner(installation.var(os.environ))
        if word == "run":
            embedded.require_installed()
            from gateway_project.local import supervisor

            supervisor.main()
        elif process := installation.processes(installation.var(os.environ)).get(word):
            _become([*process, *rest])
        else:
            _manage(word)
    except (embedded.CannotStart, ImproperlyConfigured) as error:
        sys.exit(str(error))


def _become_owner(directory: Path) -> None:
    """Give root up for the owner of the data directory, whose processes could not use files that root makes there."""
    if installation.IS_CHECKOUT or os.geteuid() != 0 or not directory.exists():
        return
    owner = directory.stat()
    if owner.st_uid != 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
        os.environ["HOME"] = str(directory)  # libpq reads certificates there, and gives TLS up if it may not look for them


def _become(arguments: list[str]) -> None:
    os.environ["GATEWAY_VAR"] = str(installation.var(os.environ))
    if not installation.IS_CHECKOUT:
        os.chdir("/")  # gunicorn and Celery import first of all what is in the current directory
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606  the process keeps its id


def _manage(word: str) -> None:
    import django

    is_help = word in _HELP
    is_check = word == "check" and "--database" not in " ".join(sys.argv)
    # To check makes nothing: it says what an unprepared environment lacks.
    if not is_help and (not is_check or development.is_prepared(os.environ)):
        development.prepare(os.environ)
    django.setup()
    if is_help and len(sys.argv) < 3:
        sys.stdout.write(f"{USAGE}\n")
    elif not is_check and not is_help:
        from gateway_project import checks, startup

        if missing := checks.missing_database():
            sys.exit(startup.describe(missing))
    _execute()


def _execute() -> None:
    """Run a command of Django. Where it gets no connection, say why: the pool knows only how long it has waited."""
    from django.core.management import execute_from_command_line
    from django.db import OperationalError
    from psycopg_pool import PoolTimeout

    from gateway_project.db import direct_connections

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        if not isinstance(error.__cause__, PoolTimeout) or not (reason := direct_connections.refusal()):
            raise
        sys.exit(f"The database is unavailable: {reason}")


def _settings_file(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the settings file. A checkout has one only where GATEWAY_SETTINGS_FILE names it."""
    if named := environ.get("GATEWAY_SETTINGS_FILE", "").strip():
        return Path(named)
    return _SETTINGS_FILE if not installation.IS_CHECKOUT and _SETTINGS_FILE.exists() else None


def load_settings(environ: MutableMapping[str, str], *, as_owner: bool = False) -> None:
    """Set what ``environ`` lacks from the settings file, first from that of the owner if ``as_owner``.

    It has the form of systemd's EnvironmentFile and of ``docker run --env-file``, without their escapes. Raises
    ImproperlyConfigured.
    """
    if (file := _settings_file(environ)) is None:
        return
    owner = file.with_name(_OWNER_FILE_NAME)
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
