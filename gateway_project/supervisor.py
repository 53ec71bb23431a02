"""Runs the whole gateway on one machine: ``make run``, or ``python -m gateway_project.supervisor``.

It starts what is missing (PostgreSQL, Redis), prepares the database, then runs web, worker and beat until Ctrl-C or until
one of them ends, and leaves nothing running. From the environment: PORT (8000), GATEWAY_BIND (127.0.0.1), CATALOG (a file
for ``load_catalog``), GATEWAY_VAR, and whatever the settings read.
"""

import fcntl
import http.client
import io
import multiprocessing
import os
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import psutil
from honcho.manager import Manager
from honcho.process import Process

from gateway_project import development

# Every child carries this, with the directory it works for: by it we find what a kill -9 of a supervisor left behind.
MARK = "GATEWAY_SUPERVISOR"
BUILT_IN_CATALOGUE = development.ROOT / "completions" / "catalogue.toml"
READY_SECONDS_MAX = 60
END_SECONDS_MAX = 5
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Refusal(Exception):
    """Why the gateway does not start, for people."""


@dataclass(frozen=True)
class Address:
    """Where the web process listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"http://{self.local_host}:{self.port}"

    @property
    def local_host(self) -> str:
        """The host by which this machine reaches it."""
        return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(self.host, self.host)  # noqa: S104

    def url(self, public_host: str) -> str:
        """The address under ``public_host``, which may have a port of its own; without one, the local address."""
        if not public_host:
            return str(self)
        return f"http://{public_host}" if ":" in public_host else f"http://{public_host}:{self.port}"


def main() -> None:
    for signal_number in _ENDING_SIGNALS:
        signal.signal(signal_number, _interrupt)
    try:
        sys.exit(_run(os.environ))
    except (Refusal, development.CannotStart) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt(signal_number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _run(environ: development.Environment) -> int:
    environ.setdefault("GATEWAY_DEVELOPMENT", "1")
    directory, address, catalogue = development.var(environ), _address(environ), _catalogue(environ)
    lock = _lock(directory, address)
    try:
        end_children(directory)
        _require_free(address)
        _say(f"Starting the gateway at {address}. Its data is in {directory}.")
        stores = _start_stores(environ, directory)
        children = _children_environment(environ, directory, address)
        facts = _prepare_database(directory, address, catalogue)
        return _serve(Supervision(address, stores, partial(_announce, directory, facts)), children, directory)
    finally:
        for signal_number in _ENDING_SIGNALS:
            signal.signal(signal_number, signal.SIG_IGN)  # a second Ctrl-C would only leave something running
        end_children(directory)
        lock.close()


# --- Before anything starts --------------------------------------------------------------------------------------


def _address(environ: development.Environment) -> Address:
    port = environ.get("PORT") or "8000"
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise Refusal(f"PORT must be a number from 1 to 65535; it is {port!r}.")
    return Address(environ.get("GATEWAY_BIND") or "127.0.0.1", int(port))


def _catalogue(environ: development.Environment) -> Path | None:
    name = environ.get("CATALOG")
    if name and not Path(name).is_file():
        raise Refusal(f"CATALOG: there is no file {name}.")
    return Path(name) if name else None


def _lock(directory: Path, address: Address) -> IO[str]:
    """Make this process the only supervisor of ``directory`` until it ends, however it ends. Raises Refusal."""
    file = (directory / "run.lock").open("a+")
    try:
        # Not flock: children inherit that one, and would hold it after a kill -9 of ours.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        raise Refusal(f"The gateway is already running at {file.read().strip()} (data in {directory}).") from None
    file.truncate(0)
    file.write(f"{address}\n")
    file.flush()
    return file


def end_children(directory: Path) -> None:
    """End what a supervisor of ``directory`` started, and wait for it. PostgreSQL stops with its last user."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        for process in _children(directory):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal_number)
        deadline = time.monotonic() + END_SECONDS_MAX
        while _children(directory) and time.monotonic() < deadline:
            time.sleep(0.05)
    development.stop_redis(directory)


