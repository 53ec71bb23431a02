"""Sign-ins that are hung up: what they leave of a neighbour's completions, on two web processes.

    .venv/bin/python -m bench.sign_ins [ADDRESSES] [PER_SECOND]

Takes a minute. In turns two clients complete as fast as they can: alone, beside PER_SECOND probes (100), and beside as many
sign-ins from ADDRESSES loopback addresses (100). Each sign-in names another user and sends a form with a CSRF token. It and the
probe close their connections after 50 ms; the probes show what connections alone cost. The first sign-ins are within every
limit, so the first rounds show the beginning of a flood and the others the rest.
"""

import asyncio
import atexit
import math
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import run

ROUNDS, SECONDS, CLIENTS = 8, 2.0, 2
HUNG_UP_AFTER_SECONDS = 0.05
CSRF = "c" * 32

Request = Callable[[int, int], bytes]  # by port and number


def main() -> None:
    addresses, per_second = (int(text) for text in (*sys.argv[1:], *("100", "100")[len(sys.argv) - 1 :]))
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # first, so that it runs when PostgreSQL has gone
    environ = run.prepared(directory) | {"WEB_CONCURRENCY": "2"}
    upstream_port, port = run.free_port(), run.free_port()
    environ["PORT"] = str(port)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        secret = run.fill(environ, directory, upstream_port)
        processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ))
        processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ))
        run.wait(port)
        _report(port, secret, addresses, per_second)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _report(port: int, secret: str, addresses: int, per_second: int) -> None:
    request = run.completion(secret, stream=False)
    _check_request(port)
    run.load(port, CLIENTS, 2, request)  # warm-up
    kinds: dict[str, Request | None] = {"alone": None, "probes": _probe, "sign-ins": _sign_in}
    rounds: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        rounds.append({})
        for kind, sent in kinds.items():
            with _beside(port, addresses, per_second, sent):
                rounds[-1][kind] = run.load(port, CLIENTS, SECONDS, request)
    sys.stdout.write(f"{per_second} sign-ins a second from {addresses} addresses\n")
    sys.stdout.write("beside      completions/s    p95 ms   of alone, median and each round\n")
    for kind in kinds:
        results = [results[kind] for results in rounds]
        ratios = [result[kind]["per_second"] / (result["alone"]["per_second"] or math.nan) for result in rounds]
        figures = f"{_median(results, 'per_second'):14.0f} {_median(results, 'p95_ms'):9.1f} {statistics.median(ratios):10.2f}"
        sys.stdout.write(f"{kind:10} {figures}   {' '.join(f'{ratio:.2f}' for ratio in ratios)}\n")


def _median(results: Any, figure: str) -> float:
    return float(statistics.median(result[figure] for result in results))


@contextmanager
def _beside(port: int, addresses: int, per_second: int, request: Request | None) -> Iterator[None]:
    """Send so many requests a second while the block runs, each on a connection that is hung up. None: send nothing."""
    if request is None:
        yield
        return
    ended = threading.Event()
    attacker = threading.Thread(target=lambda: asyncio.run(_send_regularly(port, addresses, per_second, request, ended)))
    attacker.start()
    try:
        yield
    finally:
        ended.set()
        attacker.join()


async def _send_regularly(port: int, addresses: int, per_second: int, request: Request, ended: threading.Event) -> None:
    running: set[asyncio.Task[None]] = set()
    number = 0
    while not ended.is_set():
        number += 1
        running.add(task := asyncio.create_task(_send(port, f"127.0.1.{1 + number % addresses}", request(port, number))))
        task.add_done_callback(running.discard)
        await asyncio.sleep(1 / per_second)
    await asyncio.gather(*running)


async def _send(port: int, address: str, request: bytes) -> None:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writer.write(request)
        await asyncio.sleep(HUNG_UP_AFTER_SECONDS)
        writer.close()
    except OSError:
        pass


def _probe(port: int, number: int) -> bytes:
    return f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()


def _sign_in(port: int, number: int) -> bytes:
    body = f"csrfmiddlewaretoken={CSRF}&login=user{number}@example.org&password=wrong".encode()
    head = (
        f"POST /accounts/login/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/html\r\nCookie: csrftoken={CSRF}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _check_request(port: int) -> None:
    """Wait for the reply to one sign-in: the others must be refused for their password, not for their form."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(_sign_in(port, 0))
        status = client.recv(12)[9:]
    if status != b"200":
        raise SystemExit(f"a sign-in got {status.decode()}")


if __name__ == "__main__":
    main()
