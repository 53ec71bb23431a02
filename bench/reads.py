"""A burst of reads of one key: how long a neighbour's completions take beside it, and alone.

    .venv/bin/python -m bench.reads [CLIENTS]

Takes two minutes. One web process on one core. CLIENTS (600) connections ask for the usage, or a page of 100 ledger entries,
all at the same time and once. The neighbour has another account and 4 clients, each of which sends its next completion when the
last one is answered. Whoever waits sends nothing meanwhile, so a burst makes few of its completions slow: the slowest counts.
The burst is measured with GATEWAY_ACCOUNT_READS_IN_FLIGHT as it is by default, and with no such maximum.
"""

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import run

NEIGHBOURS, ROUNDS, SECONDS = 4, 3, 4
BURST = 600  # what a key may read in a minute
FIGURES = ("p95_ms", "slowest_ms")
PATHS = ("/v1/usage", "/api/billing/ledger?limit=100")


def main() -> None:
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else BURST
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = run.prepared(directory) | {"GATEWAY_KEY_READS_PER_MINUTE": "1000000"}  # each round is a fresh burst
    upstream_port = run.free_port()
    upstream = None
    try:
        secret = run.fill(environ, directory, upstream_port)
        reader = run.account(environ, "reader@example.org")
        upstream = run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1)
        sys.stdout.write(f"{f'beside {clients} at once of':42}  p95 ms: alone, beside   slowest: alone, beside\n")
        for name, maximum in (("", None), (", no maximum", "1000000")):
            with _gateway(environ, maximum) as port:
                for path in PATHS:
                    _report(port, path, name, _get(path, reader), run.completion(secret, stream=False), clients)
    finally:
        if upstream is not None:
            upstream.terminate()
            upstream.wait(60)
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _gateway(environ: dict[str, str], maximum: str | None) -> Iterator[int]:
    port = run.free_port()
    given = environ | {"PORT": str(port)} | ({"GATEWAY_ACCOUNT_READS_IN_FLIGHT": maximum} if maximum else {})
    process = run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], given, core=0)
    try:
        run.wait(port)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _get(path: str, secret: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\nConnection: close\r\n\r\n".encode()


def _report(port: int, path: str, name: str, request: bytes, completion: bytes, clients: int) -> None:
    run.load(port, NEIGHBOURS, 2, completion)  # warm-up
    rounds, statuses = [], Counter[str]()
    for _ in range(ROUNDS):
        alone = run.load(port, NEIGHBOURS, SECONDS, completion)
        command = run.pinned([run.PYTHON, "-m", "bench.reads", "burst", str(port), str(clients)], core=1)
        with tempfile.TemporaryFile() as file:
            file.write(request)
            file.seek(0)
            burst = subprocess.Popen(command, cwd=run.ROOT, stdin=file, stdout=subprocess.PIPE)
            beside = run.load(port, NEIGHBOURS, SECONDS, completion)
            statuses.update(json.loads(burst.communicate(timeout=120)[0]))
        rounds.append((alone, beside))
    figures = [statistics.median(each[figure] for each in side) for figure in FIGURES for side in zip(*rounds, strict=True)]
    sys.stdout.write(f"{path + name:42}{''.join(f'{figure:9.1f}' for figure in figures)}  {dict(statuses)}\n")
    sys.stdout.flush()


async def send_burst(port: int, clients: int, request: bytes) -> None:
    """Connect the clients, wait until the neighbour runs, send all requests, and write the numbers of replies by status."""
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]
    time.sleep(1)
    for _, writer in connections:
        writer.write(request)
    replies = await asyncio.gather(*(reader.read() for reader, _ in connections))
    sys.stdout.write(json.dumps(Counter(reply[9:12].decode() for reply in replies)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["burst"]:
        asyncio.run(send_burst(int(sys.argv[2]), int(sys.argv[3]), sys.stdin.buffer.read()))
    else:
        main()
