"""`make citus`: the gateway with its cells on Citus, beside the same gateway on one PostgreSQL.

    make citus CITUS=DIRECTORY          # ARGS=8 for the seconds of each load

DIRECTORY has the programs of a PostgreSQL that has Citus: ``pg_config --bindir``. A coordinator with the first cell, two
workers with a cell each, all on loopback, and one web process. Measured are completions by 8 and by 64 clients, and the
processor time of all PostgreSQLs. Then, under load, a cell moves to the other worker, an account with many entries moves to the
other cell, and a worker is killed and started again. At the end the ledger is audited. The figures go to docs/scaling.md.
"""

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, LiteralString

import psycopg

from bench import run
from tests.live.database_server import DatabaseServer

CELLS = (2, 3)
CLIENTS = (8, 64)
ENTRIES = 20_000  # of the account that moves
_FILL_SECONDS_MAX = 600
_SETTLED_SECONDS_MAX = 60
PAGE = run.ROOT / "docs" / "scaling.md"
_MARK = "<!-- `make citus` writes what follows -->\n"
# A move copies by logical replication. Session settings of the gateway do not reach the workers.
_SETTINGS = ["shared_preload_libraries=citus", "wal_level=logical", "max_connections=200", "lock_timeout=10s"]
_SETTINGS += ["citus.enable_unsafe_triggers=on"]  # safe, because a schema has all rows of its tables on one node
_SETTINGS += ["citus.recover_2pc_interval=5s"]


def main() -> None:
    programs, [seconds] = Path(sys.argv[1]), run.numbers(sys.argv[2:], 8)
    alone = _measured_alone(programs, seconds)
    with (
        started(programs, _SETTINGS, "coordinator", "worker1", "worker2") as servers,
        gateway(servers, has_citus=True) as served,
    ):
        lines = ["| Clients | Where | Replies per second | CPU each, µs | Log each, KB |", "| --- | --- | --- | --- | --- |"]
        lines += [f"| {clients} | one PostgreSQL | {each} |" for clients, each in alone.items()]
        for cell, clients in product((1, CELLS[0]), CLIENTS):
            lines.append(_compared(cell, clients, alone[clients], served.measure(cell, clients, seconds)))
        lines += ["", *(f"- {what}: {figure}" for what, figure in _tries(served, seconds))]
        [versions] = execute(servers[0], "SELECT citus_version(), version()")
        named = " and ".join(re.sub(" on .*", "", version) for version in versions)
        PAGE.write_text(PAGE.read_text().partition(_MARK)[0] + _MARK + "\n".join([f"{named}.", "", *lines]) + "\n")


# --- Servers ----------------------------------------------------------------------------------------------------------


@contextmanager
def started(programs: Path, settings: list[str], *names: str) -> Iterator[list[DatabaseServer]]:
    """PostgreSQLs that do not know each other yet."""
    with run.Servers() as files, ExitStack() as stopping:
        files.directory.chmod(0o755)  # PostgreSQL's user must be able to enter it
        servers = [DatabaseServer(files.directory / name, programs=programs, settings=settings) for name in names]
        for server in servers:
            server.make()
            stopping.callback(server.stop)
            server.start()
        yield servers


def install(servers: list[DatabaseServer]) -> None:
    """Make a coordinator of the first PostgreSQL, which has the tables of a gateway already."""
    coordinator, *workers = servers
    for server in servers:
        execute(server, "CREATE EXTENSION citus")
    execute(coordinator, "SELECT citus_set_coordinator_host('127.0.0.1', %(port)s)", port=coordinator.port)
    for worker in workers:
        execute(coordinator, "SELECT citus_add_node('127.0.0.1', %(port)s)", port=worker.port)


def execute(server: DatabaseServer, *statements: LiteralString, **parameters: Any) -> list[tuple[Any, ...]]:
    """Execute the statements, and return the rows of the last."""
    with psycopg.connect(server.url, autocommit=True, connect_timeout=10) as connection:
        for statement in statements:
            cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


# --- The gateway ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """Completions a second, and what each takes of all PostgreSQLs: microseconds of the processor, kilobytes of the log."""

    per_second: float
    cpu_us: float
    wal_kb: float

    def __str__(self) -> str:
        return f"{self.per_second:.0f} | {self.cpu_us:.0f} | {self.wal_kb:.1f}"


