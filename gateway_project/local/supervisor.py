"""Runs the whole gateway on one machine: ``make run``, or ``python -m gateway_project.local.supervisor``.

After the steps of ``preparation`` it runs web and a worker with beat, until Ctrl-C or until one of them ends. It reads PORT,
GATEWAY_BIND, CATALOG (a file for ``load_catalog``), GATEWAY_VAR, and the variables of the settings.
"""

import fcntl
import http.client
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import psutil
from honcho.manager import Manager

from gateway_project import installation
from gateway_project.local import development, preparation
from gateway_project.local import redis as embedded_redis
from gateway_project.local.embedded import CannotStart, cannot_write, wait_until
from gateway_project.local.preparation import Address, Stores, write_line

# Every child has this variable, with its data directory, so that children are found after a kill -9 of their supervisor.
MARK_VARIABLE = "GATEWAY_SUPERVISOR"
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 5
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    for signal_number in _STOP_SIGNALS:
        signal.signal(signal_number, signal.default_int_handler)
    try:
        sys.exit(_run(os.environ))
    except CannotStart as error:
        sys.exit(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(str(cannot_write(Path(error.filename), error)))
    except KeyboardInterrupt:
        sys.exit(130)


def _run(environ: development.Environment) -> int:
    environ.setdefault("GATEWAY_DEVELOPMENT", "1")
    environ.setdefault("GATEWAY_TRIAL_CREDIT_CENTS", "100")
    directory, address = development.var(environ), preparation.requested_address(environ)
    preparation.requested_catalog(environ)  # fails before anything starts
    preparation.require_readable_settings()
    preparation.require_room(directory)
    lock = _lock(directory, address)
    try:
        stop_children(directory)
        preparation.require_free_port(address)
        write_line(f"Starting the gateway at {address}. Its data is in {directory}.")
        stores = preparation.start_stores(environ, directory)
        children = _children_environment(environ, directory, address)
        if status := _run_child("gateway_project.local.preparation", children):
            return status
        return _serve(Supervisor(address, stores, partial(_announce, directory)), children, directory)
    finally:
        for signal_number in _STOP_SIGNALS:
            signal.signal(signal_number, signal.SIG_IGN)  # a second Ctrl-C would leave processes running
        stop_children(directory)
        lock.close()


def _lock(directory: Path, address: Address) -> IO[str]:
    """Make this process the only supervisor of ``directory``; the lock ends with the process. Raises CannotStart."""
    file = (directory / "run.lock").open("a+")
    try:
        # Not flock: children inherit such a lock, and would hold it after a kill -9 of the supervisor.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        raise CannotStart(f"The gateway is already running at {file.read().strip()} (data in {directory}).") from None
    file.truncate(0)
    file.write(f"{address}\n")
    file.flush()
    return file


def stop_children(directory: Path) -> None:
    """Stop the children of any supervisor of ``directory`` and wait for them. PostgreSQL stops with its last user."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        for process in _children(directory):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal_number)
        wait_until(lambda: not _children(directory), STOP_SECONDS_MAX)
    embedded_redis.stop(directory)


def _children(directory: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _mark(process) == str(directory)]


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK_VARIABLE)
    except (psutil.Error, OSError):  # another user's process, or one that has ended and is not reaped yet
        return None


def _serve(supervisor: "Supervisor", environ: dict[str, str], directory: Path) -> int:
    for name, arguments in _commands(directory, has_redis=bool(environ["REDIS_URL"])).items():
        command = shlex.join([sys.executable, *arguments])
        supervisor.add_process(name, f"exec {command}", env=environ, cwd=str(development.ROOT))
    supervisor.loop()
    return 0 if supervisor.returncode in (130, 143) else 1  # honcho's codes for SIGINT and SIGTERM; a child's is negative


def _run_child(module: str, environ: dict[str, str]) -> int:
    return subprocess.run([sys.executable, "-m", module], env=environ, check=False).returncode  # noqa: S603


def _commands(directory: Path, *, has_redis: bool) -> dict[str, list[str]]:
    """Return the processes by name, as arguments of Python. Without Redis there is no worker: beat runs the tasks itself."""
    processes = installation.processes(directory)
    if has_redis:
        return {"web": processes["web"], "worker": installation.worker_with_beat(directory)}
    return {"web": processes["web"], "beat": processes["beat"]}


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
        MARK_VARIABLE: str(directory),
    }


class Supervisor(Manager):
    """honcho's manager. It also announces when the gateway is ready, and stops it when it never is or a store ends."""

    def __init__(self, address: Address, stores: Stores, announce: Callable[[], None]) -> None:
        super().__init__()
        self.events: queue.Queue[Any] = queue.Queue()
        self._address, self._stores, self._announce = address, stores, announce

    def _start(self) -> None:
        """Start each process and read its output in a thread. honcho would fork for it, and each fork takes 10 MB."""
        for process in self._processes.values():
            threading.Thread(target=process["obj"].run, args=(self.events,), daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

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
            write_line(reason)
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


def _announce(directory: Path) -> None:
    facts = json.loads((directory / "quickstart.json").read_text())
    write_line(Path(__file__).with_name("ready.txt").read_text().format(directory=directory, **facts))


if __name__ == "__main__":
    main()
