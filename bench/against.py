"""`make bench ARGS=against=REV`: CPU time of the web process for a completion, and for an event of a stream, as a ratio to that
of another revision.

    .venv/bin/python -m bench.against REV [SECONDS]

Both gateways run all the time, each with a database of its own, and are measured in turns: what else the machine does then hits
both. The figures are the web process's own CPU time, which a busy machine changes less than requests a second. The least of all
rounds and its ratio come first, because what else a machine does only adds to it.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench import run, upstream

ROUNDS = 5
CLIENTS = (1, 8, 64)
_EVENTS = upstream.WORDS + 3  # of a stream
_STREAMS = 8  # at a time, of which an event is measured


@dataclass(frozen=True)
class Measured:
    """A gateway of one revision, and how to ask it."""

    port: int
    secret: str
    worker: Any

    def event_ms(self, seconds: float, fields: dict[str, int], more_events: int) -> float:
        """Return the CPU milliseconds for each further event: those of a stream with ``fields`` beyond those of a usual one.

        With PACED, this is what each of ``more_events`` costs more when it arrives alone.
        """
        with_them = self.cpu_ms(_STREAMS, seconds, stream=True, **fields)
        return (with_them - self.cpu_ms(_STREAMS, seconds, stream=True)) / more_events

    def cpu_ms(self, clients: int, seconds: float, *, stream: bool, **fields: int) -> float:
        """Return the CPU time of the web process for one completion."""
        before = self._cpu_seconds()
        result = run.load(self.port, clients, seconds, run.completion(self.secret, stream=stream, **fields))
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
    sys.stdout.write(f"CPU ms of the web process    now   {revision[:12]:>12}   ratio   median   each round\n")
    for stream in (False, True):
        for clients in CLIENTS:
            kind = f"stream of {_EVENTS} events" if stream else "whole"
            _compare(
                f"{kind:22} {clients:3}",
                partial(Measured.cpu_ms, clients=clients, seconds=seconds, stream=stream),
                ours,
                theirs,
            )
    event_ms = partial(Measured.event_ms, seconds=seconds)
    _compare("an event more at once", partial(event_ms, fields=upstream.LONG, more_events=9 * upstream.WORDS), ours, theirs)
    _compare("an event that is alone", partial(event_ms, fields=upstream.PACED, more_events=_EVENTS), ours, theirs)


def _compare(name: str, measure: Callable[[Measured], float], ours: Measured, theirs: Measured) -> None:
    pairs = [(measure(ours), measure(theirs)) for _ in range(ROUNDS)]
    now, then = (min(times) for times in zip(*pairs, strict=True))  # what else the machine does only adds
    ratios = [mine / other for mine, other in pairs]
    rounds = " ".join(f"{ratio:.2f}" for ratio in ratios)
    sys.stdout.write(f"{name:26} {now:7.4f} {then:14.4f} {now / then:7.2f} {statistics.median(ratios):8.2f}   {rounds}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
