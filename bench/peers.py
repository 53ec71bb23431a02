"""`make bench-peers`: completions a second beside Portkey's gateway, LiteLLM and nginx, in one run and on one core each.

    .venv/bin/python -m bench.peers [SECONDS]

Installs the peers in a folder of the system's for temporary files, which later runs use again: needs npm and nginx; with wrk,
the clients take less of the other core. Every server is a proxy of the same upstream, which answers at once. They are measured
in turns, kind by kind and clients by clients. Portkey's gateway and LiteLLM relay only. Ours authenticates, admits, charges and
settles each completion as well: its clients have eight accounts.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import accounts, against, run
from bench.upstream import STREAM, WHOLE

PORTKEY, LITELLM = "@portkey-ai/gateway@1.15.2", "litellm[proxy]==1.105.7"
INSTALLED = Path(tempfile.gettempdir()) / "gateway-bench-peers"
ACCOUNTS, ROUNDS = 8, 2
OURS, UPSTREAM = "ours", "(upstream)"
_UPSTREAM_KEY = "sk-bench"
# The upstream is nginx, too: one written in Python would be slower than a proxy in C.
_NGINX = """
worker_processes 1; daemon off; pid {directory}/pid; error_log {directory}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_body_buffer_size 64k;
  client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory};
  uwsgi_temp_path {directory}; scgi_temp_path {directory};
  {servers}
}}
"""
_ANSWERS = """
  server {{
    listen 127.0.0.1:{port}; default_type application/json;
    location /whole/ {{ {whole} }}
    location /stream/ {{ default_type text/event-stream; {stream} }}
  }}