@dataclass
class Gateway:
    """A gateway that serves, for each of its cells the key of an account with credit, and the servers of its database."""

    environ: dict[str, str]
    secrets: dict[int, str]
    servers: list[DatabaseServer]
    port: int = 0

    def load(self, cell: int, clients: int, seconds: float) -> dict[str, Any]:
        return run.load(self.port, clients, seconds, run.completion(self.secrets[cell], stream=False))

    def measure(self, cell: int, clients: int, seconds: float) -> Figures:
        self.load(cell, 32, min(3, seconds))  # warm-up
        before = self._spent()
        result = self.load(cell, clients, seconds)
        assert not run.odd(result), result
        cpu_seconds, wal_bytes = (after - then for after, then in zip(self._spent(), before, strict=True))
        answered = result["statuses"]["200"]
        return Figures(result["per_second"], 1e6 * cpu_seconds / answered, wal_bytes / answered / 1e3)

    def _spent(self) -> tuple[float, int]:
        """Return the processor time of all servers in seconds, and the bytes of their write-ahead logs."""
        logs = [execute(server, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint") for server in self.servers]
        return sum(server.cpu_seconds() for server in self.servers), sum(log[0][0] for log in logs)

    def charges(self, email: str = "%") -> int:
        """Return how many charges there are in all cells, of the accounts of some address."""
        in_cell: LiteralString = "SELECT set_config('search_path', %(schema)s || ', public', false)"
        count: LiteralString = (
            "SELECT count(*) FROM billing_ledgerentry JOIN billing_membership USING (account_id)"
            " JOIN billing_user ON billing_user.id = user_id WHERE type = 'USAGE_DEBIT' AND email LIKE %(email)s"
        )
        found = [execute(self.servers[0], in_cell, count, schema=schema_of(cell), email=email) for cell in self.secrets]
        return sum(int(charges) for [(charges,)] in found)

    def audit(self) -> str:
        """Audit the ledger of all cells. Return what it found."""
        found = run.manage(self.environ, "verify_ledger")
        return f"{found.strip().splitlines()[-1]} There are {self.charges():,} charges."

    def holder(self, cell: int) -> DatabaseServer:
        """Return the worker that holds a cell."""
        statement: LiteralString = "SELECT DISTINCT nodeport FROM citus_shards WHERE table_name = to_regclass(%(table)s)"
        [(port,)] = execute(self.servers[0], statement, table=f"{schema_of(cell)}.billing_account")
        return next(server for server in self.servers if server.port == port)

    def move_cell(self, cell: int) -> None:
        """Move a cell to the other worker."""
        [target] = [worker for worker in self.servers[1:] if worker is not self.holder(cell)]
        statement: LiteralString = "SELECT citus_schema_move(%(schema)s::regnamespace, '127.0.0.1', %(port)s)"
        execute(self.servers[0], statement, schema=schema_of(cell), port=target.port)
        assert self.holder(cell) is target

    def add_cells(self) -> None:
        """Add two cells, each on a worker of its own, and open an account in each."""
        for cell in CELLS:
            run.manage(self.environ, "add_cell")
            # An account is opened in the open cell with the fewest accounts: that is the new one.
            self.secrets[cell] = run.account(self.environ, email_of(cell))
        if self.holder(CELLS[0]) is self.holder(CELLS[1]):
            self.move_cell(CELLS[1])


def schema_of(cell: int) -> str:
    return "public" if cell == 1 else f"cell_{cell:02d}"


def email_of(cell: int) -> str:
    return f"cell{cell}@example.org"


@contextmanager
def gateway(servers: list[DatabaseServer], *, has_citus: bool) -> Iterator[Gateway]:
    """Serve, with one account in each cell. Without Citus there is one cell."""
    with run.Servers() as running:
        environ = run.prepared(running.directory, servers[0].url)
        run.load_catalog(environ, running.directory, running.upstream())
        served = Gateway(environ, {1: run.account(environ, email_of(1))}, servers)
        if has_citus:
            install(servers)
            served.add_cells()
        served.port = running.gateway(environ)
        yield served


# --- What is tried ----------------------------------------------------------------------------------------------------


def _measured_alone(programs: Path, seconds: float) -> dict[int, Figures]:
    """Return the figures of one PostgreSQL, by clients."""
    with started(programs, [], "alone") as servers, gateway(servers, has_citus=False) as served:
        figures = {clients: served.measure(1, clients, seconds) for clients in CLIENTS}
    for clients, each in figures.items():
        run.write_line(f"{clients} clients of one PostgreSQL: {each}")
    return figures


def _compared(cell: int, clients: int, alone: Figures, figures: Figures) -> str:
    where = "coordinator" if cell == 1 else "worker"
    rate, cpu = figures.per_second / alone.per_second, figures.cpu_us / alone.cpu_us
    return f"| {clients} | {where}: {rate:.2f} of the rate, {cpu:.1f} times the CPU | {figures} |"


def _tries(gateway: Gateway, seconds: float) -> Iterator[tuple[str, str]]:
    """Yield what is tried, with what came of it."""
    yield "A cell moves to the other worker under load", _move_cell(gateway, seconds)
    yield "An account moves to a cell on the other worker under its load", _move_account(gateway, seconds)
    yield "The worker of a cell is killed, two cells loaded", _kill(gateway, 2 * seconds)
    yield "The audit afterwards", gateway.audit()


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


@contextmanager
def loaded(gateway: Gateway, seconds: float, *cells: int) -> Iterator[dict[int, Load]]:
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


def _move_cell(gateway: Gateway, seconds: float) -> str:
    with loaded(gateway, seconds, CELLS[0]) as loads:
        time.sleep(seconds / 2)
        began_at = time.monotonic()
        gateway.move_cell(CELLS[0])
        moved_seconds = time.monotonic() - began_at
    gateway.move_cell(CELLS[0])  # back
    return f"{moved_seconds:.1f} s; {loads[CELLS[0]]}"


def _move_account(gateway: Gateway, seconds: float) -> str:
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


def _kill(gateway: Gateway, seconds: float) -> str:
    """Kill the worker of the first of two cells that are loaded, and start it again."""
    killed, other = CELLS
    worker = gateway.holder(killed)
    with loaded(gateway, seconds, killed, other) as before:
        pass
    with loaded(gateway, seconds, killed, other) as loads:
        time.sleep(1)
        worker.kill()
    worker.start()
    began_at = time.monotonic()
    while run.odd(gateway.load(killed, 1, 0.2)):
        time.sleep(0.1)
    again = f"served again {time.monotonic() - began_at:.1f} s after the worker was started"
    with loaded(gateway, seconds, killed, other) as after:
        pass
    kept = loads[other].per_second / mean([before[other].per_second, after[other].per_second])
    return f"its cell: {loads[killed]}, {again}; the other cell kept {kept:.2f} of its rate: {loads[other]}"


if __name__ == "__main__":
    main()
