"""A proxy before a gateway, which keeps what a program sends: without secrets, and cut to what matters."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

_HEADERS = ("anthropic-beta", "anthropic-version", "x-stainless-helper", "x-stainless-helper-method")
_TEXT_CHARACTERS_MAX = 60
_TOOLS_MAX = 2  # of each kind, beside those that are called
_PATHS = re.compile(r"/(?:tmp|root|home|usr|var)/[\w./-]+")  # of this machine
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32,64}")


class Recorder:
    """Passes requests on to the gateway. ``requests`` has those with a body, as they came."""

    def __init__(self, gateway_port: int) -> None:
        self.requests: list[dict[str, Any]] = []
        self._gateway_port = gateway_port
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator["Recorder"]:
        Thread(target=self._server.serve_forever, daemon=True).start()
        yield self
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request: dict[str, Any] = {}
                if raw:
                    headers = {name: self.headers[name] for name in _HEADERS if name in self.headers}
                    request |= {"path": self.path, "headers": headers, "body": json.loads(raw)}
                    recorder.requests.append(request)
                upstream = http.client.HTTPConnection("127.0.0.1", recorder._gateway_port, timeout=120)
                upstream.request(self.command, self.path, raw or None, {**dict(self.headers), "Accept-Encoding": "identity"})
                reply = upstream.getresponse()
                request["is_refused"] = reply.status != 200
                self.send_response(reply.status)
                for name, value in reply.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                self.end_headers()
                while piece := reply.read1(65_536):
                    self.wfile.write(piece)
                upstream.close()

            do_GET = do_HEAD = do_POST

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler


def write(path: Path, requests: list[dict[str, Any]], folder: str) -> None:
    """Write the requests of a session. ``folder``, where the program worked, is that of nobody."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = [_cut(request) for request in json.loads(json.dumps(requests).replace(folder, "/path"))]
    lines = _PATHS.sub("/path", ",\n".join(json.dumps(request, ensure_ascii=False) for request in cut))
    path.write_text(f"[\n{lines}\n]\n")


def _cut(request: dict[str, Any]) -> dict[str, Any]:
    body = request["body"]
    called = {name for name in re.findall(r'"name": ?"([\w-]+)"', json.dumps(body.get("messages") or body.get("input") or ""))}
    tools, kinds = [], dict[str, int]()
    for tool in body.get("tools") or []:
        kind = tool.get("type") or "function"
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= _TOOLS_MAX or tool.get("name") in called or kind == "namespace":
            tools.append(tool)
    cut = _shortened({**body, **({"tools": tools} if "tools" in body else {})})
    return {"path": request["path"], "headers": request["headers"], "body": cut}


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if not isinstance(value, str):
        return value
    anonymous = _IDS.sub("0", value)
    is_long = len(anonymous) > _TEXT_CHARACTERS_MAX and not anonymous.startswith(("start:", "{"))
    return f"{anonymous[:_TEXT_CHARACTERS_MAX]} ..." if is_long else anonymous
