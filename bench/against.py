"""`make bench ARGS=against=REV`: CPU time of the web process for a completion, and for an event of a stream, as a ratio to that
of another revision.

    .venv/bin/python -m bench.against REV [SECONDS [ROUNDS]]

Both gateways run all the time, each with a database of its own, and are measured in turns: what else the machine does then hits
both. The figures are the web process's own CPU time, which a busy machine changes less than requests a second. The least of all
rounds and its ratio come first, because what else a machine does only adds to it.
"""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench import run, upstream

CLIENTS = (1, 8, 64)
_EVENTS = upstream.WORDS + 3  # of a stream
_STREAMS = 8  # at a time, of which an event is measured


@dataclass(frozen=True)
class Measured:
    """A gateway of one revision, and how to ask it."""

    port: int
    secret: str
    worker: Any

    def cpu_ms(self, clients: int, seconds: float, *, stream: bool, **fields: int) -> float:
        """Return the CPU time of the web process for one completion."""
        before = self._cpu_seconds()
        result = run.load(self.port, clients, seconds, run.completion(self.secret, stream=stream, **fields))
        if wrong := run.odd(result):
            raise SystemExit(f"not all were answered:{wrong}")
        return (self._cpu_seconds() - before) * 1_000 / float(result["statuses"]["200"])

    def event_ms(self, seconds: float, fields: dict[str, int], more_events: int) -> float:
        """Return the CPU milliseconds for each further event: those of a stream with ``fields`` beyond those of a usual one.

        With PACED, this is what each of ``more_events`` costs more when it arrives alone.
        """
        with_them = self.cpu_ms(_STREAMS, seconds, stream=True, **fields)
        return (with_them - self.cpu_ms(_STREAMS, seconds, stream=True)) / more_events

    def _cpu_seconds(self) -> float:
        times = self.worker.cpu_times()
        return float(times.user + times.system)


def main() -> None:
    revision = sys.argv[1]
    seconds, rounds = run.numbers(sys.argv[2:], 5, 5)
    with run.Servers() as servers, tree(servers.directory, revision) as root:
        upstream_port = servers.upstream()
        theirs = _start(servers, root, "theirs", upstream_port)
        ours = _start(servers, run.ROOT, "ours", upstream_port)
        for measured in (ours, theirs):
            for stream in (False, True):
                measured.cpu_ms(32, min(2, seconds), stream=stream)  # warm-up
        run.write_line(f"CPU ms of the web process    now   {revision[:12]:>12}   ratio   median   each round")
        for name, measure in _figures(seconds):
            pairs = [(measure(ours), measure(theirs)) for _ in range(int(rounds))]
            run.write_line(f"{name:26} {_compared(pairs)}")


@contextmanager
def tree(scratch: Path, revision: str) -> Iterator[Path]:
    """Check out a revision below ``scratch`` while the block runs."""
    path = scratch / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", path, revision], cwd=run.ROOT, check=True)
    try:
        yield path
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", path], cwd=run.ROOT, check=True)


def _start(servers: run.Servers, root: Path, name: str, upstream_port: int) -> Measured:
    directory = servers.directory / name
    directory.mkdir()
    environ = run.prepared(directory)
    secret = run.fill(environ, directory, upstream_port, root)
    port = servers.gateway(environ, root)
    [worker] = psutil.Process(servers.master.pid).children()
    return Measured(port, secret, worker)


def _figures(seconds: float) -> Iterator[tuple[str, Callable[[Measured], float]]]:
    for stream in (False, True):
        kind = f"stream of {_EVENTS} events" if stream else "whole"
        for clients in CLIENTS:
            yield f"{kind:22} {clients:3}", partial(Measured.cpu_ms, clients=clients, seconds=seconds, stream=stream)
    event_ms = partial(Measured.event_ms, seconds=seconds)
    yield "an event more at once", partial(event_ms, fields=upstream.LONG, more_events=9 * upstream.WORDS)
    yield "an event that is alone", partial(event_ms, fields=upstream.PACED, more_events=_EVENTS)


def _compared(pairs: list[tuple[float, float]]) -> str:
    now, then = (min(times) for times in zip(*pairs, strict=True))  # what else the machine does only adds
    ratios = [ours / theirs for ours, theirs in pairs]
    rounds = " ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"{now:7.4f} {then:14.4f} {now / then:7.2f} {statistics.median(ratios):8.2f}   {rounds}"


if __name__ == "__main__":
    main()
