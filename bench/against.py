"""`make bench ARGS=against=REV`: CPU time of the web process for a completion, as a ratio to that of another revision.

    .venv/bin/python -m bench.against REV [SECONDS]

Both gateways run all the time, each with a database of its own, and are measured in turns: what else the machine does then hits
both. The figures are the web process's own CPU time, which a busy machine changes less than requests a second.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import run

ROUNDS = 5
CLIENTS = (1, 8, 64)
_EVENTS = 103  # of bench/upstream.py's stream


@dataclass(frozen=True)
class Measured:
    """A gateway of one revision, and how to ask it."""

    port: int
    secret: str
    worker: Any

    def cpu_ms(self, clients: int, seconds: float, *, stream: bool) -> float:
        """Return the CPU time of the web process for one completion."""
        before = self._cpu_seconds()
        result = run.load(self.port, clients, seconds, run.completion(self.secret, stream=stream))
        if set(result["statuses"]) != {"200"}:
            raise SystemExit(f"not all were answered: {result['statuses']}")
        answered = sum(result["statuses"].values())
        return (self._cpu_seconds() - before) * 1_000 / float(answered)

    def _cpu_seconds(self) -> float:
        times = self.worker.cpu_times()
        return float(times.user + times.system)


def main() -> None:
    revision = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    processes: list[subprocess.Popen[bytes]] = []
    with tree(scratch, revision) as root:
        try:
            upstream_port = run.free_port()
            environ = {**os.environ, "GATEWAY_VAR": str(scratch)}
            processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
            theirs = _start(root, scratch / "theirs", upstream_port, processes)
            ours = _start(run.ROOT, scratch / "ours", upstream_port, processes)
            _report(ours, theirs, revision, seconds)
        finally:
            end(processes)
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def tree(scratch: Path, revision: str) -> Iterator[Path]:
    """Check out a revision below ``scratch`` while the block runs."""
    path = scratch / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", path, revision], cwd=run.ROOT, check=True)
    try:
        yield path
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", path], cwd=run.ROOT, check=False)
        subprocess.run(["git", "worktree", "prune"], cwd=run.ROOT, check=True)


def end(processes: "list[subprocess.Popen[bytes]]") -> None:
    """Stop the processes, and wait until they have ended."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(60)


def _start(root: Path, directory: Path, upstream_port: int, processes: "list[subprocess.Popen[bytes]]") -> Measured:
    directory.mkdir()
    environ = run.prepared(directory)
    environ["PORT"] = str(run.free_port())
    secret = run.fill(environ, directory, upstream_port, root)
    master = run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0, root=root)
    processes.append(master)
    run.wait(int(environ["PORT"]))
    [worker] = psutil.Process(master.pid).children()
    return Measured(int(environ["PORT"]), secret, worker)


def _report(ours: Measured, theirs: Measured, revision: str, seconds: float) -> None:
    for measured in (ours, theirs):
        for stream in (False, True):
            measured.cpu_ms(32, 2, stream=stream)  # warm-up
    sys.stdout.write(f"CPU ms of the web process    now   {revision[:12]:>12}   ratio, median   each round\n")
    for stream in (False, True):
        for clients in CLIENTS:
            pairs = [_pair(ours, theirs, clients, seconds, stream=stream) for _ in range(ROUNDS)]
            now, then = (statistics.median(times) for times in zip(*pairs, strict=True))
            ratios = [mine / other for mine, other in pairs]
            kind = f"stream of {_EVENTS} events" if stream else "whole"
            rounds = " ".join(f"{ratio:.2f}" for ratio in ratios)
            figures = f"{now:7.2f} {then:14.2f} {statistics.median(ratios):15.2f}   {rounds}"
            sys.stdout.write(f"{kind:20} {clients:3} {figures}\n")
            sys.stdout.flush()


def _pair(ours: Measured, theirs: Measured, clients: int, seconds: float, *, stream: bool) -> tuple[float, float]:
    return ours.cpu_ms(clients, seconds, stream=stream), theirs.cpu_ms(clients, seconds, stream=stream)


if __name__ == "__main__":
    main()
