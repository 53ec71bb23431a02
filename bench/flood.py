"""Refused requests: how many database transactions they cost, for each reason of refusal.

.venv/bin/python -m bench.flood [REQUESTS]

Takes about ten minutes for 2,000 requests, mostly waiting until PostgreSQL has reported its counts.
"""

import asyncio
import atexit
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from bench import load, run

CLIENTS = (1, 32)
REQUESTS = 2_000
NOTHING = "(no requests)"  # the background activity of the process, which is in every figure
# An idle connection reports its counts within ten seconds. By then the gateway's caches have forgotten the requests.
REPORTED_SECONDS = 11
FILL = """
import json
from billing.models import Account, User
from keys import lifecycle, secret
from keys.models import ApiKey
rich = User.objects.get(email="bench@example.org").accounts.get()
poor = Account.objects.create()
limits = {"requests per minute": {"requests_per_minute": 1}, "tokens per minute": {"tokens_per_minute": 100},
    "the spending limit": {"limit_cents": 0, "type": "FIXED"}}
made = {name: lifecycle.issue_key(poor if name == "too few credits" else rich, name=name, **limits.get(name, {}))
    for name in ("a revoked key", "a model that is not for the key", "too few credits", "any", *limits)}
lifecycle.revoke_key(made["a revoked key"][0])
ApiKey.objects.filter(name="a model that is not for the key").update(allowed_models=["bench/other"])
strangers = [secret.mint(ApiKey().pk) for _ in range(2 * %d + 1)]
print(json.dumps({"secrets": {name: given for name, (_, given) in made.items()}, "strangers": strangers}))
"""

Make = Callable[[], bytes]


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # first, so that it runs when PostgreSQL has gone
    environ = run.prepared(directory)
    upstream_port, port = run.free_port(), run.free_port()
    environ["PORT"] = str(port)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        secret = run.fill(environ, directory, upstream_port)
        kinds = _kinds(**json.loads(run.manage(environ, "shell", "--verbosity=0", "-c", FILL % requests)))
        processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
        processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
        run.wait(port)
        run.load(port, 32, 2, run.completion(secret, stream=False))  # warm-up
        _report(port, environ["DATABASE_URL"], requests, kinds)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _kinds(secrets: dict[str, str], strangers: list[str]) -> dict[str, tuple[set[int], Make]]:
    """Return, by reason of refusal, the expected statuses and a function that makes the next request."""
    other = iter(strangers)
    stranger, broke, any_key = next(other), secrets["too few credits"], secrets["any"]
    return {
        NOTHING: (set(), lambda: b""),
        "a secret without its checksum": ({401}, lambda: _request(stranger[:-1])),
        "an unknown secret, always the same": ({401}, lambda: _request(stranger)),
        "... always another one": ({401}, lambda: _request(next(other))),
        "a revoked key": ({401}, lambda: _request(secrets["a revoked key"])),
        "requests per minute": ({200, 429}, lambda: _request(secrets["requests per minute"])),
        "tokens per minute": ({429}, lambda: _request(secrets["tokens per minute"])),
        "a model that is not for the key": ({404}, lambda: _request(secrets["a model that is not for the key"])),
        "a model that does not exist": ({404}, lambda: _request(any_key, model="bench/none")),
        "the spending limit": ({402}, lambda: _request(secrets["the spending limit"])),
        "too few credits": ({402}, lambda: _request(broke)),
        "... with `max_tokens` at random": ({402}, lambda: _request(broke, max_tokens=random.randint(100, 4_000))),
        "... with an `Idempotency-Key` each": ({402, 429}, lambda: _request(broke, idempotency_key=str(uuid.uuid4()))),
        "an invalid body": ({400}, lambda: _request(any_key, messages="none")),
    }


def _request(secret: str, *, idempotency_key: str | None = None, **fields: Any) -> bytes:
    message = {"role": "user", "content": "Say something."}
    data = json.dumps({"model": "bench/instant", "messages": [message], "max_tokens": 200, **fields}).encode()
    headers = f"Idempotency-Key: {idempotency_key}\r\n" if idempotency_key else ""
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def _report(port: int, url: str, requests: int, kinds: dict[str, tuple[set[int], Make]]) -> None:
    heads = "".join(f"{clients:5} at once  seconds" for clients in CLIENTS)
    sys.stdout.write(f"{f'{requests:,} requests, refused for':43}{heads}\n")
    # Connected to another database of the server, so that these queries are not counted.
    with psycopg.connect(url, dbname="template1", autocommit=True) as connection:
        time.sleep(REPORTED_SECONDS)
        for name, (expected, make) in kinds.items():
            asked = 0 if name == NOTHING else requests
            figures = [_figures(connection, port, clients, [make() for _ in range(asked)], expected) for clients in CLIENTS]
            sys.stdout.write(f"{name:43}{''.join(figures)}\n")
            sys.stdout.flush()


def _figures(connection: Any, port: int, clients: int, requests: list[bytes], expected: set[int]) -> str:
    """Return how many database transactions these requests cost and how many seconds they took."""
    before, began = _transactions(connection), time.perf_counter()
    statuses = asyncio.run(_send(port, clients, iter(requests)))
    seconds = time.perf_counter() - began
    time.sleep(REPORTED_SECONDS)
    odd = "" if set(statuses) <= expected else f"  {statuses}"
    return f"{_transactions(connection) - before:13,} {seconds:8.1f}{odd}"


def _transactions(connection: Any) -> int:
    sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'"
    return int(connection.execute(sql).fetchone()[0])


class _Client(load.Client):
    """A client that closes its connection when there is nothing left to send."""

    def _send(self) -> None:
        try:
            super()._send()
        except StopIteration:
            self.transport.close()


async def _send(port: int, clients: int, requests: Iterator[bytes]) -> dict[int, int]:
    statuses: dict[int, int] = {}
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: _Client(requests, [], statuses, math.inf), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in made))
    return statuses


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(str(error)) from None
