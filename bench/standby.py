"""What it costs that commits wait for a standby (``synchronous_standby_names``), as a ratio to commits that do not.

    .venv/bin/python -m bench.standby [SECONDS]

Takes four minutes. PostgreSQL of Debian's package, with a standby that streams over loopback on the same disk; one web process.
The setting is changed while all runs, and each figure is the median of three pairs of turns. On one machine the standby takes
its processor time from the primary, and there is no network: between machines each batch of settlements takes one round trip to
the standby more.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench import run

CLIENTS, TURNS, COMMITS, USER = (1, 8, 64), 3, 300, "postgres"
PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 8
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    directory.chmod(0o755)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with servers(directory) as url:
            environ = {**run.prepared(directory), "DATABASE_URL": url, "PORT": str(run.free_port())}
            upstream_port = run.free_port()
            secret = run.fill(environ, directory, upstream_port)
            processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
            processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
            port = int(environ["PORT"])
            run.wait(port)
            sys.stdout.write(_commits(url))
            for clients in CLIENTS:
                sys.stdout.write(_compared(url, port, clients, seconds, run.completion(secret, stream=False)))
                sys.stdout.flush()
            sys.stdout.write(run.manage(environ, "verify_ledger"))
            _end(processes)
    finally:
        _end(processes)
        shutil.rmtree(directory, ignore_errors=True)


def _commits(url: str) -> str:
    """Compare the times of single commits, which few other processes can disturb."""
    times: dict[str, list[float]] = {"": [], "*": []}
    execute(url, "CREATE TABLE committed (number bigint)")
    for _ in range(TURNS):
        for standbys in times:
            _set_standbys(url, standbys)
            with psycopg.connect(url, autocommit=True) as connection:
                for number in range(COMMITS):
                    began_at = time.monotonic()
                    connection.execute("INSERT INTO committed VALUES (%s)", [number])
                    times[standbys].append(1_000 * (time.monotonic() - began_at))
    alone, waiting = (statistics.median(times[standbys]) for standbys in times)
    return f"a commit: {alone:.2f} -> {waiting:.2f} ms\n"


def _set_standbys(url: str, standbys: str) -> None:
    execute(url, f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
    execute(url, "SELECT pg_reload_conf()")
    time.sleep(0.5)


def _compared(url: str, port: int, clients: int, seconds: float, request: bytes) -> str:
    figures: dict[str, list[dict[str, Any]]] = {"": [], "*": []}
    for _ in range(TURNS):
        for standbys in figures:
            _set_standbys(url, standbys)
            run.load(port, clients, 1, request)
            figures[standbys].append(run.load(port, clients, seconds, request))
    alone, waiting = ([each["per_second"] for each in figures[standbys]] for standbys in figures)
    ratio = statistics.median(after / before for before, after in zip(alone, waiting, strict=True))
    p50, p95 = (
        [statistics.median(each[name] for each in figures[standbys]) for standbys in figures] for name in ("p50_ms", "p95_ms")
    )
    return (
        f"{clients:3} clients: {ratio:.2f} of the rate ({statistics.median(alone):.0f} -> {statistics.median(waiting):.0f}/s),"
        f" p50 {p50[0]:.1f} -> {p50[1]:.1f} ms, p95 {p95[0]:.1f} -> {p95[1]:.1f} ms\n"
    )


# --- A primary and its standby ------------------------------------------------------------------------------------------


@contextmanager
def servers(directory: Path) -> Iterator[str]:
    """Run a primary and a standby that streams from it. Yield the primary's URL."""
    port, standby_port = run.free_port(), run.free_port()
    data, copy = directory / "primary", directory / "standby"
    shutil.chown(directory, USER)
    _program("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
    primary = _server(data, port)
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    standby = None
    try:
        _wait(url)
        _program("pg_basebackup", "-D", str(copy), "-R", "-X", "stream", "-d", f"{url}?application_name=standby")
        standby = _server(copy, standby_port)
        while execute(url, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") != 1:
            time.sleep(0.1)
        yield url
    finally:
        _end([server for server in (standby, primary) if server])


def _server(data: Path, port: int) -> subprocess.Popen[bytes]:
    options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}", "-c", "max_connections=200"]
    command = [*_AS_USER, f"{PROGRAMS}/postgres", "-D", str(data), "-p", str(port), *options]
    log = (data.parent / f"{data.name}.log").open("wb")
    return subprocess.Popen(command, stdout=log, stderr=log)


_AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.geteuid() == 0 else []


def _program(name: str, *arguments: str) -> None:
    subprocess.run([*_AS_USER, f"{PROGRAMS}/{name}", *arguments], check=True, stdout=subprocess.DEVNULL)


def execute(url: str, sql: str) -> Any:
    """Execute a statement, and return its first value if it has one."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None  # type: ignore[index]


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            return psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise SystemExit("PostgreSQL does not start.")


def _end(processes: "list[subprocess.Popen[bytes]]") -> None:
    for process in processes:
        process.send_signal(2)  # a fast shutdown of PostgreSQL; gunicorn takes it, too
    for process in processes:
        process.wait(60)


if __name__ == "__main__":
    main()
