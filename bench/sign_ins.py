"""Sign-ins that are hung up: what they leave of a neighbour's completions, on two web processes.

    .venv/bin/python -m bench.sign_ins [ADDRESSES] [PER_SECOND]

Takes half a minute. Without and with PER_SECOND sign-ins (100) from ADDRESSES loopback addresses (1), in turns, two clients
complete as fast as they can. Each sign-in names another user, sends a form with a CSRF token, and closes its connection after
50 ms. The gateway still refuses the sign-ins of one address in the next round, so that round measures the flood alone.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import run

ROUNDS, SECONDS, CLIENTS = 3, 4.0, 2
HUNG_UP_AFTER_SECONDS = 0.05
CSRF = "c" * 32


def main() -> None:
    addresses, per_second = (int(text) for text in (*sys.argv[1:], *("1", "100")[len(sys.argv) - 1 :]))
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
    rounds = []
    for _ in range(ROUNDS):
        alone = run.load(port, CLIENTS, SECONDS, request)
        with _attack(port, addresses, per_second):
            rounds.append((alone, run.load(port, CLIENTS, SECONDS, request)))
    sys.stdout.write(f"{per_second} sign-ins a second from {addresses} addresses\n")
    sys.stdout.write("            completions/s    p95 ms\n")
    for name, results in zip(("alone", "attacked"), zip(*rounds, strict=True), strict=True):
        sys.stdout.write(f"{name:10} {_median(results, 'per_second'):14.0f} {_median(results, 'p95_ms'):9.1f}\n")
    ratios = sorted(attacked["per_second"] / (alone["per_second"] or math.nan) for alone, attacked in rounds)
    sys.stdout.write(f"of the rate alone, in each round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}\n")


def _median(results: Any, figure: str) -> float:
    return float(statistics.median(result[figure] for result in results))


@contextmanager
def _attack(port: int, addresses: int, per_second: int) -> Iterator[None]:
    """Sign in so many times a second while the block runs."""
    ended = threading.Event()
    attacker = threading.Thread(target=lambda: asyncio.run(_sign_in_regularly(port, addresses, per_second, ended)))
    attacker.start()
    try:
        yield
    finally:
        ended.set()
        attacker.join()


async def _sign_in_regularly(port: int, addresses: int, per_second: int, ended: threading.Event) -> None:
    running: set[asyncio.Task[None]] = set()
    number = 0
    while not ended.is_set():
        number += 1
        running.add(task := asyncio.create_task(_sign_in(port, f"127.0.1.{1 + number % addresses}", number)))
        task.add_done_callback(running.discard)
        await asyncio.sleep(1 / per_second)
    await asyncio.gather(*running)


async def _sign_in(port: int, address: str, number: int) -> None:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writer.write(_request(port, number))
        await asyncio.sleep(HUNG_UP_AFTER_SECONDS)
        writer.close()
    except OSError:
        pass


def _request(port: int, number: int) -> bytes:
    body = f"csrfmiddlewaretoken={CSRF}&username=user{number}@example.org&password=wrong".encode()
    head = (
        f"POST /dashboard/sign-in/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/html\r\nCookie: csrftoken={CSRF}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _check_request(port: int) -> None:
    """Wait for the reply to one sign-in: the others must be refused for their password, not for their form."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(_request(port, 0))
        status = client.recv(12)[9:]
    if status != b"200":
        raise SystemExit(f"a sign-in got {status.decode()}")


if __name__ == "__main__":
    main()