"""
_PROXY = """
  upstream relayed {{ server 127.0.0.1:{upstream_port}; keepalive 512; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://relayed; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
"""
_LITELLM = """
model_list:
  - model_name: bench/whole
    litellm_params: {{ model: openai/bench, api_base: "http://127.0.0.1:{port}/whole/v1", api_key: {key} }}
  - model_name: bench/stream
    litellm_params: {{ model: openai/bench, api_base: "http://127.0.0.1:{port}/stream/v1", api_key: {key} }}
litellm_settings: {{ telemetry: false }}
"""


class Peer(NamedTuple):
    """A server, and what is sent to it for a whole and for a streamed completion."""

    name: str
    port: int
    requests: dict[str, bytes]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    _install()
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        _report(list(_peers(directory, processes)), seconds)
    finally:
        against.end(processes)
        shutil.rmtree(directory, ignore_errors=True)


def _install() -> None:
    """Install the peers, each version once."""
    node, python = INSTALLED / "portkey" / PORTKEY.rpartition("@")[2], INSTALLED / "litellm" / LITELLM.rpartition("=")[2]
    if not (node / "installed").exists():
        node.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", node, PORTKEY], check=True)
        (node / "installed").touch()
    if not (python / "installed").exists():
        venv.create(python, with_pip=True)
        subprocess.run([python / "bin/python", "-m", "pip", "install", "--quiet", LITELLM], check=True)
        (python / "installed").touch()


def _peers(directory: Path, processes: "list[subprocess.Popen[bytes]]") -> Iterator[Peer]:
    """Start all servers, and yield each when it answers."""
    upstream_port = run.free_port()
    answers = [_returned(reply.partition(b"\r\n\r\n")[2].decode()) for reply in (WHOLE, STREAM)]
    upstream = _ANSWERS.format(port=upstream_port, whole=answers[0], stream=answers[1])
    processes.append(_nginx(directory / "upstream", upstream, core=1))
    yield _answering(Peer(UPSTREAM, upstream_port, _relayed({})))
    port = run.free_port()
    processes.append(_nginx(directory / "nginx", _PROXY.format(port=port, upstream_port=upstream_port), core=0))
    yield _answering(Peer("nginx", port, _relayed({})))
    yield _answering(_ours(directory / "ours", upstream_port, processes))
    yield _answering(_portkey(directory / "portkey", upstream_port, processes))
    yield _answering(_litellm(directory / "litellm", upstream_port, processes))


def _nginx(directory: Path, servers: str, core: int) -> "subprocess.Popen[bytes]":
    directory.mkdir()
    (directory / "nginx.conf").write_text(_NGINX.format(directory=directory, servers=servers))
    options = ["-c", str(directory / "nginx.conf"), "-p", str(directory), "-e", f"{directory}/error.log", "-g", "user root;"]
    if os.geteuid() != 0:
        del options[-2:]
    return run.start(["nginx", *options], {**os.environ, "GATEWAY_VAR": str(directory)}, core)


def _returned(body: str) -> str:
    """Return the statements of nginx that answer with a body. One of its texts may have four kilobytes."""
    pieces = [body[start : start + 3_000] for start in range(0, len(body), 3_000)]
    named = {f"$piece{len(body)}_{number}": piece for number, piece in enumerate(pieces)}
    return " ".join([*(f"set {name} '{piece}';" for name, piece in named.items()), f'return 200 "{"".join(named)}";'])


def _ours(directory: Path, upstream_port: int, processes: "list[subprocess.Popen[bytes]]") -> Peer:
    directory.mkdir()
    environ = run.prepared(directory)
    port = run.free_port()
    environ["PORT"] = str(port)
    catalog = directory / "bench.toml"
    catalog.write_text("".join(_catalog(kind, upstream_port) for kind in ("whole", "stream")))
    run.manage(environ, "migrate", "--verbosity=0")
    run.manage(environ, "load_catalog", str(catalog))
    filled = run.manage(environ, "shell", "--verbosity=0", "-c", accounts.fill(ACCOUNTS))
    secrets = json.loads(filled.splitlines()[-1])[1]
    processes.append(run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0))
    requests = {kind: b"\0".join(_request(secret, kind, {}) for secret in secrets) for kind in ("whole", "stream")}
    return Peer(OURS, port, requests)


def _catalog(kind: str, upstream_port: int) -> str:
    text = run.CATALOG.replace("instant", kind).replace("providers.bench", f"providers.{kind}")
    text = text.replace('provider = "bench"', f'provider = "{kind}"')
    return text.format(port=upstream_port).replace("/v1", f"/{kind}/v1")


def _portkey(directory: Path, upstream_port: int, processes: "list[subprocess.Popen[bytes]]") -> Peer:
    directory.mkdir()
    port = run.free_port()
    server = INSTALLED / "portkey" / PORTKEY.rpartition("@")[2] / "node_modules/@portkey-ai/gateway/build/start-server.js"
    environ = {**os.environ, "GATEWAY_VAR": str(directory), "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    processes.append(run.start(["node", str(server), f"--port={port}", "--headless"], environ, core=0))
    requests = {}
    for kind in ("whole", "stream"):
        host = f"http://127.0.0.1:{upstream_port}/{kind}/v1"
        requests[kind] = _request(_UPSTREAM_KEY, kind, {"x-portkey-provider": "openai", "x-portkey-custom-host": host})
    return Peer("Portkey", port, requests)


def _litellm(directory: Path, upstream_port: int, processes: "list[subprocess.Popen[bytes]]") -> Peer:
    directory.mkdir()
    port = run.free_port()
    (directory / "config.yaml").write_text(_LITELLM.format(port=upstream_port, key=_UPSTREAM_KEY))
    program = INSTALLED / "litellm" / LITELLM.rpartition("=")[2] / "bin/litellm"
    options = ["--config", str(directory / "config.yaml"), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    environ = {
        **os.environ,
        "GATEWAY_VAR": str(directory),
        "LITELLM_LOG": "ERROR",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    environ.pop("DATABASE_URL", None)
    processes.append(run.start([str(program), *options], environ, core=0))
    return Peer("LiteLLM", port, {kind: _request(_UPSTREAM_KEY, kind, {}) for kind in ("whole", "stream")})


def _relayed(headers: dict[str, str]) -> dict[str, bytes]:
    """Return requests to the upstream itself, or to a proxy that changes nothing."""
    return {
        kind: _request(_UPSTREAM_KEY, kind, headers).replace(b"POST /v1/", f"POST /{kind}/v1/".encode())
        for kind in ("whole", "stream")
    }


def _request(secret: str, kind: str, headers: dict[str, str]) -> bytes:
    body = {"model": f"bench/{kind}", "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 200}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = run.post(secret, {**body, "stream": True} if kind == "stream" else body)
    return request.replace(b"Content-Type", f"{lines}Content-Type".encode(), 1)


def _answering(peer: Peer) -> Peer:
    """Wait until the server answers, and return it."""
    result: dict[str, Any] = {"statuses": {}}
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", peer.port)).close()
            result = run.load(peer.port, 1, 1, peer.requests["whole"])
        except (OSError, IndexError, subprocess.CalledProcessError, ValueError):
            time.sleep(0.2)
            continue
        if set(result["statuses"]) == {"200"}:
            return peer
    raise SystemExit(f"{peer.name} does not answer: {result}")


def _report(peers: list[Peer], seconds: float) -> None:
    names = [peer.name for peer in peers if peer.name != UPSTREAM]
    sys.stdout.write(f"a second       {''.join(f'{name:>10}' for name in names)}   ours as a ratio to each\n")
    for kind in ("whole", "stream"):
        able = [
            peer for peer in peers if set(run.load(peer.port, 32, 2, peer.requests[kind])["statuses"]) == {"200"}
        ]  # warm-up
        for clients in run.CLIENTS:
            results = {peer.name: _measured(peer, kind, clients, seconds) for peer in able}
            sys.stdout.write(f"{kind:7} {clients:7}{_line(results, names)}\n")
            sys.stdout.flush()
    sys.stdout.write("-: answers no request of this kind with 200\n")


def _line(results: dict[str, dict[str, Any]], names: list[str]) -> str:
    """Return the rates of the servers, the ratios of ours to each, and what ours adds to the upstream's own latency."""
    ours = results[OURS]
    rates = {name: results[name]["per_second"] if name in results else None for name in names}
    columns = "".join("         -" if rate is None else f"{rate:10.0f}" for rate in rates.values())
    ratios = " ".join("        -" if rate is None else f"{ours['per_second'] / rate:9.2f}" for rate in rates.values())
    odd = {name: result["statuses"] for name, result in results.items() if set(result["statuses"]) != {"200"}}
    return f"{columns}   {ratios}  {ours['p50_ms'] - results[UPSTREAM]['p50_ms']:7.2f} ms added  {odd or ''}"


def _measured(peer: Peer, kind: str, clients: int, seconds: float) -> dict[str, Any]:
    """Return the median of several turns."""
    turns = [run.load(peer.port, clients, seconds, peer.requests[kind]) for _ in range(ROUNDS)]
    statuses = {status: number for turn in turns for status, number in turn["statuses"].items()}
    medians = {name: statistics.median(turn[name] for turn in turns) for name in ("per_second", "p50_ms")}
    return {**medians, "statuses": statuses}


if __name__ == "__main__":
    main()