def _children(directory: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _mark(process) == str(directory)]


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):  # somebody else's, or ended and not yet reaped
        return None


def _require_free(address: Address) -> None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server((address.host.strip("[]"), address.port), family=family).close()
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise Refusal(f"Cannot listen on {address.host}:{address.port}: {reason}. Try another PORT.") from None


# --- The stores --------------------------------------------------------------------------------------------------


Stores = dict[str, Callable[[], bool]]  # by name: whether it still runs


def _start_stores(environ: development.Environment, directory: Path) -> Stores:
    """Start what is missing, and say in ``environ`` where it is. Returns what was started."""
    started: Stores = {}
    if "REDIS_URL" not in environ:
        _step("Redis", lambda: _start_redis(environ, directory, started))
    if not environ.get("DATABASE_URL"):
        started["PostgreSQL"] = partial(development.postgresql_runs, directory)
    _step("PostgreSQL", lambda: development.prepare(environ))
    if not environ.get("DATABASE_URL"):
        raise Refusal("DATABASE_URL is not set, and GATEWAY_DEVELOPMENT is off.")
    return started


def _start_redis(environ: development.Environment, directory: Path, started: Stores) -> str:
    process = development.start_redis(directory)
    environ["REDIS_URL"] = development.running_redis(directory)
    if process is None:
        return "there is none: beat does the background work itself"
    started["Redis"] = lambda: process.poll() is None
    return ""


def _children_environment(environ: development.Environment, directory: Path, address: Address) -> dict[str, str]:
    metrics = directory / "metrics"
    shutil.rmtree(metrics, ignore_errors=True)
    metrics.mkdir()
    return {
        "WEB_CONCURRENCY": "1",
        "GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "3",  # honcho kills after 5
        **environ,
        "GATEWAY_VAR": str(directory),
        "PROMETHEUS_MULTIPROC_DIR": str(metrics),
        "PORT": str(address.port),
        "PYTHONUNBUFFERED": "1",
        MARK: str(directory),
    }


def _prepare_database(directory: Path, address: Address, catalogue: Path | None) -> dict[str, Any]:
    """Bring the database up to date. Returns the facts of the quickstart."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    os.environ["GATEWAY_DATABASE_POOL_SIZE"] = "0"  # a pool has threads, and this process is about to fork
    import django
    from django.core.management import call_command
    from django.db import connections

    django.setup()
    _step("configuration", lambda: call_command("check", fail_level="ERROR", stdout=io.StringIO()))
    _step("migrations", lambda: call_command("migrate", verbosity=0))
    for file in filter(None, [BUILT_IN_CATALOGUE, catalogue]):
        _step("catalogue", partial(call_command, "load_catalog", str(file), stdout=io.StringIO()))
    facts: dict[str, Any] = {}
    _step("demo account", lambda: facts.update(_quickstart(directory, address)))
    connections.close_all()
    return facts


def _quickstart(directory: Path, address: Address) -> dict[str, Any]:
    from django.conf import settings

    from gateway_project import quickstart

    return quickstart.prepare(
        directory / "quickstart.json",
        base_url=address.url(settings.GATEWAY_BASE_HOST),
        api_url=address.url(settings.GATEWAY_API_HOST),
    )


def _step(name: str, act: Callable[[], object]) -> None:
    """Do one step of the start, visibly. A step that fails ends the start."""
    sys.stdout.write(f"  {name:<14}")
    sys.stdout.flush()
    started = time.monotonic()
    try:
        note = act()
    except (Refusal, development.CannotStart):
        _say("failed")
        raise
    except Exception as error:
        _say("failed")
        raise Refusal(f"{name}: {str(error).strip() or type(error).__name__}") from error
    _say(note if isinstance(note, str) and note else f"{time.monotonic() - started:.1f} s")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- The processes -----------------------------------------------------------------------------------------------


def _serve(supervision: "Supervision", environ: dict[str, str], directory: Path) -> int:
    """Run web, worker and beat until one ends or a signal comes. Returns the exit status: 0 if somebody asked for the end."""
    for name, arguments in _commands(directory, has_redis=bool(environ["REDIS_URL"])).items():
        command = shlex.join([sys.executable, *_QUIET, *arguments])
        supervision.add_process(name, f"exec {command}", env=environ, cwd=str(development.ROOT))
    supervision.loop()
    return 0 if supervision.was_asked_to_end else 1


# A container's only user is often root, and this worker reads messages of ours alone.
_QUIET = ["-W", "ignore:You're running the worker with superuser privileges"]


def _commands(directory: Path, *, has_redis: bool) -> dict[str, list[str]]:
    """What runs, as arguments of this Python. Without Redis there is nothing a worker could wait for."""
    celery = ["-m", "celery", "--quiet", "--app", "gateway_project"]
    worker = [*celery, "worker", "--pool", "threads", "--concurrency", "2", "--without-gossip", "--without-mingle"]
    beat = [*celery, "beat", "--schedule", str(directory / "celerybeat-schedule"), "--pidfile="]
    web = ["-m", "gunicorn", "--config", str(development.ROOT / "deploy" / "gunicorn.conf.py")]
    return {"web": web, **({"worker": worker} if has_redis else {}), "beat": beat}


class _Child(Process):
    """honcho's keeper of one child, which must not outlive a supervisor that was killed: its last words have no listener."""

    def run(self, events: Any = None, ignore_signals: bool = False) -> None:
        super().run(events, ignore_signals)
        parent = multiprocessing.parent_process()
        if parent and not parent.is_alive():
            os._exit(1)


