"""`make bench-peers`: completions a second beside Portkey's gateway, LiteLLM and nginx, in one run and on one core each.

    .venv/bin/python -m bench.peers [SECONDS]

Installs the peers in a folder of the system's for temporary files, which later runs use again: needs npm and nginx. Every
server is a proxy of the same upstream, which answers at once. They are measured in turns. Completions are whole, as these
releases of Portkey's gateway and LiteLLM do not answer streams. Both relay only. Ours authenticates, admits, charges and
settles each completion as well: its clients have eight accounts.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import venv
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench import run
from bench.upstream import WHOLE

PORTKEY, LITELLM = "@portkey-ai/gateway@1.15.2", "litellm[proxy]==1.105.7"
INSTALLED = Path(tempfile.gettempdir()) / "gateway-bench-peers"
_NODE, _PYTHON = INSTALLED / "portkey" / PORTKEY.rpartition("@")[2], INSTALLED / "litellm" / LITELLM.rpartition("=")[2]
ACCOUNTS = 8
OURS, UPSTREAM = "ours", "(upstream)"
_UPSTREAM_KEY = "sk-bench"
# The upstream is nginx, too: one written in Python would be slower than a proxy in C.
_NGINX = """
worker_processes 1; daemon off; pid {directory}/pid; error_log {directory}/error.log; {user}
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; client_body_buffer_size 64k;
  client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory};
  uwsgi_temp_path {directory}; scgi_temp_path {directory};
  upstream relayed {{ server 127.0.0.1:{upstream_port}; keepalive 512; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port}; location / {{ {answer} }} }}
}}
"""
_ANSWER = "default_type application/json; return 200 '{body}';"
_RELAY = 'proxy_pass http://relayed; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
_LITELLM = """
model_list:
  - model_name: bench/instant
    litellm_params: {{ model: openai/bench, api_base: "http://127.0.0.1:{port}/v1", api_key: {key} }}
litellm_settings: {{ telemetry: false }}
"""


class Peer(NamedTuple):
    """A server, and what is sent to it for a completion."""

    name: str
    port: int
    request: bytes = run.completion(_UPSTREAM_KEY, stream=False)


def main() -> None:
    [seconds] = run.numbers(sys.argv[1:], 6)
    _install()
    with run.Servers() as servers:
        upstream = _nginx(servers, UPSTREAM, _ANSWER.format(body=WHOLE.partition(b"\r\n\r\n")[2].decode()))
        nginx = _nginx(servers, "nginx", _RELAY, upstream.port)
        others = [start(servers, upstream.port) for start in (_ours, _portkey, _litellm)]
        _report([_answering(peer) for peer in (upstream, nginx, *others)], seconds)


def _install() -> None:
    """Install the peers, each version once."""
    if not (_NODE / "installed").exists():
        _NODE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", _NODE, PORTKEY], check=True)
        (_NODE / "installed").touch()
    if not (_PYTHON / "installed").exists():
        venv.create(_PYTHON, with_pip=True)
        subprocess.run([_PYTHON / "bin/python", "-m", "pip", "install", "--quiet", LITELLM], check=True)
        (_PYTHON / "installed").touch()


def _nginx(servers: run.Servers, name: str, answer: str, upstream_port: int = 1) -> Peer:
    """Start nginx: the upstream on the second core, a relay on the first."""
    directory, port = servers.directory / name, run.free_port()
    directory.mkdir()
    user = "user root;" if os.geteuid() == 0 else ""
    settings = {"directory": directory, "user": user, "upstream_port": upstream_port, "port": port, "answer": answer}
    (directory / "nginx.conf").write_text(_NGINX.format(**settings))
    command = ["nginx", "-c", str(directory / "nginx.conf"), "-p", str(directory), "-e", f"{directory}/error.log"]
    servers.start(command, core=1 if name == UPSTREAM else 0)
    return Peer(name, port)


def _ours(servers: run.Servers, upstream_port: int) -> Peer:
    environ = run.prepared(servers.directory)
    run.load_catalog(environ, servers.directory, upstream_port)
    secrets = [run.account(environ, f"bench{number}@example.org") for number in range(ACCOUNTS)]
    request = b"\0".join(run.completion(secret, stream=False) for secret in secrets)
    return Peer(OURS, servers.gateway(environ), request)


def _portkey(servers: run.Servers, upstream_port: int) -> Peer:
    port = run.free_port()
    server = _NODE / "node_modules/@portkey-ai/gateway/build/start-server.js"
    environ = {**os.environ, "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    servers.start(["node", str(server), f"--port={port}", "--headless"], environ, core=0)
    headers = f"x-portkey-provider: openai\r\nx-portkey-custom-host: http://127.0.0.1:{upstream_port}/v1\r\n"
    request = run.completion(_UPSTREAM_KEY, stream=False).replace(b"Content-Type", f"{headers}Content-Type".encode(), 1)
    return Peer("Portkey", port, request)


def _litellm(servers: run.Servers, upstream_port: int) -> Peer:
    port, config = run.free_port(), servers.directory / "litellm.yaml"
    config.write_text(_LITELLM.format(port=upstream_port, key=_UPSTREAM_KEY))
    options = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    environ = {**os.environ, "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    environ["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
    environ.pop("DATABASE_URL", None)
    servers.start([str(_PYTHON / "bin/litellm"), *options], environ, core=0)
    return Peer("LiteLLM", port)


def _answering(peer: Peer) -> Peer:
    """Wait until the server answers, which warms it up, and return it."""
    result: dict[str, Any] = {"statuses": "none"}
    for _ in range(600):
        with suppress(OSError, subprocess.CalledProcessError):  # it does not listen yet
            socket.create_connection(("127.0.0.1", peer.port)).close()
            result = run.load(peer.port, 32, 2, peer.request)
            if not run.odd(result):
                return peer
        time.sleep(0.2)
    raise SystemExit(f"{peer.name} does not answer: {result['statuses']}")


def _report(peers: list[Peer], seconds: float) -> None:
    names = [peer.name for peer in peers if peer.name != UPSTREAM]
    run.write_line(f"clients{''.join(f'{name:>10}' for name in names)}   ours as a ratio to each")
    for clients in run.CLIENTS:
        results = {peer.name: run.load(peer.port, clients, seconds, peer.request) for peer in peers}
        run.write_line(f"{clients:7}{_line(results, names)}")


def _line(results: dict[str, dict[str, Any]], names: list[str]) -> str:
    """Return the rates of the servers, the ratios of ours to each, and what ours adds to the upstream's own latency."""
    ours, rates = results[OURS], [results[name]["per_second"] for name in names]
    columns = "".join(f"{rate:10.0f}" for rate in rates)
    ratios = " ".join(f"{ours['per_second'] / rate:9.2f}" for rate in rates)
    odd = "".join(f"  {name}{run.odd(result)}" for name, result in results.items() if run.odd(result))
    return f"{columns}   {ratios}  {ours['p50_ms'] - results[UPSTREAM]['p50_ms']:7.2f} ms added{odd}"


if __name__ == "__main__":
    main()
