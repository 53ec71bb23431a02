"""The steps of ``make run`` before the processes start: read the options, start PostgreSQL and Redis, fill the database.

Each step prints a line; one that fails ends the start. The steps in the database run in a process of their own,
``python -m gateway_project.local.preparation``, so that the supervisor does not keep what they load.
"""

import errno
import io
import multiprocessing
import os
import runpy
import shutil
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from gateway_project import environment
from gateway_project.local import development, postgresql
from gateway_project.local import redis as embedded_redis
from gateway_project.local.embedded import CannotStart

_FREE_BYTES_MIN = 100 * 2**20  # a new database and its log


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"http://{self.local_host}:{self.port}"

    @property
    def local_host(self) -> str:
        """The host by which this machine itself reaches the web process."""
        return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(self.host, self.host)  # noqa: S104

    def url(self, public_host: str) -> str:
        """Return the URL under ``public_host``, which may include a port. Without a public host return the local URL."""
        if not public_host:
            return str(self)
        return f"http://{public_host}" if ":" in public_host else f"http://{public_host}:{self.port}"


def require_room(directory: Path) -> None:
    """Raises CannotStart where PostgreSQL would end in the middle of its start, because the disk is full."""
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < _FREE_BYTES_MIN:
        free, needed = free_bytes // 2**20, _FREE_BYTES_MIN // 2**20
        raise CannotStart(
            f"The disk of {directory} has {free} MB left, and the gateway needs {needed}:"
            " free some, or set GATEWAY_VAR to a directory on another disk."
        )


def requested_address(environ: development.Environment) -> Address:
    port = environ.get("PORT", "8000")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise CannotStart(f"PORT must be a number from 1 to 65535; it is {port!r}.")
    return Address(environ.get("GATEWAY_BIND") or "127.0.0.1", int(port))


def requested_catalog(environ: development.Environment) -> Path | None:
    name = environ.get("CATALOG")
    if name and not Path(name).is_file():
        raise CannotStart(f"CATALOG: there is no file {name}.")
    return Path(name) if name else None


def require_readable_settings() -> None:
    """Raises CannotStart when a variable of the settings cannot be read, by a process that ends with what they load."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
        if objection := process.submit(_settings_objection).result():
            raise CannotStart(objection)


def _settings_objection() -> str:
    try:
        runpy.run_module("gateway_project.settings")
    except ImproperlyConfigured as error:
        return str(error)
    return ""


_ADVICE = {errno.EADDRINUSE: "Try another PORT.", errno.EACCES: "Take a PORT from 1024 on."}


def require_free_port(address: Address) -> None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server((address.host.strip("[]"), address.port), family=family).close()
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        advice = _ADVICE.get(error.errno or 0, "Set GATEWAY_BIND to an address of this machine, such as 127.0.0.1 or [::1].")
        raise CannotStart(f"Cannot listen on {address.host}:{address.port}: {reason}. {advice}") from None


Stores = dict[str, Callable[[], bool]]  # by name, a function that returns whether the server still runs


def start_stores(environ: development.Environment, directory: Path) -> Stores:
    started: Stores = {}

    def start_redis() -> str:
        process = embedded_redis.start(directory)
        environ["REDIS_URL"] = embedded_redis.url(directory)
        if process is None:
            return "none found: beat runs the background tasks itself"
        started["Redis"] = lambda: process.poll() is None
        return ""

    if "REDIS_URL" not in environ:
        run_step("Redis", start_redis)
    if not environ.get("DATABASE_URL"):
        started["PostgreSQL"] = partial(postgresql.is_running, directory)
    run_step("PostgreSQL", lambda: development.prepare(environ))
    if not environ.get("DATABASE_URL"):
        raise CannotStart("gateway.E004: DATABASE_URL is not set, and GATEWAY_DEVELOPMENT is off.")
    return started


def main() -> None:
    try:
        _prepare_database(requested_address(os.environ), requested_catalog(os.environ))
    except CannotStart as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _prepare_database(address: Address, catalog: Path | None) -> None:
    """Migrate the database, load the catalog and make the demo account, whose facts are then in quickstart.json."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    from django.core.management import call_command

    def configure() -> None:
        import django

        django.setup()
        call_command("check", tags=[environment.CHECK_TAG], fail_level="ERROR", stdout=io.StringIO())

    def make_demo_account() -> None:
        from django.conf import settings

        urls = {"base_url": address.url(settings.GATEWAY_BASE_HOST), "api_url": address.url(settings.GATEWAY_API_HOST)}
        call_command("prepare_quickstart", **urls, stdout=io.StringIO())

    run_step("configuration", configure)
    run_step("migrations", lambda: call_command("migrate", verbosity=0))
    # One call for both: two calls would, at every start, set a price that the file overrides to the built-in one and back.
    files = [str(catalog)] if catalog else []
    run_step("catalog", lambda: call_command("load_catalog", *files, built_in=True, stdout=io.StringIO()))
    # From the gateway's own data only, without a request to a source: so the rankings are not empty at the first visit.
    run_step("rankings", lambda: call_command("refresh_rankings", "INTERNAL", stdout=io.StringIO(), stderr=io.StringIO()))
    run_step("demo account", make_demo_account)


def run_step(name: str, act: Callable[[], object]) -> None:
    """Run one step of the start and print its name and duration, or the text it returns. Raises CannotStart when it fails."""
    sys.stdout.write(f"  {name:<14}")
    sys.stdout.flush()
    started = time.monotonic()
    try:
        note = act()
    except CannotStart:
        write_line("failed")
        raise
    except Exception as error:
        write_line("failed")
        raise CannotStart(f"{name}: {str(error).strip() or type(error).__name__}") from error
    write_line(note if isinstance(note, str) and note else f"{time.monotonic() - started:.1f} s")


def write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