class Supervision(Manager):
    """honcho's manager, which also says when the gateway is ready, and ends it all when a store ends or it never is."""

    def __init__(self, address: Address, stores: Stores, announce: Callable[[], None]) -> None:
        super().__init__()
        self._process_ctor = _Child
        self._address, self._stores, self._announce = address, stores, announce

    @property
    def was_asked_to_end(self) -> bool:
        return self.returncode in {130, 143}  # honcho's, for SIGINT and SIGTERM; a child's own would be negative

    def _start(self) -> None:
        super()._start()
        threading.Thread(target=self._watch, daemon=True).start()  # after the forks: they would copy it

    def _watch(self) -> None:
        deadline, is_announced = time.monotonic() + READY_SECONDS_MAX, False
        while not self._terminating:
            if not is_announced and _is_ready(self._address):
                self._announce()
                is_announced = True
            if not is_announced and time.monotonic() > deadline:
                self._give_up(f"The gateway was not ready after {READY_SECONDS_MAX} seconds.")
            for name, runs in self._stores.items():
                if not runs():
                    self._give_up(f"{name} has ended.")
            time.sleep(1 if is_announced else 0.1)

    def _give_up(self, reason: str) -> None:
        if not self._terminating:
            _say(reason)
            self.returncode = 1
            self.terminate()


def _is_ready(address: Address) -> bool:
    connection = http.client.HTTPConnection(address.local_host.strip("[]"), address.port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _announce(directory: Path, facts: dict[str, Any]) -> None:
    _say(f"""
The gateway is ready. Try:

  curl {facts["api_url"]}/v1/chat/completions \\
    -H "Authorization: Bearer {facts["api_key"]}" -H "Content-Type: application/json" \\
    -d '{{"model": "{facts["model"]}", "messages": [{{"role": "user", "content": "Hello"}}]}}'

  from openai import OpenAI
  client = OpenAI(base_url="{facts["api_url"]}/v1", api_key="{facts["api_key"]}")
  reply = client.chat.completions.create(model="{facts["model"]}", messages=[{{"role": "user", "content": "Hello"}}])
  print(reply.choices[0].message.content)

  Dashboard  {facts["base_url"]}/dashboard/  {facts["owner"]["email"]}  {facts["owner"]["password"]}
  Admin      {facts["base_url"]}/admin/      {facts["admin"]["email"]}  {facts["admin"]["password"]}

All of this is in {directory / "quickstart.json"}. Ctrl-C ends everything.
""")


if __name__ == "__main__":
    main()
