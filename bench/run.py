"""`make bench`: completions a second as a ratio to bare replies of the same server. The web process has one core.

    .venv/bin/python -m bench.run [SECONDS]

Machines are noisy: compare ratios within one run, not figures of two runs. What the other benchmarks share is here, too.
"""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from gateway_project.local import development

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
CLIENTS = (1, 8, 64, 256)
HELLO = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
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
    [seconds] = numbers(sys.argv[1:], 5)
    with Servers() as servers:
        environ = prepared(servers.directory)
        secret = fill(environ, servers.directory, servers.upstream())
        port = servers.gateway(environ)
        whole, stream = (completion(secret, stream=is_streamed) for is_streamed in (False, True))
        for request in (whole, stream):
            load(port, 32, min(2, seconds), request)  # warm-up
        _report(port, seconds, {"hello": HELLO, "whole": whole, "stream": stream})
        write_line(manage(environ, "verify_ledger"))


def _report(port: int, seconds: float, kinds: dict[str, bytes]) -> None:
    write_line("clients  kind      req/s     p50 ms     p99 ms   of hello")
    for clients in CLIENTS:
        results = {kind: load(port, clients, seconds, request) for kind, request in kinds.items()}
        for kind, result in results.items():
            figures = f"{result['per_second']:8.0f} {result['p50_ms']:10.2f} {result['p99_ms']:10.2f}"
            ratio = result["per_second"] / results["hello"]["per_second"]
            write_line(f"{clients:7}  {kind:6} {figures} {ratio:10.2f}{odd(result)}")


# --- A gateway to measure -------------------------------------------------------------------------------------------


class Servers:
    """The servers of a benchmark, with their logs in ``directory``, which is deleted at the end. They stop with the block."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bench-"))
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)  # first, so that it runs when PostgreSQL has stopped
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *raised: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(60)

    def start(
        self, command: Sequence[str], environ: dict[str, str] | None = None, core: int | None = None, root: Path = ROOT
    ) -> "subprocess.Popen[bytes]":
        """Start a process, on one core or, without ``core``, on all."""
        confined = command if core is None else pinned(command, core)
        log = self.directory / f"{len(self._processes)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(confined, env=environ, cwd=root, stdout=file, stderr=file)
        self._processes.append(process)
        return process

    def upstream(self, *events_per_second: float) -> int:
        """Start an upstream that answers at once, or at a pace. Return its port."""
        port = free_port()
        self.start([PYTHON, "bench/upstream.py", str(port), *map(str, events_per_second)], core=1)
        return port

    def gateway(self, environ: dict[str, str], root: Path = ROOT, core: int | None = 0) -> int:
        """Start a gateway with the code in ``root``. Return its port when it is ready."""
        port = free_port()
        command = [PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"]
        self.master = self.start(command, {**environ, "PORT": str(port)}, core, root)
        for _ in range(300):
            try:
                urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).read()
            except OSError:
                time.sleep(0.1)
            else:
                return port
        raise SystemExit("the gateway did not become ready")


def prepared(directory: Path, database_url: str | None = None) -> dict[str, str]:
    """Return the environment of a gateway in ``directory``. A PostgreSQL that is not given runs as long as this process."""
    environ = {**os.environ, "GATEWAY_VAR": str(directory), "GATEWAY_DEVELOPMENT": "1", "WEB_CONCURRENCY": "1", "REDIS_URL": ""}
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
    manage_all(environ, ["migrate", "--verbosity=0"], ["load_catalog", str(catalog)], root=root)


def account(environ: dict[str, str], email: str, root: Path = ROOT) -> str:
    """Make an account with credit. Return the secret of its key."""
    credit = ["grant_credit", email, "100000000", "--reason", "bench"]
    printed = manage_all(environ, ["create_account", email], credit, ["create_key", email, "--json"], root=root)
    return str(json.loads(printed.splitlines()[-1])["secret"])


def manage(environ: dict[str, str], *arguments: str, root: Path = ROOT) -> str:
    return subprocess.run(
        [PYTHON, "manage.py", *arguments], env=environ, cwd=root, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def execute_code(environ: dict[str, str], code: str, root: Path = ROOT) -> str:
    """Execute code with the gateway's models. Return what it prints."""
    return manage(environ, "shell", "--verbosity=0", "-c", code, root=root)


def manage_all(environ: dict[str, str], *commands: list[str], root: Path = ROOT) -> str:
    """Run commands in one process, as each takes seconds to start. Return what they print."""
    code = f"from django.core.management import call_command\nfor each in {commands}:\n    call_command(*each)"
    return execute_code(environ, code, root)


def pinned(command: Sequence[str], core: int) -> Sequence[str]:
    """Return the command pinned to a core, if ``taskset`` is installed."""
    if not shutil.which("taskset"):
        return command
    return ["taskset", "-c", str(core % (os.cpu_count() or 1)), *command]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- Requests and figures -------------------------------------------------------------------------------------------


def numbers(given: list[str], *defaults: float) -> list[float]:
    """Return the numbers of a command line, and the defaults of those that are not there."""
    return [*map(float, given), *defaults[len(given) :]]


def write_line(line: str) -> None:
    sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.flush()


def odd(result: dict[str, Any]) -> str:
    """Return the statuses of a result, if not all requests were answered with 200."""
    return "" if set(result["statuses"]) == {"200"} else f"  {result['statuses']}"


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
    """Return per_second, p50_ms, p95_ms, p99_ms, slowest_ms and statuses for this many clients."""
    command = pinned([PYTHON, "bench/load.py", str(port), str(clients), str(seconds)], core=1)
    done = subprocess.run(command, cwd=ROOT, input=request, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
