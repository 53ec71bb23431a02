"""A key at its maximum of requests in flight: the p95 of a neighbour beside it, as a ratio to its p95 alone.

    .venv/bin/python -m bench.fairness [SECONDS [WORDS]]

Takes four minutes; with words, only the cases whose names have them are measured. One web process on one core. The neighbour
has another account and 4 clients, each of which sends its next completion when the last one is answered. Each case is measured
three times, each time after the neighbour alone; the medians are printed.

The share is of the process's time: completions of the neighbour for each second of CPU, of those alone. It is the same on a
busy machine.
"""

import json
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

import psutil

from bench import run

NEIGHBOURS, ROUNDS = 4, 3
EVENTS_PER_SECOND = 10  # of each stream of the upstream
MAXIMUM = 100  # the default
SETTLING_SECONDS = 3  # until the key's requests, which all begin at once, run as they will
ECHO = {
    "model": "demo/echo",
    "messages": [{"role": "user", "content": "word " * 20}],
    "max_tokens": 100,
    "stream": True,
    "echo": {"delay_seconds": 0.25},
}
INVALID = {"model": "demo/echo", "messages": [{"role": "user", "content": "word " * 12_000}], "temperature": 3}


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    words = sys.argv[2] if len(sys.argv) > 2 else ""
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = run.prepared(directory)
    environ |= {"GATEWAY_KEY_REQUESTS_IN_FLIGHT": str(MAXIMUM), "GATEWAY_ACCOUNT_REQUESTS_IN_FLIGHT": str(4 * MAXIMUM)}
    upstream_port, port = run.free_port(), run.free_port()
    environ["PORT"] = str(port)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        secret = run.fill(environ, directory, upstream_port)
        run.manage(environ, "load_catalog")
        busy = run.account(environ, "busy@example.org")
        processes.append(
            run.start([run.PYTHON, "bench/upstream.py", str(upstream_port), str(EVENTS_PER_SECOND)], environ, core=1)
        )
        processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
        run.wait(port)
        [worker] = psutil.Process(processes[-1].pid).children()
        _report(port, worker, secret, busy, seconds, words)
        sys.stdout.write(run.manage(environ, "verify_ledger"))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
        shutil.rmtree(directory, ignore_errors=True)


def _report(port: int, worker: psutil.Process, secret: str, busy: str, seconds: float, words: str) -> None:
    completion = run.completion(secret, stream=False)
    run.load(port, NEIGHBOURS, 2, completion)  # warm-up
    sys.stdout.write(f"{'beside a key with':52}  req/s  of alone    share   p95 ms  of alone, median and each round\n")
    cases = (
        (f"{MAXIMUM} streams of 4 words a second", MAXIMUM, run.post(busy, ECHO)),
        (f"{MAXIMUM} streams of {EVENTS_PER_SECOND} events a second", MAXIMUM, run.completion(busy, stream=True)),
        (f"{4 * MAXIMUM} clients for as many streams, most refused", 4 * MAXIMUM, run.post(busy, ECHO)),
        (f"{MAXIMUM} completions, each followed by the next at once", MAXIMUM, run.completion(busy, stream=False)),
        (f"{MAXIMUM} invalid requests of 60 KB, each then the next", MAXIMUM, run.post(busy, INVALID)),
    )
    for name, clients, request in cases:
        if words not in name:
            continue
        rounds = []
        for _ in range(ROUNDS):
            alone = _load(port, worker, seconds, completion)
            with _busy(port, clients, seconds + SETTLING_SECONDS + 1, request):
                time.sleep(SETTLING_SECONDS)
                rounds.append((alone, _load(port, worker, seconds, completion)))
        _show(name, rounds)


def _load(port: int, worker: psutil.Process, seconds: float, request: bytes) -> dict[str, Any]:
    """Return what the neighbour gets, with its completions for each second of the worker's CPU."""
    before = worker.cpu_times()
    figures = run.load(port, NEIGHBOURS, seconds, request)
    after = worker.cpu_times()
    cpu_seconds = after.user + after.system - before.user - before.system
    return {**figures, "per_cpu_second": figures["per_second"] * seconds / cpu_seconds}


def _show(name: str, rounds: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Write a line about what was measured alone and beside the key, in each round."""
    ratios = [beside["p95_ms"] / alone["p95_ms"] for alone, beside in rounds]
    rate = statistics.median(beside["per_second"] / alone["per_second"] for alone, beside in rounds)
    share = statistics.median(beside["per_cpu_second"] / alone["per_cpu_second"] for alone, beside in rounds)
    per_second, p95_ms = (statistics.median(beside[figure] for _, beside in rounds) for figure in ("per_second", "p95_ms"))
    statuses = {status for _, beside in rounds for status in beside["statuses"]}
    odd = "" if statuses == {"200"} else f"  {statuses}"
    each = " ".join(f"{ratio:.1f}" for ratio in ratios)
    sys.stdout.write(
        f"{name:52} {per_second:6.0f} {rate:9.2f} {share:8.2f} {p95_ms:8.1f} {statistics.median(ratios):9.1f}   {each}{odd}\n"
    )
    sys.stdout.flush()


@contextmanager
def _busy(port: int, clients: int, seconds: float, request: bytes) -> Iterator[None]:
    command = run.pinned([run.PYTHON, "bench/load.py", str(port), str(clients), str(seconds)], core=1)
    with tempfile.TemporaryFile() as file:
        file.write(request)
        file.seek(0)
        process = subprocess.Popen(command, cwd=run.ROOT, stdin=file, stdout=subprocess.PIPE)
        yield
        result = json.loads(process.communicate(timeout=60)[0])
    sys.stdout.write(f"    its own replies: {result['statuses']}\n")


if __name__ == "__main__":
    main()
