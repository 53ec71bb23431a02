"""A running gateway, and clients that use it through sockets as programs do."""

import http.client
import json
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from billing.models import Account, Hold
from tests import waiting
from tests.ledger_audit import assert_ledger_is_consistent

QUESTION = [{"role": "user", "content": "one two three"}]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Gateway:
    def __init__(self, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.port, self._process, self._log = port, process, log
        self.url = f"http://127.0.0.1:{port}"

    def runs(self) -> bool:
        return self._process.poll() is None

    def terminate(self) -> None:
        self._process.terminate()

    def stop(self) -> None:
        self.terminate()
        try:
            self._process.wait(waiting.PROCESS_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Kill the master first, so that it starts no other worker, and then its workers."""
        processes = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for process in processes:
            process.kill()
        self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def loaded(self) -> set[int]:
        """Return the process ids of the workers that have loaded the gateway."""
        return self._with_metrics("counter")

    def involved(self) -> set[int]:
        """Return the process ids of the workers that have answered a request."""
        return self._with_metrics("histogram")

    def _with_metrics(self, kind: str) -> set[int]:
        return {int(path.stem.rpartition("_")[2]) for path in self._log.parent.glob(f"metrics/{kind}_*.db")}

    def answered(self, line: str, since: int = 0) -> int:
        """Count the log lines such as ``POST /v1/chat/completions 402`` after ``since`` characters."""
        return self.log()[since:].count(f" {line} ")

    def request(self, method: str, path: str, *, secret: str = "", body: Any = None, **headers: str) -> Answer:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=waiting.PROCESS_SECONDS_MAX)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            if secret:
                given["Authorization"] = f"Bearer {secret}"
            if body is not None:
                given["Content-Type"] = "application/json"
            client.request(method, path, None if body is None else json.dumps(body), given)
            reply = client.getresponse()
            return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            client.close()

    def ask(self, secret: str, **fields: Any) -> Answer:
        body = {"model": "demo/echo", "messages": QUESTION, **fields}
        return self.request("POST", "/v1/chat/completions", secret=secret, body=body)

    def dial(self, *, receive_bytes: int | None = None) -> socket.socket:
        client = socket.socket()
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.settimeout(waiting.PROCESS_SECONDS_MAX)
        client.connect(("127.0.0.1", self.port))
        return client

    def ask_at_once(self, secret: str, body: bytes, count: int) -> list[socket.socket]:
        """Send the request on so many connections, all opened before the first is sent."""
        clients = [self.dial() for _ in range(count)]
        request = head(secret, f"Content-Length: {len(body)}") + body
        for client in clients:
            client.sendall(request)
        return clients

    def open_stream(self, secret: str, *, receive_bytes: int | None = None, **fields: Any) -> socket.socket:
        """Request a stream. Return its connection, with nothing read yet."""
        client = self.dial(receive_bytes=receive_bytes)
        body = json.dumps({"model": "demo/echo", "messages": QUESTION, "stream": True, **fields}).encode()
        client.sendall(head(secret, f"Content-Length: {len(body)}") + body)
        return client


def head(secret: str, *lines: str, target: str = "POST /v1/chat/completions") -> bytes:
    """Return the head of a request that is the only one of its connection."""
    given = [f"{target} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", "Content-Type: application/json"]
    return "\r\n".join([*given, f"Authorization: Bearer {secret}", *lines, "", ""]).encode()


def read_until(client: socket.socket, end: bytes) -> bytes:
    """Read until ``end`` arrives or the connection ends."""
    received = b""
    while end not in received and (data := client.recv(65_536)):
        received += data
    return received


def read_all(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(65_536):
        received += data
    return received


def answer(client: socket.socket) -> Answer:
    """Read the reply on a connection to its end."""
    with client, http.client.HTTPResponse(client) as reply:
        reply.begin()
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true."""
    waiting.until(condition, waiting.PROCESS_SECONDS_MAX)
    assert condition(), "the condition was not true in time"


def wait_until_settled(account: Account) -> None:
    """Wait until no hold is open. Then the ledger must be consistent."""
    eventually(lambda: not Hold.objects.filter(account=account, state=Hold.State.HELD).exists())
    assert Account.objects.get(pk=account.pk).held_nanos == 0
    assert_ledger_is_consistent()
