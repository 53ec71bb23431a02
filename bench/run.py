"""`make bench`: throughput of completions as a ratio to a bare view of the same server. The web process has one core.

    .venv/bin/python -m bench.run [SECONDS]

Machines are noisy: compare ratios within one run, not figures of two runs.
"""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from gateway_project.local import development

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
CLIENTS = (1, 8, 64, 256)
CATALOG = """
[providers.bench]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"

[models."bench/instant"]
name = "Instant"
provider = "Bench"
context_window = 128000
max_output_tokens = 4096
price = {{ input = "0.15", output = "0.60" }}
routes = [ {{ provider = "bench", upstream_model = "bench" }} ]
"""


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = prepared(directory)
    upstream_port, port = free_port(), free_port()
    environ["PORT"] = str(port)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        secret = fill(environ, directory, upstream_port)
        processes.append(start([PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
        processes.append(start([PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
        wait(port)
        _report(port, secret, seconds)
        sys.stdout.write(manage(environ, "verify_ledger"))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def prepared(directory: Path, database_url: str | None = None) -> dict[str, str]:
    """Return the environment of a gateway in ``directory``. A PostgreSQL that is not given runs as long as this process."""
    environ = {**os.environ, "GATEWAY_VAR": str(directory), "GATEWAY_DEVELOPMENT": "1", "WEB_CONCURRENCY": "1"}
    environ |= {"GATEWAY_KEY_REQUESTS_IN_FLIGHT": "100000", "GATEWAY_ACCOUNT_REQUESTS_IN_FLIGHT": "100000"}  # one key sends all
    environ.pop("DATABASE_URL", None)
    environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    if database_url:
        environ["DATABASE_URL"] = database_url
    development.prepare(environ)
    return environ


def fill(environ: dict[str, str], directory: Path, upstream_port: int, root: Path = ROOT) -> str:
    """Migrate, load a catalog of one model and credit one account, with the code in ``root``. Return the secret of its key."""
    load_catalog(environ, directory, upstream_port, root)
    return account(environ, "bench@example.org", root)


def load_catalog(environ: dict[str, str], directory: Path, upstream_port: int, root: Path = ROOT) -> None:
    catalog = directory / "bench.toml"
    catalog.write_text(CATALOG.format(port=upstream_port))
    manage(environ, "migrate", "--verbosity=0", root=root)
    manage(environ, "load_catalog", str(catalog), root=root)


def account(environ: dict[str, str], email: str, root: Path = ROOT) -> str:
    """Make an account with credit. Return the secret of its key."""
    manage(environ, "create_account", email, root=root)
    manage(environ, "grant_credit", email, "100000000", "--reason", "bench", root=root)
    return str(json.loads(manage(environ, "create_key", email, "--json", root=root))["secret"])


def manage(environ: dict[str, str], *arguments: str, root: Path = ROOT) -> str:
    return subprocess.run(
        [PYTHON, "manage.py", *arguments], env=environ, cwd=root, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def start(command: list[str], environ: dict[str, str], core: int | None = None, root: Path = ROOT) -> subprocess.Popen[bytes]:
    """Start a process, on one core or, without ``core``, on all."""
    confined = command if core is None else pinned(command, core)
    log = open(Path(environ["GATEWAY_VAR"]) / f"{Path(command[1]).stem}.log", "wb")  # noqa: SIM115  the process keeps it open
    return subprocess.Popen(confined, env=environ, cwd=root, stdout=log, stderr=log)


def pinned(command: list[str], core: int) -> list[str]:
    """Return the command pinned to a core, if ``taskset`` is installed."""
    if not shutil.which("taskset"):
        return command
    return ["taskset", "-c", str(core % (os.cpu_count() or 1)), *command]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait(port: int) -> None:
    for _ in range(300):
        try:
            urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).read()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the gateway did not become ready")


def _report(port: int, secret: str, seconds: float) -> None:
    hello = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    kinds = {"hello": hello, "whole": completion(secret, stream=False), "stream": completion(secret, stream=True)}
    for kind in ("whole", "stream"):
        load(port, 32, 2, kinds[kind])  # warm-up
    sys.stdout.write("clients  kind      req/s     p50 ms     p99 ms   of hello\n")
    for clients in CLIENTS:
        hello_per_second = None
        for kind, request in kinds.items():
            result = load(port, clients, seconds, request)
            hello_per_second = hello_per_second or result["per_second"]
            ratio = result["per_second"] / hello_per_second
            odd = "" if set(result["statuses"]) == {"200"} else f"  {result['statuses']}"
            figures = f"{result['per_second']:8.0f} {result['p50_ms']:10.2f} {result['p99_ms']:10.2f} {ratio:10.2f}"
            sys.stdout.write(f"{clients:7}  {kind:6} {figures}{odd}\n")
            sys.stdout.flush()


def completion(secret: str, *, stream: bool, **fields: int) -> bytes:
    message = {"role": "user", "content": "Say something."}
    body = {"model": "bench/instant", "messages": [message], "max_tokens": 200, **fields}
    return post(secret, {**body, "stream": True} if stream else body)


def post(secret: str, body: dict[str, Any]) -> bytes:
    """Return a request for a completion."""
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def load(port: int, clients: int, seconds: float, request: bytes) -> dict[str, Any]:
    """Return per_second, p50_ms, p95_ms, p99_ms, slowest_ms and statuses for this many clients. Uses wrk if it is installed."""
    measure = _by_wrk if shutil.which("wrk") else load_by_script
    result: dict[str, Any] = json.loads(measure(port, clients, seconds, request).splitlines()[-1])
    return result


def load_by_script(port: int, clients: int, seconds: float, request: bytes) -> bytes:
    command = [PYTHON, "bench/load.py", str(port), str(clients), str(seconds)]
    return subprocess.run(pinned(command, core=1), cwd=ROOT, input=request, stdout=subprocess.PIPE, check=True).stdout


def _by_wrk(port: int, clients: int, seconds: float, request: bytes) -> bytes:
    command = ["wrk", "-t1", f"-c{clients}", f"-d{math.ceil(seconds)}s", "--timeout=30s", "--script=bench/wrk.lua"]
    with tempfile.NamedTemporaryFile() as file:
        file.write(request)
        file.flush()
        environ = {**os.environ, "REQUEST": file.name}
        command = pinned([*command, f"http://127.0.0.1:{port}"], core=1)
        return subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    main()
