"""Large request bodies: what they cost the requests of another account, and how much memory they take while they wait.

.venv/bin/python -m bench.bodies [SECONDS]

First the p95 of a neighbour with 4 clients, alone and beside 4 clients that send bodies of 5 MB without a pause. Then the
memory of the web process before, while and after 10 requests of 5 MB wait for their upstream. Takes a minute.
"""

import asyncio
import json
import shutil
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

ATTACKERS = NEIGHBOURS = 4
WAITING = 10
BODY_BYTES = 4_900_000
SLOW = """
[providers.slow]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"

[models."bench/slow"]
name = "Slow"
provider = "Bench"
context_window = 10000000
max_output_tokens = 4096
price = {{ input = "0.15", output = "0.60" }}
routes = [ {{ provider = "slow", upstream_model = "bench" }} ]
"""
KEYS = """
import json
from billing.models import Account, User
from keys import lifecycle
rich, poor = User.objects.get(email="bench@example.org").accounts.get(), Account.objects.create()
keys = [lifecycle.issue_key(account, name=str(number)) for number, account in enumerate([rich, rich, poor])]
lifecycle.revoke_key(keys[1][0])
print(json.dumps([secret for _, secret in keys]))
"""


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = run.prepared(directory)
    upstream_port, slow_port, port = run.free_port(), run.free_port(), run.free_port()
    environ["PORT"] = str(port)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        secret = run.fill(environ, directory, upstream_port)
        (directory / "slow.toml").write_text(SLOW.format(port=slow_port))
        run.manage(environ, "load_catalog", str(directory / "slow.toml"))
        attacker, revoked, poor = json.loads(run.manage(environ, "shell", "--verbosity=0", "-c", KEYS))
        processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
        gateway = run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0)
        processes.append(gateway)
        run.wait(port)
        _report_neighbour(port, secret, seconds, _attacks(attacker, revoked, poor))
        _report_memory(port, slow_port, attacker, psutil.Process(gateway.pid).children()[0])
        sys.stdout.write(run.manage(environ, "verify_ledger"))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
        shutil.rmtree(directory, ignore_errors=True)


def _attacks(attacker: str, revoked: str, poor: str) -> dict[str, bytes]:
    lists = _request(attacker, _odd(b"[],"))
    return {
        "arrays of arrays": lists,
        "objects": _request(attacker, _odd(b'{"a":1},')),
        "as many values as there may be": _request(attacker, _odd(b"[],", 66_000)),
        "one text of an unknown model": _request(attacker, _ordinary("bench/none", "word, and \n" * (BODY_BYTES // 13))),
        "a revoked key": _request(revoked, _odd(b"[],")),
        "no credits": _request(poor, _odd(b"[],")),
    }


def _odd(item: bytes, count: int | None = None) -> bytes:
    items = item * (count or BODY_BYTES // len(item))
    return b'{"model":"bench/none","messages":[{"role":"user","content":"hi"}],"x":[' + items + b"1]}"


def _ordinary(model: str, content: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 10}).encode()


def _request(secret: str, body: bytes) -> bytes:
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


# --- A neighbour ---------------------------------------------------------------------------------------------------


def _report_neighbour(port: int, secret: str, seconds: float, attacks: dict[str, bytes]) -> None:
    completion = run.completion(secret, stream=False)
    run.load(port, NEIGHBOURS, 2, completion)  # warm-up
    alone = run.load(port, NEIGHBOURS, seconds, completion)
    sys.stdout.write(f"{'beside 4 clients that send':33}  req/s     p95 ms    of alone  attacks/s\n")
    sys.stdout.write(f"{'(nothing)':33} {alone['per_second']:6.0f} {alone['p95_ms']:10.1f}\n")
    for name, request in attacks.items():
        with _attack(port, seconds + 1, request) as attack:
            time.sleep(0.5)
            beside = run.load(port, NEIGHBOURS, seconds, completion)
        result = json.loads(attack.communicate(timeout=60)[0])
        ratio = beside["p95_ms"] / alone["p95_ms"]
        figures = f"{beside['per_second']:6.0f} {beside['p95_ms']:10.1f} {ratio:11.1f} {result['per_second']:10.1f}"
        sys.stdout.write(f"{name:33} {figures}  {result['statuses']}\n")
        sys.stdout.flush()


@contextmanager
def _attack(port: int, seconds: float, request: bytes) -> Iterator[subprocess.Popen[bytes]]:
    command = run.pinned([run.PYTHON, "bench/load.py", str(port), str(ATTACKERS), str(seconds)], core=1)
    with tempfile.TemporaryFile() as file:
        file.write(request)
        file.seek(0)
        yield subprocess.Popen(command, cwd=run.ROOT, stdin=file, stdout=subprocess.PIPE)


# --- Memory --------------------------------------------------------------------------------------------------------


def _report_memory(port: int, slow_port: int, secret: str, worker: psutil.Process) -> None:
    parts = [{"type": "text", "text": "x" * 250}] * 16_000
    bodies = {
        "one text": _ordinary("bench/slow", "word, and \n" * (BODY_BYTES // 13)),
        "one text with an emoji": json.dumps(
            {"model": "bench/slow", "messages": [{"role": "user", "content": "x" * BODY_BYTES + "\N{GRINNING FACE}"}]},
            ensure_ascii=False,
        ).encode(),
        "parts of 250 characters": _ordinary("bench/slow", parts),
    }
    sys.stdout.write(f"\n{f'{WAITING} waiting requests of':33}     MB  before  while  after   of their bodies\n")
    for name, body in bodies.items():
        before, meanwhile, after = asyncio.run(_measure(port, slow_port, _request(secret, body), worker))
        ratio = (meanwhile - before) / (WAITING * len(body) / 1e6)
        sys.stdout.write(f"{name:33} {len(body) / 1e6:6.1f} {before:7.0f} {meanwhile:6.0f} {after:6.0f} {ratio:10.1f}\n")
        sys.stdout.flush()


async def _measure(port: int, slow_port: int, request: bytes, worker: psutil.Process) -> tuple[float, float, float]:
    """Return the resident megabytes of the worker before, while and after the requests wait."""
    slow = _SlowUpstream()
    server = await asyncio.start_server(slow.hold, "127.0.0.1", slow_port)
    before = _megabytes(worker)
    waiting = [asyncio.create_task(_ask(port, request)) for _ in range(WAITING)]
    while slow.held < WAITING and not any(task.done() for task in waiting):
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)
    meanwhile = _megabytes(worker)
    slow.answer.set()
    statuses = await asyncio.gather(*waiting)
    assert set(statuses) == {b"200"}, statuses
    server.close()
    await asyncio.sleep(2)
    return before, meanwhile, _megabytes(worker)


def _megabytes(worker: psutil.Process) -> float:
    return float(worker.memory_info().rss / 1e6)


class _SlowUpstream:
    """An upstream that reads requests, and answers them when it is told to."""

    def __init__(self) -> None:
        self.held = 0
        self.answer = asyncio.Event()

    async def hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        while length > 0:
            length -= len(await reader.read(1_000_000))
        self.held += 1
        await self.answer.wait()
        choices = [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 9, "completion_tokens": 2}
        body = json.dumps({"object": "chat.completion", "choices": choices, "usage": usage}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return head[9:12]


if __name__ == "__main__":
    main()
